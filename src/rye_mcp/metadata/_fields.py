"""The fields of metadata: one table has the check of each, and the JSON Schema that says the same to editors.

Nothing is converted: a version that is a number, because its quotes are missing, is an issue and not guessed
at (`1.10` would be `1.1`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.items import MAX_ID_SEGMENTS, ItemFile, ItemType, is_item_id
from rye_mcp.metadata._flags import CALLING_KEYS, CALLING_MEANINGS, read_calling
from rye_mcp.metadata._raw import Issues, Raw, kind

__all__ = [
    "DEFAULT_VERSION",
    "FIELDS",
    "MAX_TEXT",
    "OF_TOOLS",
    "TOOL_TYPES",
    "ItemMetadata",
    "Schema",
    "check_fields",
]

Schema = dict[str, Any]

TOOL_TYPES: Final = (
    "primitive",
    "runtime",
    "tool",
    "library",
    "script",
    "python",
    "bash",
    "shell",
    "javascript",
    "typescript",
    "node",
    "ruby",
    "perl",
    "lua",
    "go",
    "rust",
    "sql",
    "http",
    "mcp",
)
"""What `tool_type` can be. The first two have a meaning of their own; all others are tools."""

DEFAULT_VERSION: Final = "0.0.0"
"""The version of an item that names none."""

MAX_TEXT: Final = 4096
"""How many characters a name, a description or a category may have."""

MAX_VERSION: Final = 64
"""How many characters a version may have."""

_SIMPLE_VERSION: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){0,5}", re.ASCII)
_VARIABLE: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,127}$", re.ASCII)


@dataclass(frozen=True, slots=True)
class ItemMetadata:
    """What an item says about itself, checked.

    Mappings and lists are shared by everybody who asks for the same bytes: they are to be read only. One that
    the item does not have is None, which is not the same as an empty one.
    """

    name: str
    """What it is called; by default the last segment of its id."""
    version: str = DEFAULT_VERSION
    description: str = ""
    category: str | None = None
    tool_type: str | None = None
    executor_id: str | None = None
    """The item that runs this one. None for a primitive, and for what `declares_executor` says no about."""
    declares_executor: bool = False
    """False for a library: it says nothing about an executor, and cannot be run."""
    config: Mapping[str, Any] | None = None
    config_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    env_config: Mapping[str, Any] | None = None
    anchor: Mapping[str, Any] | None = None
    verify_deps: Mapping[str, Any] | None = None
    child_constraints: Mapping[str, Any] | None = None
    inputs: Mapping[str, Any] | list[str] | None = None
    """Names, or a JSON Schema of them."""
    outputs: Mapping[str, Any] | list[str] | None = None
    permissions: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None
    runs_given_code: bool | None = None
    """Whether it runs code that its caller gives it, so that no run of it is sealed."""
    tags: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that it says, as it stands there."""

    @property
    def permitted_env(self) -> tuple[str, ...]:
        """`permissions.env`: variables that look like secrets, and that it may have all the same."""
        return tuple((self.permissions or {}).get("env", ()))

    @property
    def is_primitive(self) -> bool:
        """Whether a chain ends here."""
        return self.tool_type == "primitive"

    @property
    def is_runtime(self) -> bool:
        """Whether it runs others rather than being run."""
        return self.tool_type == "runtime"

    @property
    def is_library(self) -> bool:
        """Whether it is nothing that is run, or runs others."""
        return not self.declares_executor


def check_fields(raw: Raw, file: ItemFile, issues: Issues) -> ItemMetadata:
    """The metadata; what is wrong is added to the issues, and left out."""
    checked: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in raw.values.items():
        known = FIELDS.get(name)
        if known is None:
            extra[name] = value
        elif value is None:
            continue
        elif problem := known.problem(value):
            issues.add(f"{name}: {problem}", raw.lines.get(name), name, raw.column(name))
        else:
            checked[name] = value
    _check_roles(raw, file, issues)
    _check_calling(checked, raw, issues)
    if "tags" in checked:
        checked["tags"] = tuple(checked["tags"])
    checked.setdefault("name", file.item_id.rpartition("/")[2])
    checked.setdefault("description", (raw.description or "")[:MAX_TEXT])
    return ItemMetadata(declares_executor="executor_id" in raw.values, extra=extra, **checked)


def _check_roles(raw: Raw, file: ItemFile, issues: Issues) -> None:
    """What only tools have is in tools alone, and whether one has an executor fits what it is."""
    if file.item_type is not ItemType.TOOL:
        for name in OF_TOOLS & raw.values.keys():
            issues.add(f"{name}: expected none in a {file.item_type}, found one", raw.lines.get(name), name)
    elif problem := _executor_problem(raw.values):
        line = raw.lines.get("executor_id", raw.lines.get("tool_type"))
        issues.add(f"executor_id: {problem}", line, "executor_id")


def _check_calling(checked: Mapping[str, Any], raw: Raw, issues: Issues) -> None:
    """What a tool says about its flags fits its schema; a runtime may say it for tools that are not here."""
    config = checked.get("config")
    if config is None or checked.get("tool_type") == "runtime" or config.keys().isdisjoint(CALLING_KEYS[1:]):
        return
    for place, problem in read_calling({"arguments": "flags", **config}, checked.get("config_schema"))[1]:
        issues.add(f"config.{place}: {problem}", raw.lines.get("config"), "config")


def _executor_problem(values: Mapping[str, Any]) -> str | None:
    """A primitive says that it has no executor; whatever else speaks of one has one."""
    tool_type, executor = values.get("tool_type"), values.get("executor_id")
    declared = "executor_id" in values
    if tool_type == "primitive":
        if declared and executor is None:
            return None
        return (
            f"expected null for a primitive, found {executor!r}" if declared else "expected null, found none"
        )
    if executor is not None:
        return None
    if tool_type == "runtime":
        return "expected the id of a primitive, found none"
    if declared:
        return "expected an id, found null, which only a primitive has (tool_type: primitive)"
    return None


# --- one check a field: what is wrong, or nothing ---


def _expected(what: str, value: object) -> str:
    shown = f" {value}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    quotes = ": put it into quotes" if what == "text" and isinstance(value, bool | int | float) else ""
    return f"expected {what}, found {kind(value)}{shown}{quotes}"


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return _expected("text", value)
    if len(value) > MAX_TEXT:
        return f"expected at most {MAX_TEXT} characters, found {len(value)}"
    return None


def _name(value: Any) -> str | None:
    if problem := _text(value):
        return problem
    return None if value.strip() else "expected text, found only blanks"


def _version(value: Any) -> str | None:
    if not isinstance(value, str):
        return _expected("text", value)
    if _SIMPLE_VERSION.fullmatch(value) or _is_version(value):
        return None
    return f"expected a version such as 1.2.0, found {value[:MAX_VERSION]!r}"


@lru_cache(maxsize=256)
def _is_version(value: str) -> bool:
    from packaging.version import InvalidVersion, Version

    if len(value) > MAX_VERSION or value != value.strip():
        return False
    try:
        Version(value)
    except InvalidVersion:
        return False
    return True


def _tool_type(value: Any) -> str | None:
    if not isinstance(value, str):
        return _expected("text", value)
    if value in TOOL_TYPES:
        return None
    return f"expected one of {', '.join(TOOL_TYPES)}, found {value[:MAX_TEXT]!r}"


def _executor_id(value: Any) -> str | None:
    if not isinstance(value, str):
        return _expected("an item id", value)
    return None if is_item_id(value) else f"expected an item id, found {value[:MAX_TEXT]!r}"


def _mapping(value: Any) -> str | None:
    return None if isinstance(value, dict) else _expected("a mapping", value)


def _texts(value: Any) -> str | None:
    if not isinstance(value, list):
        return _expected("a list of texts", value)
    wrong = next((each for each in value if not isinstance(each, str)), None)
    if wrong is not None or None in value:
        return f"expected a list of texts, found {kind(wrong)} in it"
    return None


def _names_or_schema(value: Any) -> str | None:
    if isinstance(value, dict):
        if "required" in value and (problem := _texts(value["required"])):
            return f"required: {problem}"
        problem = _mapping(value["properties"]) if "properties" in value else None
        return problem and f"properties: {problem}"
    return _texts(value) and _expected("a list of names, or a JSON Schema", value)


def _child_constraints(value: Any) -> str | None:
    if problem := _mapping(value):
        return problem
    for key in ("min_version", "max_version"):
        if key in value and (problem := _version(value[key])):
            return f"{key}: {problem}"
    return None


def _permissions(value: Any) -> str | None:
    if problem := _mapping(value):
        return problem
    others = sorted(value.keys() - {"env"})
    if others:
        return f"expected env alone, found {', '.join(others)}, which is not supported yet"
    names = value.get("env", [])
    if problem := _texts(names):
        return f"env: {problem}"
    wrong = next((name for name in names if not _VARIABLE.fullmatch(name)), None)
    return None if wrong is None else f"env: expected names of variables, found {wrong[:MAX_TEXT]!r}"


HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""What `annotations` can say of a tool with true or false."""


def _annotations(value: Any) -> str | None:
    if problem := _mapping(value):
        return problem
    if "title" in value and (problem := _text(value["title"])):
        return f"title: {problem}"
    for hint in HINTS:
        if hint in value and not isinstance(value[hint], bool):
            return f"{hint}: {_expected('true or false', value[hint])}"
    return None


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else _expected("true or false", value)


# --- the same for editors: the JSON Schema that accepts what a check accepts ---


_SEGMENT: Final = r"(?!__pycache__(?:/|$))[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_ITEM_ID: Final = rf"^{_SEGMENT}(?:/{_SEGMENT}){{0,{MAX_ID_SEGMENTS - 1}}}$"


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


def _schema_of_text(meaning: str, **more: Any) -> Schema:
    return {"description": meaning, "type": "string", "maxLength": MAX_TEXT, **more}


def _schema_of_mapping(meaning: str, **more: Any) -> Schema:
    return {"description": meaning, "type": "object", **more}


def _schema_of_texts(meaning: str, **items: Any) -> Schema:
    return {"description": meaning, "type": "array", "items": {"type": "string", **items}}


def _schema_of_version(meaning: str) -> Schema:
    return {"description": meaning, "type": "string", "maxLength": MAX_VERSION, "pattern": _VERSION}


def _schema_of_names_or_schema(meaning: str) -> Schema:
    of_schema = {
        "required": _schema_of_texts("Those that have to be there."),
        "properties": _schema_of_mapping("Each by its name."),
    }
    return {
        "description": meaning,
        "anyOf": [_schema_of_texts("Names."), {"type": "object", "properties": of_schema}],
    }


@dataclass(frozen=True, slots=True)
class Field:
    """A field: `problem` says what is wrong with a value; `schema` accepts every value without a problem."""

    problem: Callable[[Any], str | None]
    schema: Schema
    tools_only: bool = False


FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "name": Field(
            _name, _schema_of_text("Its name; by default the last segment of its id.", pattern=r"\S")
        ),
        "version": Field(_version, _schema_of_version("Its version, in quotes, such as 1.2.0.")),
        "description": Field(_text, _schema_of_text("What it does, for people and agents that search.")),
        "category": Field(_text, _schema_of_text("A group that it belongs to, such as media/video.")),
        "tool_type": Field(
            _tool_type,
            {
                "description": "primitive and runtime have a special meaning; all others are tools.",
                "enum": list(TOOL_TYPES),
            },
            tools_only=True,
        ),
        "executor_id": Field(
            _executor_id,
            {
                "description": "The item that runs this one, such as rye/core/runtimes/python_runtime.",
                "type": "string",
                "pattern": _ITEM_ID,
            },
            tools_only=True,
        ),
        "config": Field(
            _mapping,
            _schema_of_mapping(
                "What its executor is given: timeout, max_output, cwd; of an HTTP tool the request.",
                properties={name: {"description": text} for name, text in CALLING_MEANINGS.items()},
            ),
        ),
        "config_schema": Field(_mapping, _schema_of_mapping("The JSON Schema of its parameters.")),
        "output_schema": Field(_mapping, _schema_of_mapping("The JSON Schema of its result.")),
        "env_config": Field(
            _mapping, _schema_of_mapping("Where to look for an interpreter, and variables."), tools_only=True
        ),
        "anchor": Field(_mapping, _schema_of_mapping("When several files are one tool."), tools_only=True),
        "verify_deps": Field(
            _mapping, _schema_of_mapping("Which files next to it have to be signed."), tools_only=True
        ),
        "child_constraints": Field(
            _child_constraints,
            _schema_of_mapping(
                "Versions of the tools that it runs.",
                properties={
                    "min_version": _schema_of_version("The first one."),
                    "max_version": _schema_of_version("The last one."),
                },
            ),
        ),
        "inputs": Field(
            _names_or_schema, _schema_of_names_or_schema("What it takes: names, or a JSON Schema.")
        ),
        "outputs": Field(
            _names_or_schema, _schema_of_names_or_schema("What it passes on: names, or a JSON Schema.")
        ),
        "permissions": Field(
            _permissions,
            _schema_of_mapping(
                "What it gets although it looks like a secret.",
                properties={"env": _schema_of_texts("Names of variables.", pattern=_VARIABLE.pattern)},
                additionalProperties=False,
            ),
            tools_only=True,
        ),
        "annotations": Field(
            _annotations,
            _schema_of_mapping(
                "What clients are told of a tool.",
                properties={
                    "title": _schema_of_text("A title."),
                    **{hint: {"type": "boolean"} for hint in HINTS},
                },
            ),
        ),
        "runs_given_code": Field(
            _flag,
            {
                "description": "Whether it runs code that its caller gives it; such a run is never sealed.",
                "type": "boolean",
            },
            tools_only=True,
        ),
        "tags": Field(_texts, _schema_of_texts("Words by which it is found.")),
    }
)
"""Every field, by its name."""

OF_TOOLS: Final = frozenset(name for name, each in FIELDS.items() if each.tools_only)
"""What nothing but a tool has."""
