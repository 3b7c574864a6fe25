"""From what an item says about itself to its metadata: every field has a type, and every mistake is found.

What a field is, stands in one table. Nothing is converted: a version that is a number, because its quotes
are missing, is an issue and not guessed at (`1.10` would be `1.1`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.items import ItemFile, ItemType, is_item_id
from rye_mcp.metadata._flags import CALLING_KEYS, read_calling
from rye_mcp.metadata._issues import Issues
from rye_mcp.metadata._values import Raw, kind

__all__ = [
    "DEFAULT_VERSION",
    "FIELDS",
    "HINTS",
    "MAX_TEXT",
    "MAX_VERSION",
    "OF_TOOLS",
    "TOOL_TYPES",
    "ItemMetadata",
    "check_fields",
    "problem_of",
]

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
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


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
        check = _CHECKS.get(name)
        if check is None:
            extra[name] = value
        elif value is None:
            continue
        elif problem := check(value):
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


_CHECKS: Final[Mapping[str, Callable[[Any], str | None]]] = MappingProxyType(
    {
        "name": _name,
        "version": _version,
        "description": _text,
        "category": _text,
        "tool_type": _tool_type,
        "executor_id": _executor_id,
        "config": _mapping,
        "config_schema": _mapping,
        "output_schema": _mapping,
        "env_config": _mapping,
        "anchor": _mapping,
        "verify_deps": _mapping,
        "child_constraints": _child_constraints,
        "inputs": _names_or_schema,
        "outputs": _names_or_schema,
        "permissions": _permissions,
        "annotations": _annotations,
        "runs_given_code": _flag,
        "tags": _texts,
    }
)

OF_TOOLS: Final = frozenset(
    {"tool_type", "executor_id", "env_config", "anchor", "verify_deps", "permissions", "runs_given_code"}
)
"""What nothing but a tool has."""

FIELDS: Final = tuple(_CHECKS)
"""The name of every field."""


def problem_of(name: str, value: Any) -> str | None:
    """What is wrong with the value of a field; None when nothing is."""
    return _CHECKS[name](value)
