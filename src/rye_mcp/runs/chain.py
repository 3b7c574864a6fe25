"""The chain of receipts: a row of the log's file for each run that is over, with the digest before it.

The caller brings a transaction; what a receipt says is for `rye_mcp.receipts`. Beside the file, a mark has
the number and the digest of the last receipt. A log that ends before its mark was cut, or restored from a
backup: the next receipt says so, and leaves out the numbers that are missing.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.files import OTHERS
from rye_mcp.runs.records import RunRecord

__all__ = ["MARK_NAME", "STEP", "ChainedReceipt", "Link", "Mark", "MarkFile", "Notary", "add", "next_link"]

MARK_NAME: Final = "receipts.mark"
"""The file with the last receipt's number and digest, beside the log."""

STEP: Final = (
    "CREATE TABLE receipts (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, "
    "payload BLOB NOT NULL, key_id TEXT NOT NULL, signature BLOB NOT NULL)",
    "CREATE INDEX running ON runs (run_id) WHERE kind = 'running'",
)
"""The tables and indexes of the chain in a log."""

LOCK_TIMEOUT_S: Final = 0.5
"""How long to wait for another process that raises the mark, which takes it microseconds."""

_LOCK_POLL_S: Final = 0.001

COLUMNS: Final = "number, run_id, digest, payload, key_id, signature"

_INSERT: Final = f"INSERT INTO receipts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_LAST: Final = "SELECT number, digest FROM receipts ORDER BY number DESC LIMIT 1"
_DIGEST_OF: Final = "SELECT digest FROM receipts WHERE number = ?"
_MARK: Final = re.compile(rb"(\d{20}) ([0-9a-f]{64})\n", re.ASCII)
_MARK_BYTES: Final = 86

MAX_NUMBER: Final = 2**62
"""A mark beyond this is unusable: SQLite would have no room for the next number."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A receipt by its number and its digest."""

    number: int
    digest: str


@dataclass(frozen=True, slots=True)
class Link:
    """Where a new receipt stands: its number, and the receipt before it.

    `broken` is what the mark said where the log does not agree: receipts up to there are missing, or others
    stand in their place. `unmarked` says that there was no mark beside a log that has receipts.
    """

    number: int
    previous: str | None
    broken: Mark | None = None
    unmarked: bool = False


@dataclass(frozen=True, slots=True)
class ChainedReceipt:
    """A receipt as the log keeps it. `digest` is the SHA-256 of its envelope."""

    number: int
    run_id: str
    digest: str
    payload: bytes
    key_id: str
    signature: bytes

    @property
    def mark(self) -> Mark:
        """Its number and its digest."""
        return Mark(self.number, self.digest)


class Notary(Protocol):
    """Writes receipts. `open` may read and make files; `attest` is called while the log is locked."""

    def open(self) -> None:
        """Be ready to sign; RyeError where that cannot be."""
        ...

    def attest(self, record: RunRecord, row: Mapping[str, Any], link: Link, facts: Any) -> ChainedReceipt:
        """The receipt of a run that is over; `row` is what the log says of it."""
        ...


def next_link(connection: sqlite3.Connection, file: MarkFile) -> Link:
    """Where the next receipt stands; the transaction keeps other writers out."""
    last = connection.execute(_LAST).fetchone()
    number, digest = last or (0, None)
    mark = file.read() if last is None else file.awaited()
    if mark is None:
        return Link(number + 1, digest, unmarked=last is not None)
    if mark.number > number:
        return Link(mark.number + 1, digest, broken=mark)
    found = digest
    if mark.number != number:
        found, *_ = connection.execute(_DIGEST_OF, (mark.number,)).fetchone() or (None,)
    is_other = found != mark.digest
    return Link(number + 1, digest, broken=mark if is_other else None)


def add(connection: sqlite3.Connection, receipt: ChainedReceipt) -> None:
    """Append a receipt."""
    facts = (receipt.number, receipt.run_id, receipt.digest)
    connection.execute(_INSERT, (*facts, receipt.payload, receipt.key_id, receipt.signature))


class MarkFile:
    """The mark of one log; several processes may raise it at once, and nobody lowers it."""

    def __init__(self, state: Path) -> None:
        self.path = state / MARK_NAME

    def read(self) -> Mark | None:
        """The mark; None if it is missing or unusable."""
        try:
            with self._opened(os.O_RDONLY) as descriptor:
                return _read(descriptor)
        except (OSError, _trees.UnsafeError):
            return None

    def awaited(self) -> Mark | None:
        """The mark, which another process may be about to make: it has just written the first receipt.

        One that is there and unusable does not become usable by waiting.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            is_to_come = self._is_to_come()  # looked at before it is read: it may be made in between
            mark = self.read()
            if mark is not None or not is_to_come or time.monotonic() >= deadline:
                return mark
            time.sleep(_LOCK_POLL_S)

    def _is_to_come(self) -> bool:
        try:
            return not self.path.lstat().st_size
        except OSError:
            return True

    def raise_to(self, new: Mark) -> None:
        """Let the mark stand for this receipt, unless it stands for a later one."""
        with self._opened(os.O_RDWR | os.O_CREAT) as descriptor:
            _lock(descriptor)
            found = _read(descriptor)
            if found is None or found.number <= new.number:
                os.pwrite(descriptor, b"%020d %s\n" % (new.number, new.digest.encode("ascii")), 0)

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        descriptor = os.open(self.path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        with _trees.opened(descriptor):
            _trees.require_private(descriptor, self.path, forbidden=OTHERS)
            yield descriptor


def _lock(descriptor: int) -> None:
    """Wait for another process that raises the mark; TimeoutError if it takes too long."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"expected the mark within {LOCK_TIMEOUT_S} s") from exc
            time.sleep(_LOCK_POLL_S)
        else:
            return


def _read(descriptor: int) -> Mark | None:
    found = _MARK.fullmatch(os.pread(descriptor, _MARK_BYTES, 0))
    if found is None or int(found[1]) > MAX_NUMBER:
        return None
    return Mark(int(found[1]), found[2].decode("ascii"))
