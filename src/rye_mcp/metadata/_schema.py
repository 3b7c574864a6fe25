"""The metadata of an item as a JSON Schema (draft 7), for editors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rye_mcp.metadata._fields import EXAMPLES, EXAMPLES_FORM, FIELDS, OF_TOOLS
from rye_mcp.metadata._forms import Schema, or_null

__all__ = ["SCHEMA_KINDS", "metadata_schema"]

SCHEMA_KINDS: Final = ("tool", "runtime", "primitive", "directive", "knowledge")
"""The kinds of schemas: tools of three kinds, and the other types of items."""

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"

_ROLES: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "tool": {"properties": {"tool_type": {"not": {"enum": ["primitive", "runtime"]}}}},
        "runtime": {
            "properties": {"tool_type": {"const": "runtime"}},
            "required": ["tool_type", "executor_id"],
        },
        "primitive": {
            "properties": {"tool_type": {"const": "primitive"}, "executor_id": {"const": None}},
            "required": ["tool_type", "executor_id"],
        },
    }
)


def metadata_schema(kind: str) -> Schema:
    """The JSON Schema of what stands in YAML, in comments or in front matter; ValueError for no kind.

    Keys that the table does not have are accepted.
    """
    if kind not in SCHEMA_KINDS:
        raise ValueError(f"expected one of {', '.join(SCHEMA_KINDS)}, found {kind!r}")
    is_tool = kind in _ROLES
    fields: dict[str, Schema | bool] = {name: or_null(each.schema) for name, each in FIELDS.items()}
    if not is_tool:
        fields |= dict.fromkeys(sorted(OF_TOOLS), False)
    else:
        fields["executor_id"] = {"type": "null"} if kind == "primitive" else FIELDS["executor_id"].schema
        fields[EXAMPLES] = or_null(EXAMPLES_FORM.schema)
    return {
        "$schema": _DRAFT,
        "title": f"rye: a {kind}" if kind != "knowledge" else "rye: knowledge",
        "type": "object",
        "properties": fields,
        **({"allOf": [_ROLES[kind]]} if is_tool else {}),
    }
