"""Reads and writes metadata that is YAML: files, blocks of comments, front matter, configuration files.

The parser is that of `ruamel.yaml` in C; its events are checked here one by one, so that text which is too
deep or too much ends the parsing at once. Only values of JSON come out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, kind
from rye_mcp.items import CommentStyle
from rye_mcp.metadata._raw import (
    MAX_DEPTH,
    MAX_INT_BITS,
    MAX_NODES,
    Issues,
    Place,
    Raw,
    Unreadable,
    Way,
)
from rye_mcp.visible import find_hidden

__all__ = [
    "has_front_matter",
    "markdown_body",
    "parse_configuration",
    "read_comment_block",
    "read_front_matter",
    "read_yaml",
    "yaml_lines",
]

MAX_ALIASES: Final = 100
"""How many aliases there may be."""

_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_BEGINS: Final = frozenset("0123456789+-.")
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL: Final = re.compile(r"0o[0-7]+", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_MAX_DIGITS: Final = int(MAX_INT_BITS * math.log10(2))


def read_yaml(
    text: str, issues: Issues, *, first_line: int = 1, first_column: int = 1, places: bool = False
) -> Raw:
    """The mapping that a text holds; `first_line` and `first_column` are where its lines begin in the file.

    With `places`, the result says of every value where it begins.
    """
    reader = _Reader(issues, first_line, first_column, {} if places else None)
    try:
        value = reader.read(text)
    except Unreadable as exc:
        issues.found.append(exc.issue)
        return Raw()
    if value is None:
        return Raw()
    if not isinstance(value, dict):
        issues.add(f"expected a mapping of names to values, found {kind(value)}", first_line)
        return Raw()
    return Raw(value, reader.lines, places=reader.places or {})


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    nodes_before: int
    line: int
    key: str | None = None
    key_line: int = 0


class _Reader:
    """Takes the events of one text, one after the other, and makes values of them."""

    def __init__(
        self, issues: Issues, first_line: int, first_column: int, places: dict[Way, Place] | None
    ) -> None:
        self.lines: dict[str, int] = {}
        self.places = places
        self._issues = issues
        self._first_line = first_line
        self._first_column = first_column
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self._aliases = 0
        self._documents = 0
        self._result: Any = None

    def read(self, text: str) -> Any:
        """The value of the text; Unreadable when there is no going on."""
        from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            parser = CParser(text)
            while (event := parser.get_event()) is not None:
                _TAKE[type(event).__name__](self, event)
        except MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            line, column = (None, None) if mark is None else self._place(mark)
            raise Unreadable(f"expected YAML, found: {exc.problem or exc.context}", line, column) from exc
        except (YAMLError, ValueError) as exc:
            raise Unreadable(f"expected YAML, found: {str(exc).partition(chr(10))[0]}", None) from exc
        return self._result

    def _line(self, event: Any) -> int:
        line: int = event.start_mark.line
        return self._first_line + line

    def _place(self, mark: Any) -> Place:
        return self._first_line + mark.line, self._first_column + mark.column

    def _note_place(self, event: Any) -> None:
        """Keep where a value begins, when somebody wants to know."""
        if self.places is None or self._expects_key():
            return
        way = tuple(len(each.value) if isinstance(each.value, list) else str(each.key) for each in self._open)
        self.places[way] = self._place(event.start_mark)

    def _ignore(self, event: Any) -> None:
        """The stream begins or ends, or the document ends."""

    def _begin_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise Unreadable("expected one YAML document, found another one", self._line(event))
        if event.version is not None or event.tags:
            raise Unreadable("expected no YAML directives, found some", self._line(event))

    def _take_scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        self._note_place(event)
        value: Any = event.value
        if event.implicit[0] and not self._expects_key():
            value = self._plain(value, event)
        self._count(1, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, event)

    def _take_alias(self, event: Any) -> None:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise Unreadable(f"expected at most {MAX_ALIASES} aliases, found more", self._line(event))
        if event.anchor not in self._anchors:
            raise Unreadable(
                f"expected an anchor for *{event.anchor}, found none before it", self._line(event)
            )
        value, nodes = self._anchors[event.anchor]
        self._note_place(event)
        self._count(nodes, event)
        self._put(value, event)

    def _begin_mapping(self, event: Any) -> None:
        self._begin({}, event)

    def _begin_sequence(self, event: Any) -> None:
        self._begin([], event)

    def _begin(self, value: list[Any] | dict[str, Any], event: Any) -> None:
        self._refuse_tag(event)
        if self._expects_key():
            raise Unreadable("expected text as a key, found a list or a mapping", self._line(event))
        if len(self._open) >= MAX_DEPTH:
            raise Unreadable(f"expected at most {MAX_DEPTH} levels, found more", self._line(event))
        self._note_place(event)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)  # until it ends, it means nothing
        self._open.append(_Open(value, event.anchor, self._nodes, self._line(event)))
        self._count(1, event)

    def _end(self, event: Any) -> None:
        ended = self._open.pop()
        if ended.anchor is not None:
            self._anchors[ended.anchor] = (ended.value, self._nodes - ended.nodes_before)
        self._put(ended.value, event, ended.line)

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _put(self, value: Any, event: Any, line: int | None = None) -> None:
        """Put a value where it belongs: into the innermost list or mapping, or at the top."""
        if not self._open:
            self._result = value
            return
        around = self._open[-1]
        if isinstance(around.value, list):
            around.value.append(value)
        elif around.key is None:
            self._put_key(around, value, event)
        else:
            around.value[around.key] = value
            around.key = None

    def _put_key(self, around: _Open, key: Any, event: Any) -> None:
        line = self._line(event)
        if not isinstance(key, str):
            raise Unreadable(f"expected text as a key, found {kind(key)}", line)
        plain = getattr(event, "implicit", (False,))[0]
        if plain and key == "<<":
            raise Unreadable("expected no merge key (<<), found one: write out what it stands for", line)
        if plain and key in _CONSTANTS:
            self._issues.add(
                f"expected text as a key, found {key or 'nothing'}: put it into quotes", line, key
            )
        if key in around.value:
            self._issues.add(f"expected each key once, found {key!r} again", line, key)
        if len(self._open) == 1:
            self.lines.setdefault(key, line)
        around.key = key

    def _count(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise Unreadable(f"expected at most {MAX_NODES} values, found more", self._line(event))

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            self._issues.add(f"expected plain values, found the tag {event.tag}", self._line(event))

    def _plain(self, text: str, event: Any) -> Any:
        """Return the value of a text without quotes."""
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in _NUMBER_BEGINS:
            return text
        number = _number(text)
        if isinstance(number, float) and not math.isfinite(number):
            self._issues.add(f"expected a number of JSON, found {text[:40]}", self._line(event))
            return None
        return number


def _number(text: str) -> int | float | str:
    """The number that a text stands for; any other text as it is, and NaN for a number that JSON lacks."""
    for pattern, base in ((_DECIMAL, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            return int(text, base) if len(text) <= _MAX_DIGITS else math.nan
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.nan if _NO_NUMBER.fullmatch(text) else text


_TAKE: Final = {
    "StreamStartEvent": _Reader._ignore,
    "StreamEndEvent": _Reader._ignore,
    "DocumentStartEvent": _Reader._begin_document,
    "DocumentEndEvent": _Reader._ignore,
    "ScalarEvent": _Reader._take_scalar,
    "AliasEvent": _Reader._take_alias,
    "MappingStartEvent": _Reader._begin_mapping,
    "SequenceStartEvent": _Reader._begin_sequence,
    "MappingEndEvent": _Reader._end,
    "SequenceEndEvent": _Reader._end,
}


_FENCE = "---"
_SIGNATURE_BEGINS = "<!-- rye:signed:"


def read_comment_block(text: str, style: CommentStyle, issues: Issues, *, places: bool = False) -> Raw:
    """Read the block of comments, in a language with these comments."""
    comment = style.opening.decode("ascii")
    opening, closing = f"{comment}/// rye", f"{comment}///"
    if opening not in text:
        return Raw()
    lines = text.split("\n")
    begins = [number for number, line in enumerate(lines) if line.rstrip() == opening]
    if not begins:
        return Raw()
    if len(begins) > 1:
        issues.add(f"expected one block {opening!r}, found another one", begins[1] + 1)
    first = begins[0] + 1
    content: list[str] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.rstrip() == closing:
            return read_yaml(
                "\n".join(content),
                issues,
                first_line=first + 1,
                first_column=len(comment) + 1,
                places=places,
            )
        if not line.startswith(comment) and line.rstrip() != comment.rstrip():
            issues.add(f"expected a line with {closing!r} at the end of the block, found none", number)
            return Raw()
        content.append(line[len(comment) :])
    issues.add(f"expected a line with {closing!r} at the end of the block, found none", len(lines))
    return Raw()


def read_front_matter(text: str, issues: Issues, *, places: bool = False) -> Raw:
    """Read the front matter of a Markdown file."""
    lines = text.split("\n")
    first, last = _fences(lines)
    if first is None:
        return Raw()
    if last is None:
        issues.add(f"expected a line with {_FENCE} at the end of the front matter, found none", first + 1)
        return Raw()
    return read_yaml("\n".join(lines[first + 1 : last]), issues, first_line=first + 2, places=places)


def has_front_matter(text: str) -> bool:
    """Whether a Markdown file begins with a line that begins front matter."""
    return _fences(text.split("\n"))[0] is not None


def markdown_body(text: str) -> str:
    """The text of a Markdown file, without its signature and its front matter."""
    lines = text.split("\n")
    first, last = _fences(lines)
    if first is not None and last is not None:
        return "\n".join(lines[last + 1 :])
    return "\n".join(lines[_signature_lines(lines) :])


def _fences(lines: list[str]) -> tuple[int | None, int | None]:
    """Return the numbers of the lines that begin and end the front matter."""
    first = _signature_lines(lines)
    if first >= len(lines) or lines[first].rstrip() != _FENCE:
        return None, None
    ends = (number for number in range(first + 1, len(lines)) if lines[number].rstrip() == _FENCE)
    return first, next(ends, None)


def _signature_lines(lines: list[str]) -> int:
    return 1 if lines[0].startswith(_SIGNATURE_BEGINS) else 0


def parse_configuration(content: bytes, where: Path) -> dict[str, Any]:
    """The mapping in a file; RyeError `invalid_item`, with the lines, for anything else."""
    issues = Issues()
    try:
        values = read_yaml(content.decode("utf-8"), issues).values
    except UnicodeDecodeError as exc:
        raise RyeError("not_text", f"expected UTF-8, found none: {where}", where=where) from exc
    if issues.found:
        listed = "; ".join(map(str, issues.found[:5]))
        what = f"expected a mapping in YAML, found: {listed}"
        raise RyeError("invalid_item", what, where=where, hint=f"fix {where}")
    return dict(values)


# --- and back: YAML for values of JSON, in which nothing is hidden ---


_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_-]*", re.ASCII)
_NO_TEXT: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def yaml_lines(value: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The lines of YAML that say exactly this, indented as a block `depth` levels down."""
    for name, each in value.items():
        yield from _entry(f"{'  ' * depth}{_key(name)}:", each, depth + 1)


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    """A key or a dash, and what stands behind it."""
    if isinstance(value, Mapping) and value:
        yield head
        yield from yaml_lines(value, depth)
    elif isinstance(value, list) and value:
        yield head
        for each in value:
            yield from _entry(f"{'  ' * depth}-", each, depth + 1)
    elif isinstance(value, str) and _reads_as_lines(value):
        yield f"{head} |2-" if depth == 1 else f"{head} |-"
        yield from (f"{'  ' * depth}{line}" if line else "" for line in value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _reads_as_lines(text: str) -> bool:
    """Whether a literal block holds exactly this, for people to read."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and find_hidden(text) is None
        and all(line == line.rstrip() and line.isprintable() for line in lines)
        and bool(lines[0])
        and not lines[0].startswith(" ")
        and bool(lines[-1])
    )


def _key(name: str) -> str:
    plain = _PLAIN_KEY.fullmatch(name) is not None and name.lower() not in _NO_TEXT and len(name) < 64
    return name if plain else _quoted(name)


def _scalar(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else json.dumps(value, allow_nan=False)


def _quoted(text: str) -> str:
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and find_hidden(character) is None:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
