"""The files of the long-lived processes of one project, and the newest bytes that each process has printed.

    processes/<hash of the project>/<id>/process.json, host.json, started.json, ended.json, grace.json, log.…

A directory has mode 0700, and an id that is checked before it is a path. A missing file has not been written
yet. The rules, also of the log, are in docs/architecture/bridge.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.runs.hosts import Host
from rye_mcp.runs.ids import check_run_id, new_run_id, time_of

__all__ = [
    "ENDED",
    "FOR_PROCESS",
    "GRACE",
    "HOST",
    "MAX_BYTES",
    "MAX_ENDED",
    "PROCESS",
    "SEGMENT_BYTES",
    "STARTED",
    "LogPiece",
    "LogWriter",
    "ProcessRecord",
    "ProcessStore",
    "read",
    "read_log",
    "size_of_log",
    "whole_characters",
    "write",
]

PROCESS: Final = "process.json"
HOST: Final = "host.json"
STARTED: Final = "started.json"
ENDED: Final = "ended.json"

FOR_PROCESS: Final = "RYE_OF_PROCESS_"
"""How a variable of the process begins for its host, which nothing confines: no loader knows such a name."""
GRACE: Final = "grace.json"

MAX_ENDED: Final = 20
"""How many processes that have ended are remembered of a project; the newest ones."""

MAX_BYTES: Final = 1 << 20
"""How long a file of a process may be; a longer one is ignored."""

_YOUNG: Final = timedelta(seconds=30)
"""How long a host may take to say who it is."""

_DIRECTORY: Final = "processes"
_LISTS: Final = "rye/process/status lists them"
_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The record of one process, as it stands in its directory."""

    process_id: str
    directory: Path
    asked: dict[str, Any]
    host: Host | None
    started: dict[str, Any] | None
    ended: dict[str, Any] | None

    @property
    def state(self) -> str:
        """`running`, `ended`, or `lost`: its host is gone, or never came, and nobody knows how it ended."""
        if self.ended is not None:
            return "ended"
        if self.host is None:
            young = datetime.now(UTC) - time_of(self.process_id) < _YOUNG
            return "running" if young else "lost"
        with self.host.handle() as handle:
            return "lost" if handle is None else "running"


class ProcessStore:
    """The processes of a project."""

    def __init__(self, state: Path, project: Path) -> None:
        name = hashlib.sha256(os.fsencode(project)).hexdigest()[:32]
        self._state = state
        self._directory = state / _DIRECTORY / name

    def new(self) -> tuple[str, Path]:
        """An id, and an empty directory for it."""
        for directory in (self._state, self._directory.parent, self._directory):
            whole_files.make_directory(directory, mode=_MODE)
        process_id = new_run_id()
        directory = self._directory / process_id
        directory.mkdir(_MODE)
        return process_id, directory

    def get(self, process_id: str) -> ProcessRecord:
        """One process; RyeError `run_not_found` when this project has no such."""
        try:
            directory = self._directory / check_run_id(process_id)
        except RyeError as exc:
            raise RyeError("invalid_run_id", exc.message, hint=_LISTS) from None
        asked = read(directory / PROCESS)
        if asked is None:
            what = f"expected the id of a process of this project, found {process_id}"
            raise RyeError("run_not_found", what, hint=_LISTS, run_id=process_id)
        # What has ended is looked at last: what ends meanwhile has started.
        host, started = read(directory / HOST), read(directory / STARTED)
        found = None if host is None else Host(**host)
        return ProcessRecord(process_id, directory, asked, found, started, read(directory / ENDED))

    def list(self) -> list[ProcessRecord]:
        """All of them, the newest first."""
        try:
            names = sorted((path.name for path in self._directory.iterdir()), reverse=True)
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            with suppress(RyeError):
                found.append(self.get(name))
        return found

    def forget_old(self) -> None:
        """Remove what is left of processes that ended, but for the newest ones."""
        over = [record for record in self.list() if record.state != "running"]
        for record in over[MAX_ENDED:]:
            shutil.rmtree(record.directory, ignore_errors=True)


def read(path: Path) -> dict[str, Any] | None:
    """Read a file; None when it is missing, or not an object."""
    try:
        value = json.loads(whole_files.read_capped(path, MAX_BYTES))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write(path: Path, value: dict[str, Any]) -> None:
    """Write a file whole."""
    whole_files.write_whole(path, json.dumps(value).encode(), mode=_FILE_MODE, durable=False)


SEGMENT_BYTES: Final = 4 << 20
"""How large a file of a log becomes; at most twice as much is kept."""

_KEPT: Final = 2
_MAX_CHARACTER: Final = 4
_PREFIX: Final = "log."


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
        return os.open(self._directory / f"{_PREFIX}{begins:020}", _trees.NEW_FILE | os.O_APPEND, 0o600)

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
