"""Opens an SQLite file in the cache of this user, which several processes share.

Nobody else can read it. It is made again if another version made it, or if it is damaged: what it holds can
always be found out again. `CacheFile` knows its tables, and nothing of what they are for.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Set
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.files import Tree

__all__ = ["CacheFile", "DamagedError"]

BUSY_TIMEOUT_S: Final = 20.0
"""How long to wait for others that write: each does for a second at most, or longer on a busy machine."""

LOCK_TIMEOUT_S: Final = 5.0
"""How long to wait for another process that makes a file: one that was stopped stops no others."""

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
_ENDINGS: Final = ("", "-wal", "-shm", "-journal")
_MADE_BY: Final = "CREATE TABLE made_by(version TEXT NOT NULL)"
_TABLE: Final = re.compile(r"CREATE (?:VIRTUAL )?TABLE (\w+)")


class DamagedError(Exception):
    """There is no file, or none that this program can use."""


@dataclass(frozen=True, slots=True)
class CacheFile:
    """What a file holds: the statements that make its `tables`, and the name of what they are `made_by`."""

    tables: str
    made_by: str

    def open(self, path: Path, *, replacing: int | None = None) -> sqlite3.Connection:
        """The file at a path. It is made if it is missing, and made again if it is something else.

        `replacing` is the inode of a file that turned out to be damaged. RyeError, OSError or sqlite3.Error
        when there can be none: the caller does without a file then.
        """
        with Tree(path.parent, forbidden=_OTHERS).opened(create_mode=_DIRECTORY_MODE) as directory:
            if replacing is None:  # as a rule it is there, and any number of processes open it at once
                with (
                    suppress(DamagedError),
                    whole_files.lock(directory, shared=True, timeout_s=LOCK_TIMEOUT_S),
                ):
                    return self._opened(path, directory)
            with whole_files.lock(directory, timeout_s=LOCK_TIMEOUT_S):
                if replacing is not None and _inode(path) == replacing:
                    _remove(path)
                with suppress(DamagedError):
                    return self._opened(path, directory)
                _remove(path)
                self._make_file(path, directory)
                return self._opened(path, directory)

    def in_memory(self) -> sqlite3.Connection:
        """The same tables where nobody shares them, and without anything in them."""
        connection = _connected(":memory:")
        _settle(connection)
        self._make_tables(connection)
        return connection

    def is_whole(self, connection: sqlite3.Connection) -> bool:
        """Whether every table is there: if so, an SQL error is the caller's mistake, and not damage."""
        try:
            found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        except sqlite3.DatabaseError:
            return False
        return {name for (name,) in found} >= self._names

    @property
    def _names(self) -> Set[str]:
        return {"made_by", *_TABLE.findall(self.tables)}

    def _opened(self, path: Path, directory: int) -> sqlite3.Connection:
        _require_private(path.name, directory)
        connection = _connected(_address(path))
        try:
            self._require_ours(connection)
        except sqlite3.DatabaseError as exc:
            connection.close()
            # A table that is missing is damage; what the system refuses is not fixed by removing anything.
            if isinstance(exc, sqlite3.OperationalError) and exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            raise DamagedError(str(exc)) from exc
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_ours(self, connection: sqlite3.Connection) -> None:
        _settle(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        if connection.execute("SELECT version FROM made_by").fetchall() != [(self.made_by,)]:
            raise DamagedError(f"expected a file of {self.made_by}, found another one")

    def _make_file(self, path: Path, directory: int) -> None:
        """Make the file with its tables, unless it exists."""
        os.close(os.open(path.name, _trees.NEW_FILE, _FILE_MODE, dir_fd=directory))
        with closing(_connected(_address(path))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            self._make_tables(connection)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.executescript(f"BEGIN IMMEDIATE; {_MADE_BY}; {self.tables}")
        connection.execute("INSERT INTO made_by VALUES (?)", (self.made_by,))
        connection.execute("COMMIT")


def _require_private(name: str, directory: int) -> None:
    """Raise DamagedError if the file is missing, or if it, or one beside it, is not of this user alone.

    None is opened for this: when a file is closed, POSIX gives up every lock that this process has on it, and
    another process would remove the write-ahead log under a connection that is still open.
    """
    for ending in _ENDINGS:
        try:
            found = os.stat(name + ending, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError as exc:
            if ending:
                continue
            raise DamagedError(f"expected a file, found none: {name}") from exc
        is_own = found.st_uid == os.geteuid() and found.st_nlink == 1
        if not stat.S_ISREG(found.st_mode) or not is_own or found.st_mode & _OTHERS:
            raise DamagedError(f"expected a file of this user alone, found another one: {name}{ending}")


def _address(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=rw"


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(
        name,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        uri=True,
    )


def _settle(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA cache_size = -32000")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = OFF")


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None


def _remove(path: Path) -> None:
    for ending in _ENDINGS:
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).unlink()
