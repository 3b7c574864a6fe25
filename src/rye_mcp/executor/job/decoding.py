"""Decode the output of a tool into data. `docs/results.md` has the rule, for authors of tools.

JSON is strict; apart from that, a value is exactly what `json.loads` makes of the text. Output that was cut
is never a whole document.

    >>> decode_output('fetching …\\n{"rows": 3}\\n').value
    {'rows': 3}
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import StreamCounts
from rye_mcp.notices import Notice

__all__ = [
    "MAX_DEPTH",
    "Decoded",
    "Source",
    "decode_output",
    "decode_result",
    "parse_json",
    "require_shallow",
]

MAX_DEPTH: Final = 200
"""How many lists and objects of a result may stand inside each other."""

Source = Literal["result", "stdout", "last_line", "text", "none"]
"""Where data comes from; `text` is standard output that is no JSON."""

_MAY_START_A_LINE: Final = ("{", "[")
_CONTAINERS: Final = frozenset({dict, list})
_BLANKS: Final = " \t\r\n"
_TOO_DEEP: Final = f"more than {MAX_DEPTH} lists and objects inside each other"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Data, where it comes from, and what should be known about it."""

    value: Any
    source: Source
    notices: tuple[Notice, ...] = ()


def decode_result(text: str, *, counts: StreamCounts | None = None) -> Decoded:
    """The data that a tool wrote to its descriptor for results; text, with a notice, when it is no JSON."""
    if counts is not None and counts.omitted:
        found = f"{counts.total} bytes, which is more than is kept"
    else:
        try:
            return Decoded(parse_json(text), "result")
        except ValueError as exc:
            found = str(exc)
    what = f"expected one JSON document on descriptor 3 (RYE_RESULT_FD), found {found}"
    return Decoded(text, "result", (Notice("result_not_json", what),))


def decode_output(text: str, *, counts: StreamCounts | None = None, last_line: bool = True) -> Decoded:
    """The data that stands in standard output, perhaps in its `last_line`."""
    is_whole = counts is None or not counts.omitted
    if is_whole:
        try:
            return Decoded(parse_json(text), "stdout")
        except ValueError:
            pass
    line = _last_line(text, None if counts is None or is_whole else counts.mark)
    if line is not None and last_line:
        try:
            return Decoded(parse_json(line), "last_line")
        except ValueError:
            pass
    return Decoded(text, "text")


def parse_json(text: str) -> Any:
    """The value of one JSON document, read strictly; ValueError if it is invalid."""
    try:
        data = text.encode()
        value = msgspec.json.decode(data)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as exc:  # no JSON, or a half of a surrogate pair
        raise ValueError(f"no JSON: {exc}") from None
    require_shallow(value, data.count(b"[") + data.count(b"{"))
    return value


def require_shallow(value: Any, brackets: int) -> None:
    """ValueError for what is too deep; `brackets` is how many open, and no more than these can be containers.

    Level by level, and only until what is left cannot be deep any more: a large result is looked at like this
    on every run, and most of it is leaves.
    """
    level = [value] if type(value) in _CONTAINERS else []
    for depth in range(1, MAX_DEPTH + 1):
        brackets -= len(level)
        if not level or depth + brackets <= MAX_DEPTH:
            return
        level = [
            below
            for each in level
            for below in (each.values() if type(each) is dict else each)
            if type(below) in _CONTAINERS
        ]
    if level:
        raise ValueError(_TOO_DEEP)


def _last_line(text: str, mark: str | None) -> str | None:
    """The last line that is not empty, when it may be a result of its own; see the rules of this module."""
    if mark is not None:
        text = text[text.rfind(mark) + len(mark) :]
    before, line_end, line = text.rstrip(_BLANKS).rpartition("\n")
    if not line.startswith(_MAY_START_A_LINE) or (mark is not None and not line_end):
        return None
    before = before.rstrip(_BLANKS)
    previous = before.rpartition("\n")[2]
    if mark is None and _is_json(before):
        return None
    return None if previous.startswith(_MAY_START_A_LINE) and _is_json(previous) else line


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True
