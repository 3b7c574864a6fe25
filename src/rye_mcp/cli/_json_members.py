"""One member of a JSON document, put in or taken out, with every other byte left as it is.

Rules:

- A document is text, also an empty one. What is not strict JSON (comments, commas at the end, a name that
  stands twice) is a ValueError, since nobody could promise to leave it alone.
- Who only reads takes comments and commas at the end away first, as VS Code does: what is left stands where
  it stood.
- A member is named by its path: the names of the objects around it, and its own. Objects that are missing
  are made.
- What comes out is read again and compared: it says what it has to say, and all else it said before.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # the stubs lack it
from typing import Any, Final

__all__ = ["parse", "with_member", "without_comments", "without_member"]

_BLANKS = re.compile(r"[ \t\n\r]*")
_FIRST_INDENT = re.compile(r"\{\r?\n([ \t]+)\"")
_DEFAULT_INDENT: Final = "  "
# What has no end goes on to the end of the text: it is not looked for from every beginning anew.
_STRING: Final = r'"(?:\\.|[^"\\])*(?:"|\\?\Z)'
_COMMENT: Final = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)

Path = Sequence[str]
_Member = tuple[int, int, int]
"""Where the name of a member begins, where its value does, and where that ends."""


def parse(text: str) -> dict[str, Any]:
    """The object that a document is; ValueError for anything else, blanks are an empty one."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("expected JSON that is not deeper than anybody writes it") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {type(found).__name__}")
    return found


def without_comments(text: str) -> str:
    """The text with blanks for its comments, and for commas with nothing behind them."""

    def blanks(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    return _LAST_COMMA.sub(blanks, _COMMENT.sub(blanks, text))


def with_member(text: str, path: Path, value: Any) -> str:
    """The document with this value at this path."""
    expected = copy.deepcopy(parse(text))
    inner = expected
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"expected an object as {name!r}, found {type(inner).__name__}")
    if path[-1] in inner and inner[path[-1]] == value:
        return text
    inner[path[-1]] = value
    return _checked(_put(text if text.strip() else "{}\n", path, value), expected)


def without_member(text: str, path: Path) -> str:
    """The document without what is at this path; the same when there is nothing."""
    expected = inner = copy.deepcopy(parse(text))
    for name in path[:-1]:
        inner = inner.get(name, {})
        if not isinstance(inner, dict):
            return text
    if path[-1] not in inner:
        return text
    del inner[path[-1]]
    return _checked(_cut(text, path), expected)


def _put(text: str, path: Path, value: Any) -> str:
    unit = found[1] if (found := _FIRST_INDENT.search(text)) else _DEFAULT_INDENT
    start = end = _skip(text, 0)
    for depth, name in enumerate(path):
        members = _members(text, start)
        if name in members:
            _, start, end = members[name]
            continue
        missing = value
        for inner in reversed(path[depth + 1 :]):
            missing = {inner: missing}
        return _insert(text, start, members, (name, missing), unit, depth)
    return text[:start] + _written(value, unit, len(path)) + text[end:]


def _insert(
    text: str, start: int, members: dict[str, _Member], member: tuple[str, Any], unit: str, depth: int
) -> str:
    name, value = member
    indent = "\n" + unit * (depth + 1)
    written = f"{indent}{json.dumps(name, ensure_ascii=False)}: {_written(value, unit, depth + 1)}"
    if members:
        last = max(end for _, _, end in members.values())
        return f"{text[:last]},{written}{text[last:]}"
    close = _skip(text, start + 1)
    return f"{text[: start + 1]}{written}\n{unit * depth}{text[close:]}"


def _cut(text: str, path: Path) -> str:
    start = _skip(text, 0)
    for name in path[:-1]:
        start = _members(text, start)[name][1]
    members = list(_members(text, start).items())
    position = [name for name, _ in members].index(path[-1])
    begin, _, end = members[position][1]
    if position > 0:
        return text[: members[position - 1][1][2]] + text[end:]
    if len(members) > 1:
        return text[:begin] + text[members[1][1][0] :]
    return text[: start + 1] + text[_skip(text, end) :]


def _members(text: str, start: int) -> dict[str, _Member]:
    """The members of the object that begins here."""
    found: dict[str, _Member] = {}
    decoder = json.JSONDecoder()
    place = _skip(text, start + 1)
    while text[place] != "}":
        begin = place
        name, place = scanstring(text, begin + 1)
        value = _skip(text, _skip(text, place) + 1)
        _, end = decoder.raw_decode(text, value)
        found[name] = (begin, value, end)
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return found


def _skip(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    return place if found is None else found.end()


def _written(value: Any, unit: str, depth: int) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + unit * depth)


def _checked(text: str, expected: dict[str, Any]) -> str:
    if parse(text) != expected:
        raise ValueError("expected a document that differs in one place, found more")
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("expected every name once in an object, found one twice")
    return found
