"""The file of the run log: opened, kept private, checked, brought up to date, replaced when damaged.

Several processes write and read at once; a row survives when its writer is killed. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from lilux import _files as whole_files
from lilux import _trees
from rye_mcp.errors import RyeError, printable
from rye_mcp.files import OTHERS, refusal
from rye_mcp.notices import Notice
from rye_mcp.runs import chain
from rye_mcp.runs.records import COLUMNS, REFUSED

__all__ = ["FILE_NAME", "MAX_KEPT_RECEIPTS", "MAX_KEPT_ROWS", "RunDatabase"]

FILE_NAME: Final = "runs.sqlite3"
DAMAGED_NAME: Final = "runs.damaged.sqlite3"

_STEPS: Final = (
    (
        "CREATE TABLE runs (seq INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, item_id TEXT, "
        "item_type TEXT, project TEXT, chain TEXT, signer TEXT, kind TEXT, return_code INTEGER, "
        "signal INTEGER, code TEXT, duration_ms REAL, user_ms REAL, system_ms REAL, max_rss_kb INTEGER, "
        "parameters TEXT, caller TEXT, client TEXT, sealed INTEGER)",
    ),
    tuple(
        f"ALTER TABLE runs ADD COLUMN {name} TEXT" for name in ("parent", "digests", "stderr_end", "process")
    ),
    ("ALTER TABLE runs ADD COLUMN enforced TEXT",),
    chain.STEP,
    ("ALTER TABLE runs ADD COLUMN runtime TEXT",),
    ("ALTER TABLE runs ADD COLUMN node TEXT",),
    # What filters look at, in the order of the list. A new row stands at the end of the index.
    ("CREATE INDEX filtered ON runs (seq, run_id, item_id, project, client, caller, kind, code, process)",),
)
"""The steps from each version of the file to the next. A new file takes all of them."""

VERSION: Final = len(_STEPS)
"""The form of the table. A newer one is not touched."""

_WIDTHS: Final = (0, 18, 22, 23, 23, 24, 25, len(COLUMNS))
"""How many columns of a record each version has."""

MAX_KEPT_ROWS: Final = 100_000
"""How many runs are remembered."""

MAX_KEPT_REFUSALS: Final = 10_000
"""How many refused calls are remembered: whoever is refused again and again does not push runs out."""

MAX_KEPT_RECEIPTS: Final = 1_000_000
"""How many receipts are kept: of more runs than are listed, since they are the evidence."""

ROWS_PER_CHECKPOINT: Final = 500
"""After so many rows the write-ahead log is put into the file."""

MAX_WAL_BYTES: Final = 16 << 20
"""How large the write-ahead log may become before those who write wait until it was emptied."""

BUSY_S: Final = 0.5
"""How long to wait for another process that is writing a row, which takes it microseconds."""

_APPLICATION: Final = 0x72796C67  # "rylg", in the header of the file
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_PRIMARY: Final = 0xFF
_FORGET: Final = (
    "DELETE FROM runs WHERE (kind IS :refused) = :is_refused AND seq <= (SELECT seq FROM runs "
    "WHERE (kind IS :refused) = :is_refused ORDER BY seq DESC LIMIT 1 OFFSET :kept)"
)
"""Rows are counted, each kind by itself. Their numbers say nothing of it, since every row takes one."""

_FORGET_RECEIPTS: Final = "DELETE FROM receipts WHERE number <= (SELECT max(number) FROM receipts) - ?"

_Identity = tuple[int, int]
Answer = TypeVar("Answer")


class _DamagedError(Exception):
    """The file is a database, and not ours."""


class RunDatabase:
    """The open file of the log, for all threads of a process."""

    def __init__(
        self,
        state: Path,
        *,
        kept_rows: int = MAX_KEPT_ROWS,
        kept_refusals: int = MAX_KEPT_REFUSALS,
        kept_receipts: int = MAX_KEPT_RECEIPTS,
    ) -> None:
        self.path = state / FILE_NAME
        self.notices: list[Notice] = []
        self.kept_rows = kept_rows
        self.kept_refusals = kept_refusals
        self.kept_receipts = kept_receipts
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: _Identity | None = None
        self._since_checkpoint = 0
        self._checkpoint: threading.Thread | None = None

    def write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do this with the open file, which is made if it is missing; RyeError when it cannot be made."""
        with self._lock:
            self._do(work, create=True)
            self._since_checkpoint += 1
            if self._since_checkpoint >= ROWS_PER_CHECKPOINT:
                self.tidy()

    def read(self, work: Callable[[sqlite3.Connection], Answer], missing: Answer) -> Answer:
        """Do this with the open file; return `missing` if there is no file."""
        with self._lock:
            answer = self._do(work, create=False)
            return missing if answer is None else answer

    def close(self) -> None:
        """Close the file, after what is under way with it."""
        if self._checkpoint is not None:
            self._checkpoint.join()
        with self._lock:
            self._drop()

    def tidy(self) -> None:
        """Put the write-ahead log into the file, and forget the oldest rows, in a thread of its own."""
        with self._lock:
            if self._checkpoint is None or not self._checkpoint.is_alive():
                self._since_checkpoint = 0
                self._checkpoint = threading.Thread(target=self._tidy, name="rye-run-log", daemon=True)
                self._checkpoint.start()

    def _do(self, work: Callable[[sqlite3.Connection], Answer], *, create: bool) -> Answer | None:
        try:
            return self._try(work, create=create)
        except (sqlite3.Error, _DamagedError) as exc:
            if not _is_damage(exc):
                raise self._refusal(exc, create=create) from exc
            self._set_aside(exc)
        try:
            return self._try(work, create=create)
        except (sqlite3.Error, _DamagedError) as exc:
            raise self._refusal(exc, create=create) from exc

    def _try(self, work: Callable[[sqlite3.Connection], Answer], *, create: bool) -> Answer | None:
        identity = _identity_of(self.path)
        if self._connection is None or identity is None or identity != self._identity:
            self._drop()
            if identity is None and not create:
                return None
            self._connection = self._open()
        return work(self._connection)

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._identity = None

    def _open(self) -> sqlite3.Connection:
        """The file, made when it is missing; by one process at a time."""
        state = self.path.parent
        try:
            whole_files.make_directory(state, mode=0o700)
            with _trees.Tree(state, forbidden=OTHERS).opened() as directory, whole_files.lock(directory):
                self._identity = _make_file(self.path, directory)
                return _connect(self.path)
        except _trees.UnsafeError as exc:
            raise refusal(exc, self.path) from exc
        except OSError as exc:
            what = f"expected to open {printable(self.path)}, found: {exc.strerror or exc}"
            raise RyeError("write_failed", what, where=printable(self.path)) from exc

    def _set_aside(self, why: Exception) -> None:
        """Move a damaged file out of the way, unless another process has done so already."""
        damaged = self._identity
        self._drop()
        state = self.path.parent
        try:
            with _trees.Tree(state, forbidden=OTHERS).opened() as directory, whole_files.lock(directory):
                if damaged is None or _identity_of(self.path) != damaged:
                    return
                for suffix in ("-shm", "-wal", ""):
                    with suppress(FileNotFoundError):
                        Path(f"{self.path}{suffix}").replace(state / f"{DAMAGED_NAME}{suffix}")
        except (OSError, _trees.UnsafeError) as exc:
            raise self._refusal(exc, create=True) from exc
        what = (
            f"the log of runs was damaged ({why}); it was set aside as "
            f"{printable(state / DAMAGED_NAME)}, and a new one has begun"
        )
        self.notices.append(Notice("run_log_damaged", what))

    def _tidy(self) -> None:
        # Another connection: the thread that appends must not wait for this one's disk.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for is_refused, kept in ((False, self.kept_rows), (True, self.kept_refusals)):
                connection.execute(_FORGET, {"refused": REFUSED, "is_refused": is_refused, "kept": kept})
            connection.execute(_FORGET_RECEIPTS, (self.kept_receipts,))
            # Without waiting for anybody, unless it has grown so much that somebody has to wait.
            grown = _size_of(f"{self.path}-wal") > MAX_WAL_BYTES
            connection.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if grown else 'PASSIVE'})")

    def _refusal(self, exc: Exception, *, create: bool) -> RyeError:
        where = printable(self.path)
        code = "write_failed" if create else "read_failed"
        return RyeError(code, f"expected a log of runs in {where}, found: {exc}", where=where)


def _is_damage(exc: Exception) -> bool:
    code = getattr(exc, "sqlite_errorcode", None)
    return isinstance(exc, _DamagedError) or (code is not None and code & _PRIMARY in _DAMAGED)


def _identity_of(path: Path) -> _Identity | None:
    try:
        found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - in every run
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - as above
    except OSError:
        return 0


def _make_file(path: Path, directory: int) -> _Identity:
    """The file, empty when it is new; SQLite gives the files beside it the same mode.

    One that is there is only looked at. Closing a descriptor that could read it would drop the locks of every
    other connection of this process, and a process that ends would remove the write-ahead log under them.
    """
    if path.is_symlink():
        raise _trees.wrong_kind("a regular file", "a symbolic link", path)
    with suppress(FileExistsError):
        os.close(os.open(path.name, _trees.NEW_FILE, 0o600, dir_fd=directory))
    descriptor = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            raise _trees.wrong_kind("a regular file", whole_files.kind_of(mode), path)
        _trees.require_private(descriptor, path, forbidden=0o177)
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino
    finally:
        os.close(descriptor)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _require_ours(connection, path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        if _number(connection, "user_version") < VERSION:
            _bring_up_to_date(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Take the steps that the file has not taken, all or none of them."""
    connection.execute("BEGIN IMMEDIATE")
    for step in _STEPS[_number(connection, "user_version") :]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("COMMIT")


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    version, application = _number(connection, "user_version"), _number(connection, "application_id")
    if application == _APPLICATION and version > VERSION:
        raise RyeError(
            "read_failed",
            f"expected a log of runs in version {VERSION}, found version {version}: {printable(path)}",
            where=printable(path),
            hint="pip install --upgrade rye-mcp",
        )
    if version and application == _APPLICATION:
        columns = tuple(row[1] for row in connection.execute("PRAGMA table_info(runs)"))
        if columns != ("seq", *COLUMNS[: _WIDTHS[version]]):
            raise _DamagedError("it has other columns")
    elif (version, application) != (0, 0) or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise _DamagedError("it is no log of runs")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    found: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return found
