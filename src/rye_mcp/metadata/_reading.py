"""Turns the bytes of an item into its metadata, and looks closer at an item that somebody wants to sign.

`parse_metadata` is what every call pays for. `examine` also checks all syntax, schemas, examples and sizes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.close_names import close_names
from rye_mcp.errors import ERRORS, kind
from rye_mcp.items import COMMENT_STYLES, ItemFile, ItemType, comment_style, printable
from rye_mcp.metadata._fields import EXAMPLES, FIELDS, OF_TOOLS, ItemMetadata, check_fields, spelled
from rye_mcp.metadata._forms import Form, Problem, Schema, list_of, mapping, or_null, text
from rye_mcp.metadata._python import PYTHON_NAMES, comments_with_block, read_python
from rye_mcp.metadata._raw import Issue, Issues, Raw, Unreadable
from rye_mcp.metadata._skill import read_skill_metadata, skill_body
from rye_mcp.metadata._yaml import markdown_body, read_comment_block, read_front_matter, read_yaml
from rye_mcp.visible import visible_lines, with_texts

__all__ = [
    "EXAMPLES_FORM",
    "MAX_LISTED_BYTES",
    "RUNTIMES",
    "SCHEMA_KINDS",
    "Example",
    "arguments_of",
    "body_of",
    "examine",
    "examples_of",
    "how_to_name_an_executor",
    "metadata_schema",
    "misspelt",
    "parse_metadata",
    "read_examples",
]

_KEPT: Final = 8192
_YAML: Final = frozenset({".yaml", ".yml"})
_SCHEMAS: Final = ("config_schema", "output_schema", "inputs", "outputs")

_Key = tuple[ItemType, str, str, bytes]
_kept: OrderedDict[_Key, ItemMetadata] = OrderedDict()


def parse_metadata(file: ItemFile, *, keep: bool = True) -> ItemMetadata:
    """Return the metadata of an item; RyeError `invalid_item` with all issues when something is wrong.

    This is what every call pays for. Schemas are not checked, nor is Python behind the first function;
    `examine` does both. A caller that reads all items once does not `keep` them.
    """
    if not keep:
        return _parsed(file)
    key = (file.item_type, file.item_id, file.extension, hashlib.sha256(file.text).digest())
    kept = _kept.get(key)
    if kept is not None:
        return kept
    metadata = _parsed(file)
    while len(_kept) >= _KEPT:
        _kept.popitem(last=False)
    _kept[key] = metadata
    return metadata


def _parsed(file: ItemFile) -> ItemMetadata:
    issues = Issues()
    metadata = _checked(file, issues, whole=False)[0]
    issues.raise_any(file)
    return metadata


def _checked(file: ItemFile, issues: Issues, *, whole: bool) -> tuple[ItemMetadata, Raw]:
    if file.item_type is ItemType.SKILL:
        return read_skill_metadata(file, issues, whole=whole), Raw()
    raw = _read(file, issues, whole=whole)
    return check_fields(raw, file, issues), raw


def examine(file: ItemFile) -> ItemMetadata:
    """The same, after a look at everything: all of the code's syntax, its schemas, its examples.

    For who signs it."""
    issues = Issues()
    metadata, raw = _checked(file, issues, whole=True)
    _check_schemas(metadata, raw, issues)
    if (problem := _problem_of_listing(metadata)) is not None:
        issues.add(problem)
    if file.item_type is ItemType.TOOL:
        _check_examples(raw, issues)
    issues.raise_any(file)
    return metadata


def misspelt(file: ItemFile) -> tuple[Issue, ...]:
    """The names in an item that was examined which are no field, and nearly one."""
    if file.item_type is ItemType.SKILL or (file.extension != ".py" and not parse_metadata(file).extra):
        return ()
    return tuple(_misspelt_in(_read(file, Issues(), whole=True), file))


def examples_of(file: ItemFile) -> tuple[Example, ...]:
    """The example calls of a tool; RyeError `invalid_item` with all issues for anything else."""
    issues = Issues()
    raw = _read(file, issues, whole=True)
    _check_examples(raw, issues)
    issues.raise_any(file)
    return read_examples(raw.values.get(EXAMPLES))


def body_of(file: ItemFile) -> str:
    """The text of a directive, of knowledge or of a skill, without its signature and its front matter."""
    if file.item_type is ItemType.SKILL:
        return skill_body(file)
    return markdown_body(file.content.decode("utf-8", "replace"))


def _read(file: ItemFile, issues: Issues, *, whole: bool) -> Raw:
    try:
        text = _text(file.content)
    except Unreadable as exc:
        issues.found.append(exc.issue)
        return Raw()
    if file.extension == ".py":
        return read_python(text, issues, whole=whole)
    if file.extension in _YAML:
        return read_yaml(text, issues, places=whole)
    if file.item_type is not ItemType.TOOL:
        return read_front_matter(text, issues, places=whole)
    style = comment_style(file.extension)
    return Raw() if style is None else read_comment_block(text, style, issues, places=whole)


def _text(content: bytes) -> str:
    """The bytes as text; Unreadable when they are not plain UTF-8 with LF, which no item may be without."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise Unreadable(f"expected UTF-8, found the byte 0x{content[exc.start]:02x}", line) from exc
    if text.startswith("\ufeff"):
        raise Unreadable("expected UTF-8 without a byte order mark, found one", 1)
    for character, name in (("\x00", "a NUL"), ("\r", "a carriage return")):
        if character in text:
            line = text.count("\n", 0, text.index(character)) + 1
            raise Unreadable(f"expected plain text with LF, found {name}", line)
    return text


def _check_schemas(metadata: ItemMetadata, raw: Raw, issues: Issues) -> None:
    schemas = {name: getattr(metadata, name) for name in _SCHEMAS}
    for name, schema in schemas.items():
        check = _problem_of_parameters if name == "config_schema" else _problem_of
        if isinstance(schema, dict) and (problem := check(schema)) is not None:
            issues.add(f"{name}: {problem}", raw.lines.get(name), name, raw.column(name))


def _check_examples(raw: Raw, issues: Issues) -> None:
    if raw.values.get(EXAMPLES) is None:
        return
    for way, problem in EXAMPLES_FORM.check(raw.values[EXAMPLES]):
        line, column = raw.place((EXAMPLES, *way))
        issues.add(f"{spelled((EXAMPLES, *way))}: {problem}", line, EXAMPLES, column)


def _problem_of(schema: dict[str, Any]) -> str | None:
    """Find the problem of a schema. Most items have none, and then the schema checker is not even loaded."""
    from lilux.primitives.errors import ConfigurationError
    from lilux.schemas import validate_parameters

    try:
        validate_parameters({}, schema)
    except ConfigurationError as exc:
        return exc.message
    return None


def _problem_of_parameters(schema: dict[str, Any]) -> str | None:
    """Parameters are an object, and no list of tools holds one that takes something else."""
    if (problem := _problem_of(schema)) is not None:
        return problem
    kind = schema.get("type", "object")
    return None if kind == "object" else f"expected type: object, as parameters are, found {kind!r}"


MAX_LISTED_BYTES: Final = 400_000
"""How long all of it may be as JSON in ASCII, as it is shown. A page of a list has room for more."""


def arguments_of(metadata: ItemMetadata) -> dict[str, Mapping[str, Any]]:
    """The inputs of a directive: name → schema."""
    inputs = metadata.inputs
    if not isinstance(inputs, Mapping):
        return {each: {} for each in inputs or ()}
    properties = inputs.get("properties", {})
    return {each: schema if isinstance(schema, Mapping) else {} for each, schema in properties.items()}


def _problem_of_listing(metadata: ItemMetadata) -> str | None:
    """Find the problem of an item that is too large for any list."""
    title = str((metadata.annotations or {}).get("title") or metadata.name)
    arguments = [
        {"name": name, "description": schema.get("description"), "required": False}
        for name, schema in arguments_of(metadata).items()
    ]
    shown = [title, title, metadata.description or title, metadata.config_schema, metadata.output_schema]
    found = len(json.dumps(with_texts([*shown, arguments], visible_lines), default=str))
    if found <= MAX_LISTED_BYTES:
        return None
    return f"expected a description and schemas of at most {MAX_LISTED_BYTES} bytes together, found {found}"


_WHERE: Final = "rye/core/runtimes"

RUNTIMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".py": f"{_WHERE}/python_runtime",
        **dict.fromkeys((".sh", ".bash"), f"{_WHERE}/bash_runtime"),
        **dict.fromkeys((".js", ".mjs", ".cjs", ".ts"), f"{_WHERE}/node_runtime"),
        ".rb": f"{_WHERE}/ruby_runtime",
        ".pl": f"{_WHERE}/perl_runtime",
        "": f"{_WHERE}/binary_runtime",
    }
)
"""The runtime that a file with this extension is run by, unless it has reasons for another one."""

_SCRIPT_RUNTIME: Final = f"{_WHERE}/python_script_runtime"
_FUNCTION: Final = re.compile(rb"^(?:async[ \t]+)?def[ \t]+(?:main|execute)[ \t]*\(", re.MULTILINE)


def how_to_name_an_executor(file: ItemFile, metadata: ItemMetadata) -> str | None:
    """Say how to make a library runnable; None for a real library, or where nothing here runs its kind."""
    runtime = RUNTIMES.get(file.extension)
    if runtime is None or metadata.tool_type == "library":
        return None
    where = printable(file.path)
    if file.extension == ".py" and comments_with_block(file.content.decode("utf-8", "replace")) is None:
        runtime = runtime if _FUNCTION.search(file.content) else _SCRIPT_RUNTIME
        return f"write the line '__executor_id__ = \"{runtime}\"' into {where}"
    if file.extension == ".py":
        runtime = _SCRIPT_RUNTIME
    comment = COMMENT_STYLES[file.extension].opening.decode("ascii")
    opening, line = f"{comment}/// rye", f"{comment}executor_id: {runtime}"
    if any(each.rstrip() == opening.encode() for each in file.content.split(b"\n")):
        return f"write the line '{line}' into the block '{opening}' of {where}"
    return f"write the three lines '{opening}', '{line}' and '{comment}///' into {where}"


_CLOSE: Final = 0.8
"""How much of two names has to be the same, from 0 to 1."""

_MAX_LENGTH: Final = 40
_MAX_LOOKED_AT: Final = 200
"""How many names are compared; an item with misspelt names has few."""

_MAX_TOLD: Final = 10
"""How many are told of one item."""

_IN_CONFIG: Final = MappingProxyType({name: f"config.{name}" for name in ("timeout", "max_output", "cwd")})
_IN_PYTHON: Final = MappingProxyType(
    {name.strip("_"): name for name, field in PYTHON_NAMES.items() if field in {*FIELDS, EXAMPLES}}
)


def _misspelt_in(raw: Raw, file: ItemFile) -> Iterator[Issue]:
    """Each name that is nearly a field which the item does not have, with its line."""
    if file.extension == ".py":
        missing = {name: each for name, each in _IN_PYTHON.items() if PYTHON_NAMES[each] not in raw.lines}
        return islice(_close(raw.besides, missing), _MAX_TOLD)
    known = _fields_of(file.item_type)
    unknown = {name: line for name, line in raw.lines.items() if name not in known}
    missing = {name: name for name in known - raw.lines.keys()}
    meant = missing | _IN_CONFIG if file.item_type is ItemType.TOOL else missing
    return islice(_close(unknown, meant), _MAX_TOLD)


def _fields_of(item_type: ItemType) -> frozenset[str]:
    return frozenset({*FIELDS, EXAMPLES}) if item_type is ItemType.TOOL else frozenset(FIELDS) - OF_TOOLS


def _close(unknown: Mapping[str, int], meant: Mapping[str, str]) -> Iterator[Issue]:
    for name, line in islice(unknown.items(), _MAX_LOOKED_AT):
        if len(name) <= _MAX_LENGTH and (found := close_names(name.strip("_"), meant, likeness=_CLOSE)):
            what = f"expected a known field, found none of this name; did you mean {meant[found[0]]}?"
            yield Issue(f"{name}: {what}", line, name)


# --- the schema of all metadata ---


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


# --- examples ---


MAX_EXAMPLES: Final = 100
"""How many examples a tool may have."""

_ANY_TEXT: Final = text(most=None)
_EXPECTATIONS: Final = ("data", "contains", "code")

_RELATIVE_PATH: Final = re.compile(
    r"(?!\.{1,2}(?:/|$))[^/\x00-\x1f\\]+(?:/(?!\.{1,2}(?:/|$))[^/\x00-\x1f\\]+)*"
)


@dataclass(frozen=True, slots=True)
class Example:
    """One example call. `expect` is the kind of expectation and its value; None when success will do."""

    parameters: Mapping[str, Any]
    description: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[str, Any] | None = None

    @property
    def expected_code(self) -> str | None:
        """The code of the failure that is expected."""
        return self.expect[1] if self.expect is not None and self.expect[0] == "code" else None


def read_examples(value: Any) -> tuple[Example, ...]:
    """The examples in a value that `EXAMPLES_FORM` finds nothing wrong with."""
    known = ({**each, "expect": next(iter(each.get("expect", {}).items()), None)} for each in value or ())
    return tuple(Example(**each) for each in known)


def _files(value: Any) -> Iterator[Problem]:
    for path in value if isinstance(value, dict) else ():
        if not _RELATIVE_PATH.fullmatch(path):
            yield (path,), f"expected a path below the project, found {path!a}"
    yield from mapping(each=_ANY_TEXT).check(value)


def _expect(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= set(_EXPECTATIONS):
        found = ", ".join(value) or "nothing" if isinstance(value, dict) else kind(value)
        yield (), f"expected one of {', '.join(_EXPECTATIONS)}, found {found}"
    elif "code" in value and (not isinstance(value["code"], str) or value["code"] not in ERRORS):
        yield ("code",), f"expected the code of an error, such as tool_failed, found {value['code']!r}"


_EXPECT_SCHEMA: Final[Schema] = {
    "oneOf": [
        {"properties": {"data": {"description": "Exactly this."}}, "required": ["data"]},
        {"properties": {"contains": {"description": "A part of it."}}, "required": ["contains"]},
        {"properties": {"code": {"enum": sorted(ERRORS)}}, "required": ["code"]},
    ],
    "type": "object",
    "maxProperties": 1,
}

EXAMPLES_FORM: Final = list_of(
    mapping(
        {
            "description": _ANY_TEXT,
            "parameters": mapping().about("What the tool is called with."),
            "files": Form(_files, mapping(each=_ANY_TEXT).schema).about(
                "Texts by their paths, written into the project of the run first."
            ),
            "expect": Form(_expect, _EXPECT_SCHEMA).about("What is to come of it; by default success."),
        },
        needs="parameters",
        closed=True,
    ).about("A call, and what is to come of it."),
    "examples",
    most=MAX_EXAMPLES,
).about("Calls that show how it is used; rye test runs them.")
