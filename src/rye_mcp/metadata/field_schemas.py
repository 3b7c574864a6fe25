"""The metadata of an item as a JSON Schema (draft 7) for editors: they complete it, and underline mistakes.

The check beside each schema in `_fields` decides, never the schema. Keys that the table does not have are
accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rye_mcp.items import ItemType
from rye_mcp.metadata._examples import EXAMPLES_SCHEMA
from rye_mcp.metadata._fields import FIELDS, OF_TOOLS, Schema

__all__ = ["SCHEMA_KINDS", "metadata_schema"]

SCHEMA_KINDS: Final = ("tool", "runtime", "primitive", "directive", "knowledge")
"""What there are schemas of: tools of three kinds, and the other types of items."""

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
    """The JSON Schema of what stands in YAML, in comments or in front matter; ValueError for no kind."""
    if kind not in SCHEMA_KINDS:
        raise ValueError(f"expected one of {', '.join(SCHEMA_KINDS)}, found {kind!r}")
    is_tool = kind not in {str(ItemType.DIRECTIVE), str(ItemType.KNOWLEDGE)}
    left_out = frozenset() if is_tool else OF_TOOLS
    names = [name for name in FIELDS if name not in left_out and not (is_tool and name == "executor_id")]
    properties = {name: _or_null(FIELDS[name].schema) for name in names}
    if is_tool:
        executor = FIELDS["executor_id"].schema
        properties["executor_id"] = executor if kind != "primitive" else {"type": "null"}
        properties["examples"] = _or_null(dict(EXAMPLES_SCHEMA))
    forbidden = dict.fromkeys(sorted(left_out), False)
    return {
        "$schema": _DRAFT,
        "title": f"rye: a {kind}" if kind != "knowledge" else "rye: knowledge",
        "type": "object",
        "properties": properties | forbidden,
        **({"allOf": [_ROLES[kind]]} if kind in _ROLES else {}),
    }


def _or_null(schema: Schema) -> Schema:
    """The same, or nothing, which is what null means everywhere else."""
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
