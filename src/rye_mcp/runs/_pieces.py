"""Pieces of a file: so many bytes of it as text, or the lines in it that match a pattern.

Rules:

- A piece begins and ends between characters, and where it really begins is said. Bytes that are no UTF-8 stay
  in their place as U+FFFD; none is passed over.
- A pattern is a regular expression of JavaScript, looked for in each line by itself; of a line longer than
  `MAX_LINE_BYTES` in each such part. Nothing is said of a line that was not looked at: when the time is up,
  or enough was found, `next_offset` is where to go on.
"""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, Literal

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError

__all__ = [
    "MAX_LENGTH",
    "MAX_LINE_BYTES",
    "SEARCH_LIMIT_S",
    "OutputPiece",
    "Piece",
    "find_lines",
    "piece_of",
    "read_piece",
]

MAX_LENGTH: Final = 1 << 20
"""How many bytes may be read at once."""

SEARCH_LIMIT_S: Final = 2.0
"""How long one search may take."""

MAX_LINE_BYTES: Final = 64 << 10
"""Up to how many bytes are looked at as one line."""

MAX_MATCHES: Final = 1000
"""How many lines one search gives at most."""

LONGEST_CHARACTER: Final = 4
"""Bytes of UTF-8."""

_BLOCK_BYTES: Final = 1 << 20
_CONTINUATION: Final = 0x80
_LENGTHS: Final = ((0xF0, 4), (0xE0, 3), (0xC2, 2))  # what a character begins with, and its bytes

Encoding = Literal["utf-8", "lossy"]


@dataclass(frozen=True, slots=True)
class Piece:
    """The text from `offset` up to `next_offset`, which is None at the end of the file."""

    text: str
    encoding: Encoding
    offset: int
    next_offset: int | None
    matches: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """A piece of what a handle opens, which has `total` bytes."""

    handle: str
    piece: Piece
    total: int

    @property
    def text(self) -> str:
        """The text of the piece."""
        return self.piece.text

    @property
    def next_offset(self) -> int | None:
        """Where to go on; None at the end."""
        return self.piece.next_offset

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "status": "success",
            "handle": self.handle,
            "content": self.text,
            "offset": self.piece.offset,
            "next_offset": self.next_offset,
            "total": self.total,
            "encoding": self.piece.encoding,
        }
        if self.piece.matches is not None:
            answer["matches"] = list(self.piece.matches)
        return answer


def piece_of(descriptor: int, handle: str, *, offset: int, length: int, pattern: str | None) -> OutputPiece:
    """A piece of an open file, or of its lines that match a regular expression of JavaScript.

    An offset below 0 counts from the end.
    """
    length = min(max(1, length), MAX_LENGTH)
    total = os.fstat(descriptor).st_size
    start = max(0, total + offset) if offset < 0 else min(offset, total)
    if pattern is None:
        return OutputPiece(handle, read_piece(descriptor, start, length), total)
    return OutputPiece(handle, find_lines(descriptor, pattern, start, length), total)


def read_piece(descriptor: int, start: int, length: int) -> Piece:
    """At most `length` bytes (but at least 4), from the first character that begins at `start` or later."""
    start += _rest_of_character(descriptor, start)
    data = _read_at(descriptor, start, max(length, LONGEST_CHARACTER))
    following = os.pread(descriptor, 1, start + len(data))
    text, consumed, encoding = _decode(data, is_last=not following)
    return Piece(text, encoding, start, start + consumed if following else None)


def find_lines(
    descriptor: int, pattern: str, start: int, length: int, *, limit_s: float = SEARCH_LIMIT_S
) -> Piece:
    """The lines from `start` on that match, at most `length` bytes of them."""
    search = _Search(pattern, length, limit_s)
    start += _rest_of_character(descriptor, start)
    for offset, line in _lines(descriptor, start):
        if not search.takes(offset, line):
            return search.piece(start, offset)
    return search.piece(start, None)


class _Search:
    """The state of a search: its matches, and how many more are allowed."""

    def __init__(self, pattern: str, length: int, limit_s: float) -> None:
        # What knows patterns knows schemas too, and takes as long to load as a short tool to run.
        from lilux.schemas._patterns import PatternError, compile_pattern

        try:
            self._pattern = compile_pattern(pattern)
        except PatternError as exc:
            raise RyeError("invalid_query", str(exc), hint="a regular expression such as ^ERROR") from exc
        self._deadline = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._room = length
        self._found: list[tuple[int, str]] = []
        self._encoding: Encoding = "utf-8"
        self._has_begun = False

    def takes(self, offset: int, line: bytes) -> bool:
        """Look at a line; False when it has to wait for another search."""
        text, _, encoding = _decode(line.removesuffix(b"\r"), is_last=True)
        if self._room <= 0 or len(self._found) >= MAX_MATCHES:
            return False
        try:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            is_match = self._pattern.search(text, timeout=left_s) is not None
        except TimeoutError:
            if self._has_begun:
                return False
            what = f"expected a pattern that can be tried on a line within {self._limit_s:g} s"
            raise RyeError(
                "invalid_query", f"{what}, found one that takes longer", hint="search for a plainer one"
            ) from None
        self._has_begun = True
        return not is_match or self._keep(offset, text, line, encoding)

    def _keep(self, offset: int, text: str, line: bytes, encoding: Encoding) -> bool:
        size = len(line) + 1
        if self._found and size > self._room:
            return False
        self._room -= size
        self._found.append((offset, text))
        if encoding == "lossy":
            self._encoding = encoding
        return True

    def piece(self, start: int, next_offset: int | None) -> Piece:
        """All that was found."""
        text = "".join(f"{line}\n" for _, line in self._found)
        offsets = tuple(offset for offset, _ in self._found)
        return Piece(text, self._encoding, start, next_offset, offsets)


def _lines(descriptor: int, start: int) -> Iterator[tuple[int, bytes]]:
    """Each line with its place, without its end; in parts where it is too long."""
    offset, rest = start, b""
    while block := os.pread(descriptor, _BLOCK_BYTES, offset + len(rest)):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield from ((offset + at, part) for at, part in _parts(line))
            offset += len(line) + 1
        *parts, (at, rest) = _parts(rest)
        yield from ((offset + place, part) for place, part in parts)
        offset += at
    if rest:
        yield offset, rest


def _parts(line: bytes) -> Iterator[tuple[int, bytes]]:
    """A line in parts that are short enough, each with its place; the last one may be empty."""
    at = 0
    while len(line) - at > MAX_LINE_BYTES:
        end = at + MAX_LINE_BYTES
        while end > at + MAX_LINE_BYTES - LONGEST_CHARACTER and line[end] & 0xC0 == _CONTINUATION:
            end -= 1
        yield at, line[at:end]
        at = end
    yield at, line[at:]


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    chunks: list[bytes] = []
    while length and (chunk := os.pread(descriptor, length, start)):
        chunks.append(chunk)
        start += len(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def _decode(data: bytes, *, is_last: bool) -> tuple[str, int, Encoding]:
    """The text, how many bytes it was made of (all but a character that goes on), and how well that went."""
    try:
        text, consumed = codecs.utf_8_decode(data, "strict", is_last)
    except UnicodeDecodeError:
        text, consumed = codecs.utf_8_decode(data, "replace", is_last)
        return text, consumed, "lossy"
    return text, consumed, "utf-8"


def _rest_of_character(descriptor: int, start: int) -> int:
    """How many bytes from here on belong to a character that begins before."""
    begin = max(0, start - LONGEST_CHARACTER + 1)
    around = os.pread(descriptor, 2 * LONGEST_CHARACTER - 1, begin)
    for at in range(start - begin):
        with suppress(UnicodeDecodeError):
            length = next((n for low, n in _LENGTHS if around[at] >= low), 1)
            around[at : at + length].decode()
            if at + length > start - begin:
                return at + length - (start - begin)
    return 0
