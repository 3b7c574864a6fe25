"""What a long-lived process has printed: its newest bytes, in files that are read by offsets.

Rules:

- The log is a row of files, each named after the offset of its first byte. A new one is begun when the last
  one has `SEGMENT_BYTES`, and all but the last two are removed: a process that prints for ever fills no disk.
- Offsets count from the first byte that was ever printed, so that who reads on misses nothing unawares: a
  piece says where it begins, which is later than asked when the rest is gone.
- A piece that becomes text ends between two characters: the rest of one that was cut is in the next piece.
- One process writes, anybody of this user reads meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["SEGMENT_BYTES", "LogPiece", "LogWriter", "read_log", "size_of_log", "whole_characters"]

SEGMENT_BYTES: Final = 4 << 20
"""How large a file of a log becomes; at most twice as much is kept."""

_KEPT: Final = 2
_MAX_CHARACTER: Final = 4
_PREFIX: Final = "log."
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class LogWriter:
    """Writes the log of one process, in its directory."""

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._begins = 0
        self._written = 0
        self._file = self._opened(0)

    def write(self, data: bytes) -> None:
        """Add what was printed."""
        while data:
            if self._written >= self._segment_bytes:
                self._begin_another()
            room = self._segment_bytes - self._written
            self._written += os.write(self._file, data[:room])
            data = data[room:]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _opened(self, begins: int) -> int:
        return os.open(self._directory / f"{_PREFIX}{begins:020}", _FLAGS, 0o600)

    def _begin_another(self) -> None:
        begins = self._begins + self._written
        following = self._opened(begins)  # when that cannot be, nothing has changed, and it is tried again
        os.close(self._file)
        self._file, self._begins, self._written = following, begins, 0
        for _, old in _segments(self._directory)[:-_KEPT]:
            old.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes from `offset` on, and how many were printed in all."""

    offset: int
    data: bytes
    total: int


def size_of_log(directory: Path) -> int:
    """How many bytes were printed in all."""
    segments = _segments(directory)
    return segments[-1][0] + _size(segments[-1][1]) if segments else 0


def read_log(directory: Path, offset: int, length: int) -> LogPiece:
    """A piece of a log; an offset below 0 counts from the end."""
    segments = _segments(directory)
    total = size_of_log(directory)
    oldest = segments[0][0] if segments else 0
    begin = max(oldest, total + offset if offset < 0 else offset)
    pieces = list(_pieces(directory, begin, min(total, begin + length)))
    if not pieces:
        return LogPiece(min(begin, total), b"", total)
    return LogPiece(pieces[0][0], b"".join(data for _, data in pieces), total)


def whole_characters(piece: LogPiece, asked: int, *, is_over: bool) -> LogPiece:
    """A piece without parts of characters: of the one that it begins in, unless that was `asked`, and of the
    one at its end, unless nothing follows (`is_over`).
    """
    data = piece.data
    begin = 0 if piece.offset == asked else _first_whole(data)
    end = len(data) if is_over and piece.offset + len(data) == piece.total else _last_whole(data)
    if end <= begin and piece.offset + len(data) < piece.total:  # too short for one character: never nothing
        return piece
    return LogPiece(piece.offset + begin, data[begin : max(begin, end)], piece.total)


def _first_whole(data: bytes) -> int:
    """Where the first character begins; in what is no UTF-8, at the beginning."""
    for position, byte in enumerate(data[:_MAX_CHARACTER]):
        if not _goes_on(byte):
            return position
    return 0


def _last_whole(data: bytes) -> int:
    """Where the last character ends that is there as a whole."""
    for missing, byte in enumerate(reversed(data[1 - _MAX_CHARACTER :]), 1):
        if not _goes_on(byte):
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return len(data) - missing if length > missing else len(data)
    return len(data)


def _goes_on(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _pieces(directory: Path, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    for first, path in _segments(directory):
        start = max(begin, first)
        if start >= end:
            return
        try:
            with path.open("rb") as stream:
                stream.seek(start - first)
                data = stream.read(end - start)
        except FileNotFoundError:  # it was removed just now
            continue
        if data:
            yield start, data


def _segments(directory: Path) -> list[tuple[int, Path]]:
    paths = sorted(path for path in directory.iterdir() if path.name.startswith(_PREFIX))
    return [(int(path.name.removeprefix(_PREFIX)), path) for path in paths]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
