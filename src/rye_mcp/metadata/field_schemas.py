"""The metadata of an item as a JSON Schema, for editors: they complete it, and underline what is wrong.

Rules:

- There is a schema for every field of the table in `rye_mcp.metadata._fields`, and it accepts what the check
  there accepts; a test compares the two. What the table does not know is kept as it is: more keys are fine.
- Draft 7: the newest one that every editor knows.
- It is for people. What decides is the check, never the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.errors import ERRORS
from rye_mcp.items import MAX_ID_SEGMENTS, ItemType
from rye_mcp.metadata._examples import MAX_EXAMPLES
from rye_mcp.metadata._fields import FIELDS, HINTS, MAX_TEXT, MAX_VERSION, OF_TOOLS, TOOL_TYPES

__all__ = ["SCHEMA_KINDS", "metadata_schema"]

SCHEMA_KINDS: Final = ("tool", "runtime", "primitive", "directive", "knowledge")
"""What there are schemas of: tools of three kinds, and the other types of items."""

Schema = dict[str, Any]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_SEGMENT: Final = r"(?!__pycache__(?:/|$))[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_ITEM_ID: Final = rf"^{_SEGMENT}(?:/{_SEGMENT}){{0,{MAX_ID_SEGMENTS - 1}}}$"
_VARIABLE: Final = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"


def _any_case(*words: str) -> str:
    """A pattern for these words, in capitals or not, which a schema cannot say otherwise."""
    return "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in words)


_VERSION: Final = (
    r"^[vV]?(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*"
    rf"(?:[-_.]?(?:{_any_case('alpha', 'a', 'beta', 'b', 'preview', 'pre', 'c', 'rc')})(?:[-_.]?[0-9]+)?)?"
    rf"(?:-[0-9]+|[-_.]?(?:{_any_case('post', 'rev', 'r')})(?:[-_.]?[0-9]+)?)?"
    rf"(?:[-_.]?(?:{_any_case('dev')})(?:[-_.]?[0-9]+)?)?"
    r"(?:\+[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*)?$"
)


def _text(meaning: str, **more: Any) -> Schema:
    return {"description": meaning, "type": "string", "maxLength": MAX_TEXT, **more}


def _mapping(meaning: str, **more: Any) -> Schema:
    return {"description": meaning, "type": "object", **more}


def _texts(meaning: str, **items: Any) -> Schema:
    return {"description": meaning, "type": "array", "items": {"type": "string", **items}}


def _version(meaning: str) -> Schema:
    return {"description": meaning, "type": "string", "maxLength": MAX_VERSION, "pattern": _VERSION}


def _names_or_schema(meaning: str) -> Schema:
    of_schema = {
        "required": _texts("Those that have to be there."),
        "properties": _mapping("Each by its name."),
    }
    return {"description": meaning, "anyOf": [_texts("Names."), {"type": "object", "properties": of_schema}]}


_EXAMPLE: Final[Schema] = _mapping(
    "A call, and what is to come of it.",
    properties={
        "description": {"type": "string"},
        "parameters": _mapping("What the tool is called with."),
        "files": _mapping(
            "Texts by their paths, written into the project of the run first.",
            additionalProperties={"type": "string"},
        ),
        "expect": {
            "description": "What is to come of it; without it, success will do.",
            "oneOf": [
                {"properties": {"data": {"description": "Exactly this."}}, "required": ["data"]},
                {"properties": {"contains": {"description": "A part of it."}}, "required": ["contains"]},
                {"properties": {"code": {"enum": sorted(ERRORS)}}, "required": ["code"]},
            ],
            "type": "object",
            "maxProperties": 1,
        },
    },
    required=["parameters"],
    additionalProperties=False,
)

_CALLING: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "arguments": {
            "description": "flags: the program gets its parameters as --name=value.",
        },
        "flags": {
            "description": "The flags of parameters: --dry-run, --color/--no-color, -v..., --name=VALUE.",
        },
        "positionals": {
            "description": "The parameters that are passed by their places; -- where the program knows it.",
        },
        "subcommand": {"description": "A word that comes before all flags."},
    }
)
"""Help for tools that are called with flags. What other primitives mean by these names is not known here."""

_FIELD_SCHEMAS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "name": _text("Its name; by default the last segment of its id.", pattern=r"\S"),
        "version": _version("Its version, in quotes, such as 1.2.0."),
        "description": _text("What it does, for people and agents that search."),
        "category": _text("A group that it belongs to, such as media/video."),
        "tool_type": {
            "description": "primitive and runtime have a special meaning; all others are tools.",
            "enum": list(TOOL_TYPES),
        },
        "executor_id": {
            "description": "The item that runs this one, such as rye/core/runtimes/python_runtime.",
            "type": "string",
            "pattern": _ITEM_ID,
        },
        "config": _mapping(
            "What its executor is given: timeout, max_output, cwd; of an HTTP tool the request.",
            properties=dict(_CALLING),
        ),
        "config_schema": _mapping("The JSON Schema of its parameters."),
        "output_schema": _mapping("The JSON Schema of its result."),
        "env_config": _mapping("Where to look for an interpreter, and variables."),
        "anchor": _mapping("When several files are one tool."),
        "verify_deps": _mapping("Which files next to it have to be signed."),
        "child_constraints": _mapping(
            "Versions of the tools that it runs.",
            properties={
                "min_version": _version("The first one."),
                "max_version": _version("The last one."),
            },
        ),
        "inputs": _names_or_schema("What it takes: names, or a JSON Schema."),
        "outputs": _names_or_schema("What it passes on: names, or a JSON Schema."),
        "permissions": _mapping(
            "What it gets although it looks like a secret.",
            properties={"env": _texts("Names of variables.", pattern=_VARIABLE)},
            additionalProperties=False,
        ),
        "annotations": _mapping(
            "What clients are told of a tool.",
            properties={"title": _text("A title."), **{hint: {"type": "boolean"} for hint in HINTS}},
        ),
        "runs_given_code": {
            "description": "Whether it runs code that its caller gives it; such a run is never sealed.",
            "type": "boolean",
        },
        "tags": _texts("Words by which it is found."),
    }
)

_EXAMPLES: Final[Schema] = {
    "description": "Calls that show how it is used; rye test runs them.",
    "type": "array",
    "maxItems": MAX_EXAMPLES,
    "items": _EXAMPLE,
}

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
    properties = {name: _or_null(_FIELD_SCHEMAS[name]) for name in names}
    if is_tool:
        executor = _FIELD_SCHEMAS["executor_id"]
        properties["executor_id"] = executor if kind != "primitive" else {"type": "null"}
        properties["examples"] = _or_null(_EXAMPLES)
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
