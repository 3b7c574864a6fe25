"""Opens the SQLite file that the index of a space is in, and makes its tables.

The file is private to the user. It is made again if another version wrote it, or if it is damaged.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import stat
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from lilux import _trees
from rye_mcp.catalog._query_tree import FIELDS
from rye_mcp.files import Tree

__all__ = ["DamagedError", "file_for", "is_whole", "open_file", "open_memory"]

SCHEMA_VERSION: Final = 9
BUSY_TIMEOUT_S: Final = 5.0
"""How long to wait for another process that writes; each writes for a second at most."""

LOCK_TIMEOUT_S: Final = 5.0
"""How long to wait for another process that makes an index: one that was stopped stops no others."""

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077
_COLUMNS: Final = ", ".join(FIELDS)
_ENDINGS: Final = ("", "-wal", "-shm", "-journal")

_TABLES: Final = f"""
CREATE TABLE made_by(version TEXT NOT NULL);
CREATE TABLE items(
    key INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, digest TEXT NOT NULL,
    is_listed INTEGER NOT NULL, item_id TEXT NOT NULL, extension TEXT NOT NULL, name TEXT NOT NULL,
    date INTEGER NOT NULL, category TEXT NOT NULL, tags TEXT NOT NULL, tool_type TEXT NOT NULL,
    executor_id TEXT NOT NULL, version TEXT NOT NULL, is_destructive INTEGER NOT NULL,
    is_part INTEGER NOT NULL
);
CREATE TABLE texts(key INTEGER PRIMARY KEY, {_COLUMNS}, counted TEXT NOT NULL, length INTEGER NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(
    {_COLUMNS}, content='texts', content_rowid='key', tokenize="unicode61 tokenchars '='"
);
CREATE TABLE vectors(key INTEGER PRIMARY KEY, signs BLOB NOT NULL, vector BLOB NOT NULL);
CREATE TABLE counts(word TEXT PRIMARY KEY, documents INTEGER NOT NULL, names INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE totals(documents INTEGER NOT NULL, length INTEGER NOT NULL, named INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0, 0);
"""
_NAMES: Final = frozenset(re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", _TABLES))


class DamagedError(Exception):
    """There is a file, and it is no index that this program can use."""


def file_for(directory: Path, root: Path) -> Path:
    """Where the index of a space is."""
    return directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.sqlite"


def open_file(path: Path, vectors: str, *, replacing: int | None = None) -> sqlite3.Connection:
    """The index at a path. It is made if it is missing, and made again if the file is something else.

    `vectors` names what its vectors are made by: those of another one cannot be compared. `replacing` is the
    inode of a file that turned out to be damaged. RyeError, OSError or sqlite3.Error when there can be none:
    the caller does without a file then.
    """
    with Tree(path.parent, forbidden=_OTHERS).opened(create_mode=_DIRECTORY_MODE) as directory:
        if replacing is None:  # as a rule it is there, and any number of processes open it at once
            with suppress(DamagedError), whole_files.lock(directory, shared=True, timeout_s=LOCK_TIMEOUT_S):
                return _opened(path, directory, vectors)
        with whole_files.lock(directory, timeout_s=LOCK_TIMEOUT_S):
            if replacing is not None and _inode(path) == replacing:
                _remove(path)
            with suppress(DamagedError):
                return _opened(path, directory, vectors)
            _remove(path)
            _make_file(path, directory, vectors)
            return _opened(path, directory, vectors)


def open_memory(vectors: str = "") -> sqlite3.Connection:
    """An index that nobody shares, and that ends with this process."""
    connection = _connected(":memory:")
    _settle(connection)
    _make_tables(connection, vectors)
    return connection


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether every table is there: then an error in a question is one of who asks."""
    try:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError:
        return False
    return {name for (name,) in found} >= _NAMES


def _opened(path: Path, directory: int, vectors: str) -> sqlite3.Connection:
    _require_private(path.name, directory)
    connection = _connected(_address(path))
    try:
        _prepare(connection, vectors)
    except sqlite3.OperationalError as exc:
        connection.close()
        # A table that is missing is damage; what the system refuses is not fixed by removing anything.
        if exc.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            raise DamagedError(str(exc)) from exc
        raise
    except sqlite3.DatabaseError as exc:
        connection.close()
        raise DamagedError(str(exc)) from exc
    except BaseException:
        connection.close()
        raise
    return connection


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


def _make_file(path: Path, directory: int, vectors: str) -> None:
    """Make the file with its tables, where there is none."""
    os.close(os.open(path.name, _trees.NEW_FILE, _FILE_MODE, dir_fd=directory))
    with closing(_connected(_address(path))) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        _make_tables(connection, vectors)


def _prepare(connection: sqlite3.Connection, vectors: str) -> None:
    _settle(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("SELECT version FROM made_by").fetchall() != [(_version(vectors),)]:
        raise DamagedError(f"expected an index of {_version(vectors)}, found another one")


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


def _make_tables(connection: sqlite3.Connection, vectors: str) -> None:
    connection.executescript(f"BEGIN IMMEDIATE; {_TABLES}")
    connection.execute("INSERT INTO made_by VALUES (?)", (_version(vectors),))
    connection.execute("COMMIT")


@lru_cache(maxsize=4)
def _version(vectors: str) -> str:
    from importlib.metadata import version

    made_by = f"{SCHEMA_VERSION} / rye-mcp {version('rye-mcp')} / SQLite {sqlite3.sqlite_version}"
    return f"{made_by} / vectors of {vectors}"


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None


def _remove(path: Path) -> None:
    for ending in _ENDINGS:
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).unlink()
