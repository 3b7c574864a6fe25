"""The index of one space in an SQLite file: its tables, the file itself, and how documents are found.

The file is private to the user. It is made anew if another version wrote it, or if it is damaged.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import stat
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.catalog._document import FIELD_WEIGHTS
from rye_mcp.catalog._matching import (
    KEYS_OF_A_TYPE,
    Alternative,
    Condition,
    Entry,
    Found,
    Match,
    Wanted,
    all_conditions,
    alternatives_of,
    any_of,
    as_condition,
    first_key,
    match_of,
)
from rye_mcp.catalog._query_tree import FIELDS
from rye_mcp.catalog._ranking import Counts, Features, Group
from rye_mcp.catalog._words import TOKENIZER, Stemmer, grams_of, similar_words
from rye_mcp.catalog._writing import Change, Row, features_of, known_files, selected, write_changes
from rye_mcp.catalog.meaning import Meaning, sign_bits
from rye_mcp.files import Tree
from rye_mcp.items import ItemType

__all__ = ["DamagedError", "SqliteEngine", "file_for", "is_whole", "open_file", "open_memory"]

SCHEMA_VERSION: Final = 8
BUSY_TIMEOUT_S: Final = 2.0
"""How long to wait for another process that writes; each writes for a second at most."""

LOCK_TIMEOUT_S: Final = 1.0
"""How long to wait for other processes that open an index: who is stopped then stops nobody else."""

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
CREATE TABLE vectors(key INTEGER PRIMARY KEY, signs BLOB NOT NULL, vector BLOB NOT NULL);
CREATE TABLE features(
    key INTEGER PRIMARY KEY, words TEXT NOT NULL, length INTEGER NOT NULL, gram_words TEXT NOT NULL,
    grams TEXT NOT NULL, grams_length INTEGER NOT NULL
);
CREATE TABLE texts(key INTEGER PRIMARY KEY, {_COLUMNS});
CREATE VIRTUAL TABLE stemmed USING fts5(
    {_COLUMNS}, content='texts', content_rowid='key', tokenize='{TOKENIZER}'
);
CREATE VIRTUAL TABLE written USING fts5(
    {_COLUMNS}, content='texts', content_rowid='key', tokenize='unicode61', columnsize=0, prefix='1 2 3'
);
CREATE TABLE words(
    word TEXT PRIMARY KEY, stem TEXT NOT NULL, documents INTEGER NOT NULL, is_spelled INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX words_by_stem ON words(stem);
CREATE INDEX words_not_spelled ON words(word) WHERE is_spelled = 0;
CREATE TABLE stems(stem TEXT PRIMARY KEY, documents INTEGER NOT NULL, names INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE grams(gram TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE variants(variant INTEGER, beginning TEXT, PRIMARY KEY(variant, beginning)) WITHOUT ROWID;
CREATE TABLE totals(documents INTEGER NOT NULL, length INTEGER NOT NULL, grams INTEGER NOT NULL);
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
    with (
        Tree(path.parent, forbidden=_OTHERS).opened(create_mode=_DIRECTORY_MODE) as directory,
        whole_files.lock(directory, timeout_s=LOCK_TIMEOUT_S),
    ):
        if replacing is not None and _inode(path) == replacing:
            _remove(path)
        try:
            return _opened(path, directory, vectors)
        except DamagedError:
            _remove(path)
        return _opened(path, directory, vectors)


def open_memory(vectors: str = "") -> sqlite3.Connection:
    """An index that nobody shares, and that ends with this process."""
    connection = _connected(":memory:")
    _settle(connection)
    _make_tables(connection, vectors)
    return connection


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether every table is there: then an error in a question is one of who asks."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    return {name for (name,) in found} >= _NAMES


def _opened(path: Path, directory: int, vectors: str) -> sqlite3.Connection:
    _require_private(path.name, directory)
    connection = _connected(f"{path.absolute().as_uri()}?mode=rw")
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
    """Make the file if it is missing; DamagedError if it, or one beside it, is not of this user alone."""
    for ending in _ENDINGS:
        try:
            found = os.stat(name + ending, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue
        is_own = found.st_uid == os.geteuid() and found.st_nlink == 1
        if not stat.S_ISREG(found.st_mode) or not is_own or found.st_mode & _OTHERS:
            raise DamagedError(f"expected a file of this user alone, found another one: {name}{ending}")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(name, flags, _FILE_MODE, dir_fd=directory))


def _prepare(connection: sqlite3.Connection, vectors: str) -> None:
    _settle(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        _make_tables(connection, vectors)
    if connection.execute("SELECT version FROM made_by").fetchall() != [(_version(vectors),)]:
        raise DamagedError(f"expected an index of {_version(vectors)}, found another one")


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


MAX_MATCHES: Final = 1_500
"""How many documents are weighed by FTS5 for one question: about a microsecond each."""

MAX_NARROWED_MATCHES: Final = 20_000
"""The same where most of them are probably not wanted, as something else has to be so too."""

MAX_PARTS: Final = 64
"""How many parts a question may have that weighs documents: each costs something for each document."""

MAX_OF_A_PREFIX: Final = 50
"""How many words a beginning stands for when what was found is ranked; all of them are found."""

_ITEM_COLUMNS: Final = "items.key, item_id, extension, items.name, date, digest, is_destructive, is_part"
_ORDERS: Final = {
    "id": "item_id, extension, items.key",
    "name": "items.name COLLATE NOCASE, item_id, extension, items.key",
    "date": "date DESC, item_id, extension, items.key",
}
_RANK: Final = f"bm25(stemmed, {', '.join(str(FIELD_WEIGHTS[name]) for name in FIELDS)})"
_TYPES: Final = tuple(ItemType)


@dataclass(frozen=True, slots=True)
class _Signs:
    """The sign bits of all vectors, and the keys of their documents in order, in one state of the index."""

    state: tuple[int, int]
    keys: Sequence[int]
    signs: Sequence[int]


class SqliteEngine:
    """One index; one thread at a time."""

    def __init__(
        self, database: sqlite3.Connection, stemmer: Stemmer, meaning: Meaning | None = None
    ) -> None:
        self.database = database
        self._stemmer = stemmer
        self._meaning = meaning
        self._signs: _Signs | None = None
        self._weighed_all: tuple[Wanted, int] | None = None

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # --- what changes ---

    def version(self) -> int:
        """A number that is another one after another process has written."""
        return int(self.database.execute("PRAGMA data_version").fetchone()[0])

    def rows(self, paths: Iterable[str]) -> dict[str, Row]:
        """What is known about each of these files, by its path."""
        return {path: row for path, (_, row) in known_files(self.database, paths).items()}

    def stamps(self) -> Iterable[tuple[str, str]]:
        """The path and the stamp of every file that is known; of many, little is made."""
        return self.database.execute("SELECT path, stamp FROM items")

    def words(self) -> int:
        """How many words all documents have."""
        return int(self.database.execute("SELECT length FROM totals").fetchone()[0])

    def write(self, changes: Sequence[Change]) -> bool:
        """Make these changes, all of them or none; whether none was left out."""
        return write_changes(self.database, self._stemmer, changes, self._meaning)

    # --- what is found ---

    def counts(self, words: Iterable[str], prefixes: Iterable[str]) -> Counts:
        """What is counted of these words, and of all that begin with the prefixes."""
        wanted = list(dict.fromkeys(words))
        stems = self._stemmer.stems(wanted)
        groups = self._groups_by_stem(set(stems.values()))
        groups |= {f"{prefix}*": self._group_by_prefix(prefix) for prefix in prefixes}
        grams = {gram for word in wanted for gram in grams_of(word)}
        totals = self.database.execute("SELECT documents, length, grams FROM totals").fetchone()
        return Counts(
            documents=totals[0],
            length=totals[1],
            grams_length=totals[2],
            groups=groups,
            words=dict(self._asked("SELECT word, documents FROM words WHERE word IN", wanted)),
            grams=dict(self._asked("SELECT gram, documents FROM grams WHERE gram IN", grams)),
        )

    def _groups_by_stem(self, stems: Iterable[str]) -> dict[str, Group]:
        words: dict[str, list[str]] = {}
        for stem, word in self._asked("SELECT stem, word FROM words WHERE stem IN", stems):
            words.setdefault(stem, []).append(word)
        counted = dict(self._asked("SELECT stem, documents FROM stems WHERE stem IN", stems))
        return {stem: Group(stem, counted[stem], tuple(words[stem])) for stem in words}

    def _group_by_prefix(self, prefix: str) -> Group:
        rows = self.database.execute(
            "SELECT word, documents FROM words WHERE word >= ? AND word < ? "
            "ORDER BY documents DESC, word LIMIT ?",
            (prefix, prefix + "\U0010ffff", MAX_OF_A_PREFIX),
        ).fetchall()
        return Group(f"{prefix}*", sum(row[1] for row in rows), tuple(row[0] for row in rows))

    def is_empty(self) -> bool:
        """Whether there is no document at all."""
        return not self.database.execute("SELECT documents FROM totals").fetchone()[0]

    def count(self, wanted: Wanted) -> int:
        """How many documents match; quickest when all of them have just been candidates."""
        if self._weighed_all is not None and self._weighed_all[0] is wanted:
            return self._weighed_all[1]
        match = match_of(wanted)
        if isinstance(match, Match) and not match.is_negated and _is_bare(wanted):
            return sum(self._count_in(match, item_type) for item_type in wanted.item_types)
        condition = self._condition(wanted)
        found = self.database.execute(f"SELECT count(*) FROM items WHERE {condition.sql}", condition.values)
        return int(found.fetchone()[0])

    def _count_in(self, match: Match, item_type: ItemType) -> int:
        first = first_key(item_type)
        found = self.database.execute(
            f"SELECT count(*) FROM {match.table} WHERE {match.table} MATCH ? AND rowid BETWEEN ? AND ?",
            (match.expression, first, first + KEYS_OF_A_TYPE - 1),
        )
        return int(found.fetchone()[0])

    def candidates(self, wanted: Wanted, words: Iterable[str], limit: int) -> list[Entry]:
        """The documents that match and speak of these words; the best of them when there are many."""
        match = match_of(wanted)
        restriction, is_all = Condition("1"), False
        if isinstance(match, Match) and _is_ranked(wanted, match):
            parts = alternatives_of(wanted)
            expression, is_all = (
                (match.expression, True) if parts is None else self._plan(parts, limit, MAX_MATCHES)
            )
        else:
            listed = self._by_stem(words)[:MAX_PARTS]
            named = [Alternative((word,), f'"{word}"', f'name : "{word}"') for word in listed]
            restriction, most = self._restriction(wanted, match)
            expression, _ = self._plan(named, limit, most)
        weighed: list[tuple[int, float]] = []
        for item_type in wanted.item_types if expression else ():
            weighed += self._weighed(expression, item_type, restriction)
        self._weighed_all = (wanted, len(weighed)) if is_all else None
        return self._best(weighed, limit)

    def _restriction(self, wanted: Wanted, match: Found) -> tuple[Condition, int]:
        """What else a document has to be, and how many may be weighed to find some that are."""
        # The plus keeps SQLite from asking the full-text table once for each key.
        if isinstance(match, Match) and not match.is_negated and _is_bare(wanted):
            # The words that a beginning stands for are nearly all in documents that match.
            sql = f"+rowid IN (SELECT rowid FROM {match.table} WHERE {match.table} MATCH ?)"
            return Condition(sql, (match.expression,)), MAX_MATCHES
        condition = self._condition(wanted)
        sql = f"+rowid IN (SELECT key FROM items WHERE {condition.sql})"
        return Condition(sql, condition.values), MAX_NARROWED_MATCHES

    def _weighed(
        self, expression: str, item_type: ItemType, restriction: Condition
    ) -> list[tuple[int, float]]:
        first = first_key(item_type)
        sql = f"SELECT rowid, {_RANK} FROM stemmed WHERE stemmed MATCH ? AND rowid BETWEEN ? AND ?"
        values = (expression, first, first + KEYS_OF_A_TYPE - 1)
        return self.database.execute(
            f"{sql} AND {restriction.sql}", (*values, *restriction.values)
        ).fetchall()

    def _by_stem(self, words: Iterable[str]) -> list[str]:
        """One word of each stem, in their order."""
        listed = list(words)
        stems = self._stemmer.stems(listed)
        return list({stems[word]: word for word in reversed(listed)}.values())[::-1]

    def _plan(self, parts: Sequence[Alternative], limit: int, most: int) -> tuple[str, bool]:
        """The question that finds candidates: as many of its parts, the rarest first, as are affordable.

        And whether it finds all that the parts do.
        """
        left, chosen = most, list[Alternative]()
        priced = self._priced(parts)
        for documents, names, part in priced[:MAX_PARTS]:
            if part.in_name and documents > left >= names > 0:
                chosen.append(Alternative(part.words, part.in_name))
                left -= names
            elif documents <= left or most - left < limit:
                chosen.append(part)
                left = max(0, left - documents)
        return any_of(chosen), chosen == [part for _, _, part in priced]

    def _priced(self, parts: Sequence[Alternative]) -> list[tuple[int, int, Alternative]]:
        """In how many documents, and in how many names, the words of each part are; the rarest part first.

        A part with a word that nothing has is left out.
        """
        stems = self._stemmer.stems(word for part in parts for word in part.words)
        sql = "SELECT stem, documents, names FROM stems WHERE stem IN"
        known = {stem: counted for stem, *counted in self._asked(sql, set(stems.values()))}
        priced: list[tuple[int, int, Alternative]] = []
        for part in parts:
            counted = [known.get(stems[word]) for word in part.words]
            if None not in counted:
                documents, names = map(sum, zip(*filter(None, counted), strict=True))
                priced.append((documents, names, part))
        return sorted(priced, key=lambda each: (each[0], each[2].expression))

    def _best(self, weighed: list[tuple[int, float]], limit: int) -> list[Entry]:
        """The best; of those that are equally good, the first by id."""
        if len(weighed) <= limit:
            return self._entries([key for key, _ in weighed])
        weighed.sort(key=itemgetter(1))
        worst = weighed[limit - 1][1]
        sure = [key for key, rank in weighed[:limit] if rank < worst]
        tied = [key for key, rank in weighed if rank == worst]
        if len(sure) + len(tied) > limit:
            tied = self._first_by_id(tied, limit - len(sure))
        return self._entries(sure + tied)

    def _first_by_id(self, keys: Iterable[int], limit: int) -> list[int]:
        rows = self._asked("SELECT item_id, extension, key FROM items WHERE key IN", keys)
        ordered = sorted((item_id, extension, _type_of(key), key) for item_id, extension, key in rows)
        return [key for *_, key in ordered[:limit]]

    def matches(self, wanted: Wanted, order: str, limit: int) -> list[Entry]:
        """The first documents that match, by `name`, by `date` (the latest first) or by `id`."""
        condition = self._condition(wanted)
        rows = self.database.execute(
            f"SELECT {_ITEM_COLUMNS} FROM items WHERE {condition.sql} ORDER BY {_ORDERS[order]} LIMIT ?",
            (*condition.values, limit),
        )
        return [_entry(row) for row in rows]

    def features(
        self, entries: Iterable[Entry], words: frozenset[str], grams: frozenset[str]
    ) -> Mapping[int, Features]:
        """What is counted of these documents, by their keys, as far as it is about these."""
        return features_of(self.database, [entry.key for entry in entries], words, grams)

    def vectors(self, entries: Iterable[Entry]) -> Mapping[int, bytes]:
        """The vectors of these documents, by their keys."""
        keys = [entry.key for entry in entries]
        return dict(self._asked("SELECT key, vector FROM vectors WHERE key IN", keys))

    def nearest(self, wanted: Wanted, vector: bytes, limit: int, seen: Container[int]) -> list[Entry]:
        """Wanted documents, whatever their words: those whose vectors share most signs with this one."""
        state = (self.version(), self.database.total_changes)
        if self._signs is None or self._signs.state != state:
            rows = self.database.execute("SELECT key, signs FROM vectors ORDER BY key").fetchall()
            signs = [int.from_bytes(each, "little") for _, each in rows]
            self._signs = _Signs(state, [key for key, _ in rows], signs)
        distances = list(map(int.bit_count, map(sign_bits(vector).__xor__, self._signs.signs)))
        allowed = self._allowed(wanted, self._signs.keys)
        near = sorted((distances[at], key) for at, key in allowed if key not in seen)
        return self._entries(key for _, key in near[:limit])

    def _allowed(self, wanted: Wanted, keys: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Which of these keys are those of items that may be found, and where they stand."""
        if _is_bare(wanted):
            for item_type in wanted.item_types:
                first = first_key(item_type)
                start, end = bisect_left(keys, first), bisect_left(keys, first + KEYS_OF_A_TYPE)
                yield from enumerate(keys[start:end], start)
            return
        condition = _all_of([Condition("items.is_listed"), *all_conditions(wanted)])
        found = self.database.execute(f"SELECT key FROM items WHERE {condition.sql}", condition.values)
        named = {key for (key,) in found}
        yield from ((at, key) for at, key in enumerate(keys) if key in named)

    def similar(self, word: str, distance: int) -> tuple[str, ...]:
        """The words of the documents that are at most so many edits away from this one."""
        return similar_words(self.database, word, distance)

    def _entries(self, keys: Iterable[int]) -> list[Entry]:
        return [_entry(row) for row in self._asked(f"SELECT {_ITEM_COLUMNS} FROM items WHERE key IN", keys)]

    def _condition(self, wanted: Wanted) -> Condition:
        return _all_of(
            [Condition("items.is_listed"), *all_conditions(wanted), as_condition(match_of(wanted))]
        )

    def _asked(self, sql: str, values: Iterable[Any]) -> Iterator[Any]:
        return selected(self.database, sql, values)


def _all_of(parts: Sequence[Condition]) -> Condition:
    return Condition(
        " AND ".join(f"({part.sql})" for part in parts), tuple(v for part in parts for v in part.values)
    )


def _is_ranked(wanted: Wanted, match: Match) -> bool:
    """Whether what answers this question can be weighed by it."""
    is_weighing = match.table == "stemmed" and not match.is_negated
    return is_weighing and _is_bare(wanted) and _has_few_parts(wanted, match)


def _has_few_parts(wanted: Wanted, match: Match) -> bool:
    return alternatives_of(wanted) is not None or match.expression.count('"') <= 2 * MAX_PARTS


def _is_bare(wanted: Wanted) -> bool:
    """Whether the tree alone says what matches."""
    return not wanted.id_patterns and not wanted.filters


def _entry(row: tuple[Any, ...]) -> Entry:
    key, item_id, extension, name, date, digest, *flags = row
    return Entry(key, _type_of(key), item_id, extension, name, date, digest, *map(bool, flags))


def _type_of(key: int) -> ItemType:
    return _TYPES[key // KEYS_OF_A_TYPE]
