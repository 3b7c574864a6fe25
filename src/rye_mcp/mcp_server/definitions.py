"""The four tools that agents call, as data, and the check of a call's arguments against them.

The texts are written for a model that reads them once and has to call right the first time. Each argument has
a type, even beside `enum`. A check reports everything that is wrong at once, and suggests a name for an
argument that does not exist. Where the schema takes no text, text is read as JSON, once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.close_names import close_names
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType

__all__ = ["DEFINITIONS", "Definition", "check_arguments"]


@dataclass(frozen=True, slots=True)
class Definition:
    """One tool. `hints` are those of MCP's annotations."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    hints: Mapping[str, bool]
    output: Mapping[str, Any]
    input_schema: dict[str, Any] = field(init=False, repr=False)
    """The schema of the arguments, which everybody shares."""
    defaults: Mapping[str, Any] = field(init=False, repr=False)
    """Values of missing arguments. No schema has another default any deeper: a test checks it."""

    def __post_init__(self) -> None:
        schema = {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.properties.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }
        defaults = {name: each["default"] for name, each in self.properties.items() if "default" in each}
        object.__setattr__(self, "input_schema", schema)
        object.__setattr__(self, "defaults", MappingProxyType(defaults))

    @property
    def output_schema(self) -> dict[str, Any]:
        """The schema of the structured content of an answer that is no error."""
        return {"type": "object", "properties": dict(self.output)}


_ITEM_ID: Final = {"type": "string", "description": "Id of the item, such as demo/hello."}
_ITEM_TYPE: Final = {"type": "string", "enum": [each.value for each in ItemType], "default": "tool"}
_RUN_ID: Final = {"type": "string", "description": "Instead of item_id."}
_KEPT_ID: Final = {"type": "string", "description": "Instead of item_id: a handle."}
_PROJECT: Final = {"type": "string", "description": "Absolute; default: the server's project."}

_TEXT: Final = {"type": "string"}
_LIST: Final = {"type": "array"}
_NONE: Final = {"type": "null"}

_RESULTS: Final = {
    "results": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": _TEXT, "description": _TEXT, "runnable": {"type": "boolean"}},
            "required": ["id"],
        },
    },
    "total": {"type": "integer"},
    "did_you_mean": _LIST,
    "notices": _LIST,
}
_LOADED: Final = {
    "content": _TEXT,
    "metadata": {"type": "object"},
    "integrity": {"type": "object"},
    "path": _TEXT,
    "copied_to": _TEXT,
    "next_offset": {"anyOf": [{"type": "integer"}, _NONE]},
}
_RAN: Final = {
    "status": _TEXT,
    "run_id": {"anyOf": [_TEXT, _NONE]},
    "data": {"description": "What the tool returned."},
    "output": {"type": "string", "description": "Handle of output that was cut."},
    "kept": _LIST,
    "instructions": _TEXT,
    "content": _TEXT,
    "notices": _LIST,
}
_SIGNED: Final = {
    "status": _TEXT,
    "path": _TEXT,
    "warnings": _LIST,
    "signed": _LIST,
    "failed": _LIST,
    "unchanged": _LIST,
}

_SEARCH: Final = Definition(
    "search",
    "Search items",
    "Find items by what they are for, the best first. Write what you want to do in plain words; AND, OR, "
    'NOT, "phrases", prefix* and field:word work too.',
    {
        "query": {"type": "string", "default": "", "description": "Empty lists everything."},
        "scope": {"type": "string", "default": "tool", "description": "Type, and ids: directive.demo.*"},
        "space": {"type": "string", "enum": ["all", "project", "user", "system"], "default": "all"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "sort_by": {"type": "string", "enum": ["score", "name", "date"], "default": "score"},
        "fields": {"type": "array", "items": {"type": "string"}, "description": "Search these fields only."},
        "filters": {
            "type": "object",
            "description": "Such as category, tags or tool_type: a value or several.",
        },
        "fuzzy": {
            "anyOf": [{"type": "boolean"}, {"type": "object"}],
            "default": False,
            "description": 'Allow misspellings; {"max_distance": 1 | 2}.',
        },
        "detail": {"type": "boolean", "default": False, "description": "Add schemas, previews, reasons."},
        "project_path": _PROJECT,
    },
    (),
    MappingProxyType({"readOnlyHint": True, "idempotentHint": True}),
    _RESULTS,
)

_LOAD: Final = Definition(
    "load",
    "Load an item",
    "Read a verified item: its content and metadata (schema, description, signer). With destination, copy it "
    "to another space. With run_id instead, read what was kept of a run.",
    {
        "item_id": _ITEM_ID,
        "item_type": _ITEM_TYPE,
        "source": {"type": "string", "enum": ["project", "user", "system"]},
        "file": {"type": "string", "description": "Path of a file of a skill."},
        "destination": {"type": "string", "enum": ["project", "user"]},
        "overwrite": {"type": "boolean", "default": False},
        "run_id": _KEPT_ID,
        "stream": {"type": "string", "enum": ["stdout", "stderr", "result"]},
        "offset": {"type": "integer", "description": "In bytes; below 0 from the end."},
        "length": {"type": "integer", "minimum": 1},
        "pattern": {"type": "string", "description": "Regular expression for lines."},
        "project_path": _PROJECT,
    },
    (),
    MappingProxyType({"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}),
    _LOADED,
)

_EXECUTE: Final = Definition(
    "execute",
    "Execute an item",
    "Run a signed tool, or get the text of a directive, a skill or knowledge. Call load first to see a "
    "tool's parameters. dry_run shows what would run. async returns a run_id at once; call again with "
    "it and an action to follow or end the run.",
    {
        "item_id": _ITEM_ID,
        "item_type": _ITEM_TYPE,
        "parameters": {"type": "object", "default": {}, "description": "By the tool's own schema."},
        "dry_run": {"type": "boolean", "default": False},
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Seconds; lowers the tool's own.",
        },
        "async": {"type": "boolean", "default": False},
        "as_handle": {"type": "boolean", "default": False, "description": "Keep data."},
        "run_id": _RUN_ID,
        "action": {"type": "string", "enum": ["status", "cancel"]},
        "detail": {"type": "boolean", "default": False, "description": "Add chain, lock and all output."},
        "project_path": _PROJECT,
    },
    (),
    MappingProxyType({"readOnlyHint": False, "openWorldHint": True}),
    _RAN,
)

_SIGN: Final = Definition(
    "sign",
    "Sign items",
    "Check and sign an item of the project that you wrote, so that it can run: a new one, or one that an "
    "agent signed before. What a person signed, only a person signs again. A pattern such as demo/* signs "
    "all that match.",
    {
        "item_id": {"type": "string", "description": "An id, or a pattern with * and ?."},
        "item_type": _ITEM_TYPE,
        "source": {
            "type": "string",
            "enum": ["project", "user"],
            "default": "project",
            "description": "user needs a person.",
        },
        "with": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Files beside one tool that it needs.",
        },
        "project_path": _PROJECT,
    },
    ("item_id",),
    MappingProxyType({"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}),
    _SIGNED,
)

DEFINITIONS: Final[Mapping[str, Definition]] = MappingProxyType(
    {each.name: each for each in (_SEARCH, _LOAD, _EXECUTE, _SIGN)}
)
"""Name → tool, in the order in which they are listed."""


_SHOWN_CHARACTERS = 80
_COMPARED = 10
_IDS = frozenset({"id", "name", "tool", "item"})


def check_arguments(definition: Definition, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments with defaults; RyeError with all that is wrong."""
    from lilux.schemas import validate_parameters

    arguments = dict(given or {})
    unknown = sorted(arguments.keys() - definition.properties.keys())
    if unknown:
        known = ", ".join(definition.properties)
        found = ", ".join(name[:_SHOWN_CHARACTERS] for name in unknown)
        what = f"expected arguments of {definition.name} out of {known}, found {found}"
        hint = _hint_for(unknown, definition.properties) or f"leave out {found}"
        raise RyeError("unknown_argument", what, hint=hint, known=list(definition.properties))
    read = {name: _read(definition.properties[name], value) for name, value in arguments.items()}
    values = {name: copy(default) for name, default in definition.defaults.items()} | read
    errors = validate_parameters(values, definition.input_schema).errors
    if errors:
        listed = "; ".join(map(str, errors))
        issues = [{"path": error.field, "message": error.error} for error in errors]
        what = f"expected the arguments of {definition.name}, found: {listed}"
        raise RyeError("invalid_parameters", what, hint=f"correct {errors[0].field}", issues=issues)
    return values


def _hint_for(unknown: Sequence[str], known: Collection[str]) -> str:
    """Suggest a known argument for each unknown one: without it, this would be a different call.

    Only the first of very many are compared: each takes a while, and no other client is answered meanwhile.
    """
    unknown = unknown[:_COMPARED]
    close = {name: close_names(name[:_SHOWN_CHARACTERS], known) for name in unknown}
    close |= {name: ["item_id"] for name in unknown if name in _IDS and "item_id" in known}
    meant = [f"{found[0]} instead of {name[:_SHOWN_CHARACTERS]}" for name, found in close.items() if found]
    return f"perhaps {', '.join(meant)}" if meant else ""


def _read(schema: Mapping[str, Any], value: Any) -> Any:
    """Return the value of a text, where the schema takes anything but text."""
    branches = schema.get("anyOf", (schema,))
    if not isinstance(value, str) or any(each.get("type", "string") == "string" for each in branches):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
