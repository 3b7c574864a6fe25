"""Reads the front matter of a `SKILL.md`, by the specification of agentskills.io.

Its fields are those of the specification alone: what clients make of others, hooks among them, was not
looked at by whoever signs. Lines may end with CR LF, because the bytes of a skill stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.errors import kind
from rye_mcp.items import SKILL_TEXT, ItemFile
from rye_mcp.metadata._fields import DEFAULT_VERSION, ItemMetadata, is_version
from rye_mcp.metadata._raw import Issues, Raw, Unreadable
from rye_mcp.metadata._yaml import has_front_matter, markdown_body, read_front_matter
from rye_mcp.visible import find_hidden, with_texts

__all__ = ["front_matter", "read_skill_metadata", "skill_body", "skill_text"]

MAX_DESCRIPTION: Final = 1024
"""How many characters the description of a skill may have."""

MAX_COMPATIBILITY: Final = 500
"""The same for what it says of its surroundings."""


def skill_text(file: ItemFile) -> str:
    """The text of a skill with LF alone; Unreadable when it is not plain UTF-8."""
    if file.skill is None or SKILL_TEXT not in file.skill.files:
        raise Unreadable(f"expected {SKILL_TEXT} in the directory of a skill, found none")
    try:
        text = file.text.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = file.text.count(b"\n", 0, exc.start) + 1
        raise Unreadable(f"expected UTF-8, found the byte 0x{file.text[exc.start]:02x}", line) from exc
    if text.startswith("\ufeff"):
        raise Unreadable("expected UTF-8 without a byte order mark, found one", 1)
    text = text.replace("\r\n", "\n")
    for character, name in (("\x00", "a NUL"), ("\r", "a carriage return without a line feed")):
        if character in text:
            raise Unreadable(
                f"expected plain text, found {name}", text.count("\n", 0, text.index(character)) + 1
            )
    return text


def skill_body(file: ItemFile) -> str:
    """What a skill says to do, without its front matter."""
    try:
        return markdown_body(skill_text(file))
    except Unreadable:
        return file.text.decode("utf-8", "replace")


def front_matter(file: ItemFile) -> Mapping[str, Any]:
    """All of the front matter as values of JSON; empty for one that cannot be read."""
    try:
        return MappingProxyType(read_front_matter(skill_text(file), Issues()).values)
    except Unreadable:
        return MappingProxyType({})


def read_skill_metadata(file: ItemFile, issues: Issues, *, whole: bool) -> ItemMetadata:
    """What a skill says about itself; what is wrong is added to the issues.

    With `whole`, a character that hides is wrong too: nobody signs what they cannot see.
    """
    try:
        text = skill_text(file)
    except Unreadable as exc:
        issues.found.append(exc.issue)
        return ItemMetadata(name=file.item_id)
    if whole and (hidden := find_hidden(text)) is not None:
        line = text.count("\n", 0, hidden) + 1
        issues.add(f"expected characters that can be seen, found U+{ord(text[hidden]):04X}", line)
    if not has_front_matter(text):
        issues.add(f"expected front matter between two lines --- at the top of {SKILL_TEXT}, found none", 1)
        return ItemMetadata(name=file.item_id)
    raw = read_front_matter(text, issues, places=whole)
    _check(raw, file, issues)
    if whole:
        _require_seen(raw, issues)
    values = {name: value for name, value in raw.values.items() if isinstance(value, str)}
    return ItemMetadata(
        name=file.item_id,
        description=values.get("description", "")[:MAX_DESCRIPTION],
        version=_version_in(raw.values.get("metadata")),
        extra={name: value for name, value in raw.values.items() if name not in ("name", "description")},
    )


def _version_in(metadata: Any) -> str:
    found = metadata.get("version") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and is_version(found) else DEFAULT_VERSION


def _require_seen(raw: Raw, issues: Issues) -> None:
    """Values are told as they are: what hides behind an escape of YAML is wrong, too."""

    def look(text: str) -> str:
        if find_hidden(text) is not None:
            issues.add(f"{name}: expected characters that can be seen, found an escape of others", line, name)
        return text

    for name, value in raw.values.items():
        line = raw.lines.get(name)
        with_texts(value, look)


def _check(raw: Raw, file: ItemFile, issues: Issues) -> None:
    for name in ("name", "description"):
        if name not in raw.values:
            issues.add(f"{name}: expected one in the front matter, found none", 1, name)
    for name, value in raw.values.items():
        check = _FIELDS.get(name)
        found = _unknown(name) if check is None else check(value, file)
        for problem in found:
            issues.add(f"{name}: {problem}", raw.lines.get(name), name, raw.column(name))


def _unknown(name: str) -> Iterator[str]:
    yield f"expected one of {', '.join(_FIELDS)}, found another field: move it into metadata, or remove it"


def _name(value: Any, file: ItemFile) -> Iterator[str]:
    if value != file.item_id:
        yield f"expected {file.item_id}, as its directory is called, found {_shown(value)}"


def _description(value: Any, _: ItemFile) -> Iterator[str]:
    yield from _text(value, most=MAX_DESCRIPTION)


def _compatibility(value: Any, _: ItemFile) -> Iterator[str]:
    yield from _text(value, most=MAX_COMPATIBILITY)


def _license(value: Any, _: ItemFile) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"expected text, found {kind(value)}"


def _text(value: Any, *, most: int) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"expected text, found {kind(value)}: put it into quotes"
    elif not value.strip():
        yield "expected text that is not blank, found none"
    elif len(value) > most:
        yield f"expected at most {most} characters, found {len(value)}"


def _metadata(value: Any, _: ItemFile) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"expected a mapping of names to texts, found {kind(value)}"
        return
    for name, each in value.items():
        if isinstance(each, dict | list):
            yield f"expected text for {_shown(name)}, found {kind(each)}"


def _allowed_tools(value: Any, _: ItemFile) -> Iterator[str]:
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in listed):
        yield "expected names with blanks between them, or a list of names, found something else"


def _shown(value: Any) -> str:
    return ascii(value[:80]) if isinstance(value, str) else kind(value)


_FIELDS: Final[Mapping[str, Callable[[Any, ItemFile], Iterator[str]]]] = MappingProxyType(
    {
        "name": _name,
        "description": _description,
        "license": _license,
        "compatibility": _compatibility,
        "metadata": _metadata,
        "allowed-tools": _allowed_tools,
    }
)
"""Every field of the specification."""
