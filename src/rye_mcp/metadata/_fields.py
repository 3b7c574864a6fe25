"""The fields of metadata: the table of their forms, what they become, and the JSON Schemas of items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import kind
from rye_mcp.items import MAX_ID_SEGMENTS, ItemFile, ItemType, is_item_id
from rye_mcp.metadata._flags import CALLING_KEYS, CALLING_MEANINGS, read_calling
from rye_mcp.metadata._forms import (
    ANYTHING,
    MAX_TEXT,
    Form,
    Problem,
    Schema,
    either,
    flag,
    list_of,
    mapping,
    one_of,
    text,
)
from rye_mcp.metadata._placing import (
    PLACEMENT_FORM,
    RESOURCES_FORM,
    WORKSPACE_FORM,
    Engine,
    Placement,
    Resources,
    placing_problems,
    read_engine,
    read_placement,
    read_resources,
)
from rye_mcp.metadata._raw import Issues, Raw, Way
from rye_mcp.metadata._warm import WARM_FORM, Warm, read_warm
from rye_mcp.permissions import NEEDS_SCHEMA, PERMISSIONS_SCHEMA, Permissions, read_needs, read_permissions

__all__ = [
    "DEFAULT_VERSION",
    "EXAMPLES",
    "FIELDS",
    "OF_TOOLS",
    "TOOL_TYPES",
    "ItemMetadata",
    "check_fields",
    "is_version",
    "spelled",
]

TOOL_TYPES: Final = (
    "primitive",
    "runtime",
    "engine",
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
"""Values of `tool_type`. The first three have a meaning of their own; all others are tools."""

DEFAULT_VERSION: Final = "0.0.0"
"""The version of an item that names none."""

EXAMPLES: Final = "examples"
"""The field of example calls, which only those who sign or run them read."""

MAX_VERSION: Final = 64
"""How many characters a version may have."""


_SIMPLE_VERSION: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){0,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ItemMetadata:
    """The metadata of an item, checked.

    Mappings and lists are shared by everybody who asks for the same bytes: they are to be read only. One that
    the item does not have is None, which is not the same as an empty one.
    """

    name: str
    """The title of the item; by default the last segment of its id."""
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
    permissions: Permissions | None = None
    """The declared rights; None when nothing is declared, which is not the same as `{}`."""
    needs: Permissions | None = None
    """The paths that a runtime has to read, for every tool."""
    warm: Warm | None = None
    """How a runtime starts its interpreter before a call; None when it does not."""
    skill: Mapping[str, str] | None = None
    """The skill that it runs a script of, and the script."""
    limits: Mapping[str, int] | None = None
    """`calls`: how many calls of other tools it may make."""
    annotations: Mapping[str, Any] | None = None
    workspace: str | None = None
    """What a tool gets of the project, or in its place, on another machine; None if it runs here alone."""
    resources: Resources | None = None
    placement: Placement | None = None
    idempotent: bool | None = None
    """Whether it may run again if the result of its run was lost."""
    runs_given_code: bool | None = None
    """Whether it runs code that its caller gives it, so that no run of it is sealed."""
    tags: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that it says, as it stands there."""

    @property
    def permitted_env(self) -> tuple[str, ...]:
        """`permissions.env`: variables that look like secrets, and that it may have all the same."""
        return () if self.permissions is None else tuple(sorted(self.permissions.env))

    @property
    def named_secrets(self) -> tuple[str, ...]:
        """`permissions.secrets`: names in the user's store."""
        return () if self.permissions is None else tuple(sorted(self.permissions.secrets))

    @property
    def is_primitive(self) -> bool:
        """Whether a chain ends here."""
        return self.tool_type == "primitive"

    @property
    def is_runtime(self) -> bool:
        """Whether it runs others rather than being run."""
        return self.tool_type == "runtime"

    @property
    def is_engine(self) -> bool:
        """Whether it says where other tools run."""
        return self.tool_type == "engine"

    @property
    def engine(self) -> Engine:
        """What an engine says of itself."""
        return read_engine(self.config or {})

    @property
    def is_run(self) -> bool:
        """Whether it is a tool that something else runs."""
        return self.executor_id is not None and not self.is_runtime

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
        elif problems := list(known.form.check(value)):
            for way, problem in problems:
                line, column = raw.place((name, *way)) if way else (raw.lines.get(name), raw.column(name))
                issues.add(f"{spelled((name, *way))}: {problem}", line, name, column)
        else:
            checked[name] = value if known.read is None else known.read(value)
    _check_roles(raw, file, issues)
    _check_calling(checked, raw, issues)
    for name, problem in placing_problems(raw.values, checked):
        issues.add(problem, raw.lines.get(name), name)
    checked.setdefault("name", file.item_id.rpartition("/")[2])
    checked.setdefault("description", (raw.description or "")[:MAX_TEXT])
    return ItemMetadata(declares_executor="executor_id" in raw.values, extra=extra, **checked)


def spelled(way: Way) -> str:
    """The way to a value, as people write it: `examples[0].expect.code`."""
    return str(way[0]) + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in way[1:])


def _check_roles(raw: Raw, file: ItemFile, issues: Issues) -> None:
    """Check that only tools have fields of tools, and that the executor fits the type of the item."""
    if file.item_type is not ItemType.TOOL:
        for name in OF_TOOLS & raw.values.keys():
            issues.add(f"{name}: expected none in a {file.item_type}, found one", raw.lines.get(name), name)
        return
    if problem := _executor_problem(raw.values):
        line = raw.lines.get("executor_id", raw.lines.get("tool_type"))
        issues.add(f"executor_id: {problem}", line, "executor_id")
    for problem in _skill_problems(raw.values, file):
        issues.add(f"a tool of a skill: {problem}", raw.lines.get("skill"), "skill")
    if raw.values.get("warm") is not None and raw.values.get("tool_type") != "runtime":
        issues.add(
            "tool_type: expected runtime, as warm is there, found another", raw.lines.get("warm"), "warm"
        )


def _skill_problems(values: Mapping[str, Any], file: ItemFile) -> Iterator[str]:
    """Find what a tool lacks that runs a script of a skill: its place, an executor, and permissions."""
    skill = values.get("skill")
    if not isinstance(skill, dict):
        return
    if not isinstance(skill.get("name"), str):
        yield "expected the name of a skill, found none"
    elif not file.item_id.startswith(f"skills/{skill['name']}/"):
        yield f"expected an id below skills/{skill['name']}/, found {file.item_id}"
    if values.get("executor_id") is None:
        yield "expected a tool that names its executor, found none"
    if values.get("permissions") is None:
        yield "expected permissions, which say what the script may do, found none"


def _check_calling(checked: Mapping[str, Any], raw: Raw, issues: Issues) -> None:
    """Check a tool's flags against its schema; a runtime may describe flags of tools that are not here."""
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
    if executor is not None or tool_type == "engine":
        return None
    if tool_type == "runtime":
        return "expected the id of a primitive, found none"
    if declared:
        return "expected an id, found null, which only a primitive has (tool_type: primitive)"
    return None


# --- the forms ---


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


@lru_cache(maxsize=256)
def is_version(value: str) -> bool:
    """Whether this is a version, as packages have them."""
    if _SIMPLE_VERSION.fullmatch(value):
        return True
    from packaging.version import InvalidVersion, Version

    try:
        Version(value)
    except InvalidVersion:
        return False
    return value == value.strip()


def _permissions(value: Any) -> Iterator[Problem]:
    yield from (((), problem) for problem in read_permissions(value)[1])


def _needs(value: Any) -> Iterator[Problem]:
    yield from (((), problem) for problem in read_needs(value)[1])


MAX_CALLS: Final = 10_000
"""The most that `limits.calls` can say."""

_LIMITS_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {"calls": {"type": "integer", "minimum": 1, "maximum": MAX_CALLS}},
    "additionalProperties": False,
}


def _limits(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or value.keys() - {"calls"}:
        found = ", ".join(map(ascii, value))[:80] if isinstance(value, dict) else kind(value)
        yield (), f"expected a mapping with calls alone, found {found}"
    elif type(value.get("calls", 1)) is not int or not 1 <= value.get("calls", 1) <= MAX_CALLS:
        yield ("calls",), f"expected a whole number from 1 to {MAX_CALLS}, found something else"


_TEXT: Final = text()
_ANY_TEXT: Final = text(most=None)
_TEXTS: Final = list_of(_ANY_TEXT, "texts")
_A_VERSION: Final = text("a version such as 1.2.0", _VERSION, is_right=is_version, most=MAX_VERSION)
_NAMES_OR_SCHEMA: Final = either(
    "a list of names, or a JSON Schema",
    _TEXTS.about("Names."),
    mapping(
        {
            "required": _TEXTS.about("Those that have to be there."),
            "properties": mapping().about("Each by its name."),
        }
    ),
)

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""The hints of `annotations` that are true or false."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the form of its value, and what reads such a value, where it does not stay as it is."""

    form: Form
    meaning: str
    tools_only: bool = False
    read: Callable[[Any], Any] | None = None

    @property
    def schema(self) -> Schema:
        """The JSON Schema of its value."""
        return self.form.about(self.meaning).schema


FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "name": Field(
            text("text that is not blank", r"\S"), "Its name; by default the last segment of its id."
        ),
        "version": Field(_A_VERSION, "Its version, in quotes, such as 1.2.0."),
        "description": Field(_TEXT, "What it does, for people and agents that search."),
        "category": Field(_TEXT, "A group that it belongs to, such as media/video."),
        "tool_type": Field(
            one_of(*TOOL_TYPES),
            "primitive, runtime and engine have a special meaning; all others are tools.",
            tools_only=True,
        ),
        "executor_id": Field(
            text("an item id", _ITEM_ID, is_right=is_item_id),
            "The item that runs this one, such as rye/core/runtimes/python_runtime.",
            tools_only=True,
        ),
        "config": Field(
            mapping({name: ANYTHING.about(meaning) for name, meaning in CALLING_MEANINGS.items()}),
            "What its executor is given: timeout, max_output, cwd; of an HTTP tool the request.",
        ),
        "config_schema": Field(mapping(), "The JSON Schema of its parameters."),
        "output_schema": Field(mapping(), "The JSON Schema of its result."),
        "env_config": Field(mapping(), "Where to look for an interpreter, and variables.", tools_only=True),
        "anchor": Field(mapping(), "When several files are one tool.", tools_only=True),
        "verify_deps": Field(mapping(), "Which files next to it have to be signed.", tools_only=True),
        "child_constraints": Field(
            mapping(
                {
                    "min_version": _A_VERSION.about("The first one."),
                    "max_version": _A_VERSION.about("The last one."),
                }
            ),
            "Versions of the tools that it runs.",
        ),
        "inputs": Field(_NAMES_OR_SCHEMA, "What it takes: names, or a JSON Schema."),
        "outputs": Field(_NAMES_OR_SCHEMA, "What it passes on: names, or a JSON Schema."),
        "permissions": Field(
            Form(_permissions, dict(PERMISSIONS_SCHEMA)),
            "What it may do, enforced by the kernel; {}: nothing but compute.",
            tools_only=True,
            read=lambda value: read_permissions(value)[0],
        ),
        "needs": Field(
            Form(_needs, dict(NEEDS_SCHEMA)),
            "What a runtime has to read, whatever it runs.",
            tools_only=True,
            read=lambda value: read_needs(value)[0],
        ),
        "warm": Field(
            WARM_FORM,
            "How a runtime starts its interpreter before there is a call for it.",
            tools_only=True,
            read=read_warm,
        ),
        "skill": Field(
            mapping(
                {
                    "name": text("the name of a skill", r"^[a-z0-9-]{1,64}$").about("The skill."),
                    "script": text("a path", r"\S").about("The path of the script in it."),
                },
                needs="script",
                closed=True,
            ),
            "The skill whose script it runs; all of the skill comes along.",
            tools_only=True,
        ),
        "limits": Field(
            Form(_limits, _LIMITS_SCHEMA),
            "How much it may do: calls, the number of its calls of other tools.",
            tools_only=True,
        ),
        "annotations": Field(
            mapping({"title": _TEXT.about("A title."), **dict.fromkeys(HINTS, flag())}),
            "What clients are told of a tool.",
        ),
        "workspace": Field(
            WORKSPACE_FORM,
            "With it, it may run on another machine, with nothing of the project (none), with the files "
            "that git tracks (tree), or in a directory of that machine (shared:NAME).",
            tools_only=True,
        ),
        "resources": Field(
            RESOURCES_FORM,
            "What it needs of the machine; an engine has to offer it.",
            tools_only=True,
            read=read_resources,
        ),
        "placement": Field(PLACEMENT_FORM, "Which engines will do.", tools_only=True, read=read_placement),
        "idempotent": Field(
            flag(), "Whether it may run again if the result of its run was lost.", tools_only=True
        ),
        "runs_given_code": Field(
            flag(),
            "Whether it runs code that its caller gives it; such a run is never sealed.",
            tools_only=True,
        ),
        "tags": Field(_TEXTS, "Words by which it is found.", read=tuple),
    }
)
"""Every field, by its name."""

OF_TOOLS: Final = frozenset(name for name, each in FIELDS.items() if each.tools_only)
"""The fields that only tools have."""


# --- examples: [{"parameters": {"name": "Ada"}, "expect": {"data": {"greeting": "Hello, Ada!"}}}] ---
