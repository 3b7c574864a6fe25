"""From the bytes of an item to its metadata: what is read how, what is kept, when schemas are checked."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Final

from rye_mcp.items import ItemFile, ItemType, comment_style
from rye_mcp.metadata._blocks import markdown_body, read_comment_block, read_front_matter
from rye_mcp.metadata._examples import Example, find_problems, read_examples
from rye_mcp.metadata._fields import ItemMetadata, check_fields
from rye_mcp.metadata._issues import Issue, Issues, Unreadable
from rye_mcp.metadata._listing import problem_of_listing
from rye_mcp.metadata._python import read_python
from rye_mcp.metadata._spelling import misspelt_in
from rye_mcp.metadata._values import Raw, Way
from rye_mcp.metadata._yaml import read_yaml

__all__ = ["body_of", "examine", "examples_of", "misspelt", "parse_metadata"]

_KEPT: Final = 8192
_YAML: Final = frozenset({".yaml", ".yml"})
_EXAMPLES: Final = "examples"
_SCHEMAS: Final = ("config_schema", "output_schema", "inputs", "outputs")

_Key = tuple[ItemType, str, str, bytes]
_kept: OrderedDict[_Key, ItemMetadata] = OrderedDict()


def parse_metadata(file: ItemFile, *, keep: bool = True) -> ItemMetadata:
    """What an item says about itself; RyeError `invalid_item` with all issues when something is wrong.

    This is what every call pays for. Schemas are not checked, nor is Python behind the first function;
    `examine` does both. Who looks at all items once does not `keep` what calls will hardly ask for.
    """
    if not keep:
        return _parsed(file)
    key = (file.item_type, file.item_id, file.extension, hashlib.sha256(file.content).digest())
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
    metadata = check_fields(_read(file, issues, whole=False), file, issues)
    issues.raise_any(file)
    return metadata


def examine(file: ItemFile) -> ItemMetadata:
    """The same, after a look at everything: all of the code's syntax, its schemas, its examples.

    For who signs it."""
    issues = Issues()
    raw = _read(file, issues, whole=True)
    metadata = check_fields(raw, file, issues)
    _check_schemas(metadata, raw, issues)
    if (problem := problem_of_listing(metadata)) is not None:
        issues.add(problem)
    if file.item_type is ItemType.TOOL:
        _check_examples(raw, issues)
    issues.raise_any(file)
    return metadata


def misspelt(file: ItemFile) -> tuple[Issue, ...]:
    """The names in an item that was examined which are no field, and nearly one."""
    if file.extension != ".py" and not parse_metadata(file).extra:
        return ()
    return tuple(misspelt_in(_read(file, Issues(), whole=True), file))


def examples_of(file: ItemFile) -> tuple[Example, ...]:
    """The example calls of a tool; RyeError `invalid_item` with all issues for what are none."""
    issues = Issues()
    raw = _read(file, issues, whole=True)
    _check_examples(raw, issues)
    issues.raise_any(file)
    return read_examples(raw.values.get(_EXAMPLES))


def body_of(file: ItemFile) -> str:
    """The text of a directive or of knowledge, without its signature and its front matter."""
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
    if raw.values.get(_EXAMPLES) is None:
        return
    for way, problem in find_problems(raw.values[_EXAMPLES]):
        line, column = raw.place((_EXAMPLES, *way))
        issues.add(f"{_spelled(way)}: {problem}", line, _EXAMPLES, column)


def _spelled(way: Way) -> str:
    """The way to a part of the examples, as people write it: `examples[0].expect.code`."""
    return _EXAMPLES + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in way)


def _problem_of(schema: dict[str, Any]) -> str | None:
    """What is wrong with a schema. Most items have none, and then nothing of what checks them is loaded."""
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
