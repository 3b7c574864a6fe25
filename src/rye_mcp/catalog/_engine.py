"""Writes into the tables of an index what has become of files, and answers what a search asks of them.

One batch of changes is one transaction, and the counts change with what they count. A change is left out if
another process has looked at its file meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from lilux._dataclasses import dataclass
from rye_mcp.cache_file import CacheFile
from rye_mcp.catalog._document import FIELD_WEIGHTS, NAMED, Document
from rye_mcp.catalog._matching import KEYS_OF_A_TYPE, STEM, Condition, Wanted, both, first_key
from rye_mcp.catalog._ranking import Counts, Features, stems_counted
from rye_mcp.items import ItemPlace, ItemType
from rye_mcp.language.meaning import Meaning, Signs, sign_bits
from rye_mcp.language.slips import Vocabulary
from rye_mcp.language.words import Stemmer
from rye_mcp.queries import FIELDS

__all__ = ["Change", "Engine", "Entry", "Row", "file_for", "file_of"]

SCHEMA_VERSION: Final = 12

MAX_MATCHES: Final = 1_500
"""How many documents are weighed by FTS5 for one question: about a microsecond each."""

MAX_NARROWED_MATCHES: Final = 20_000
"""The same where most of them are probably not wanted, as something else has to be so too."""

MAX_PARTS: Final = 64
"""How many words are weighed at once: each costs something for each document."""

MAX_OF_A_PREFIX: Final = 50
"""How many words a beginning stands for when what was found is ranked; all of them are found."""

MAX_VOCABULARY: Final = 50_000
"""How many words are looked at for slips, the most frequent ones."""

_VALUES: Final = 500
"""How many values one statement has."""

_COLUMNS: Final = ", ".join(FIELDS)
_STEMS: Final = f" {STEM}"
_ITEM_COLUMNS: Final = "key, item_id, extension, name, date, digest, is_destructive, is_part"
_NO_DOCUMENT: Final = ("", "", "", 0, "", "", "", "", "", False, False)
_ORDERS: Final = {
    "id": "item_id, extension, key",
    "name": "name COLLATE NOCASE, item_id, extension, key",
    "date": "date DESC, item_id, extension, key",
}
_RANK: Final = f"bm25(words, {', '.join(str(FIELD_WEIGHTS[name]) for name in FIELDS)})"
_TYPES: Final = tuple(ItemType)

_TABLES: Final = f"""
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

Kept = TypeVar("Kept")


def file_for(directory: Path, root: Path) -> Path:
    """Where the index of a space is."""
    return directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.sqlite"


@lru_cache(maxsize=4)
def file_of(vectors: str) -> CacheFile:
    """What such a file holds. `vectors` names what its vectors are made by: others cannot be compared."""
    from importlib.metadata import version

    made_by = f"{SCHEMA_VERSION} / rye-mcp {version('rye-mcp')} / SQLite {sqlite3.sqlite_version}"
    return CacheFile(_TABLES, f"{made_by} / vectors of {vectors}")


class Row(NamedTuple):
    """What is known about a file: the stamp that it had, and the digest of its bytes."""

    stamp: str
    digest: str


class Entry(NamedTuple):
    """An item as an index knows it. A tuple, as hundreds of them are made for a search."""

    key: int
    item_type: ItemType
    item_id: str
    extension: str
    name: str
    date: int
    digest: str
    is_destructive: bool
    is_part: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What a file has become.

    `before` is what was known when it was looked at. `place` and `document` are None for what is no item to
    search for, and `after` is None when the file is gone.
    """

    path: str
    before: Row | None
    after: Row | None
    place: ItemPlace | None = None
    document: Document | None = None
    date: int = 0

    @property
    def words(self) -> int:
        """How many words there are to write."""
        return len(self.document.words) if self.document else 0


class _Prepared(NamedTuple):
    """The columns of `texts` without the key, and the vector, for a document."""

    texts: tuple[Any, ...]
    vector: bytes


class Engine:
    """One index; one thread at a time."""

    def __init__(
        self, database: sqlite3.Connection, stemmer: Stemmer, meaning: Meaning | None = None
    ) -> None:
        self.database = database
        self._stemmer = stemmer
        self._meaning = meaning
        self._kept: dict[Callable[[], Any], tuple[tuple[int, int], Any]] = {}
        self._weighed_all: tuple[Wanted, int] | None = None

    # --- what changes ---

    def version(self) -> int:
        """A number that is another one after another process has written."""
        return int(self.database.execute("PRAGMA data_version").fetchone()[0])

    def rows(self, paths: Iterable[str]) -> dict[str, Row]:
        """What is known about each of these files, by its path."""
        found = self._selected("SELECT path, stamp, digest FROM items WHERE path IN", paths)
        return {path: Row(stamp, digest) for path, stamp, digest in found}

    def stamps(self) -> Iterable[tuple[str, str]]:
        """The path and the stamp of every file that is known; of many, little is made."""
        return self.database.execute("SELECT path, stamp FROM items")

    def length(self) -> int:
        """How many words all documents have."""
        return int(self.database.execute("SELECT length FROM totals").fetchone()[0])

    def write(self, changes: Sequence[Change]) -> bool:
        """Make these changes, all of them or none; whether none was left out."""
        # Whatever can be worked out before anybody has to wait is.
        prepared = self._prepared({each.path: each.document for each in changes if each.document})
        self.database.execute("BEGIN IMMEDIATE")
        try:
            made = self._write(changes, prepared)
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")
        return made == len(changes)

    def _prepared(self, documents: Mapping[str, Document]) -> Mapping[str, _Prepared]:
        """What there is to write of each of these documents, by the paths of their files."""
        every = list(documents.values())
        stems = self._stemmer.stems(set(chain.from_iterable(document.words for document in every)))
        marked = {word: STEM + stem for word, stem in stems.items()}.__getitem__
        vectors: Sequence[bytes] = [b""] * len(every)
        if self._meaning is not None:
            vectors = self._meaning.of_items([dict(zip(FIELDS, each.texts, strict=True)) for each in every])
        found: dict[str, _Prepared] = {}
        for (path, document), vector in zip(documents.items(), vectors, strict=True):
            twice = (" ".join((text, *map(marked, text.split()))) for text in document.texts)
            counted = stems_counted(document.words, stems)
            found[path] = _Prepared((*twice, counted, len(document.words)), vector)
        return found

    def _write(self, changes: Sequence[Change], prepared: Mapping[str, _Prepared]) -> int:
        sql = "SELECT path, key, stamp, digest FROM items WHERE path IN"
        known = {
            path: (key, Row(*row)) for path, key, *row in self._selected(sql, [each.path for each in changes])
        }
        stamps: list[tuple[str, int]] = []
        gone: list[int] = []
        come: dict[ItemType, list[Change]] = {}
        made = 0
        for change in changes:
            key, row = known.get(change.path, (None, None))
            if row != change.before:
                continue  # somebody else has been there
            made += 1
            if key is not None and row and change.after and row.digest == change.after.digest:
                stamps.append((change.after.stamp, key))
                continue
            gone += [] if key is None else [key]
            if change.after:
                come.setdefault(change.place.item_type if change.place else ItemType.TOOL, []).append(change)
        self.database.executemany("UPDATE items SET stamp = ? WHERE key = ?", stamps)
        self._remove(gone)
        for item_type, added in come.items():
            self._add(item_type, added, prepared)
        return made

    def _remove(self, keys: Sequence[int]) -> None:
        self._count(self._selected(f"SELECT {_COLUMNS}, counted, length FROM texts WHERE key IN", keys), -1)
        each = [(key,) for key in keys]
        self.database.executemany(
            f"INSERT INTO words(words, rowid, {_COLUMNS}) SELECT 'delete', key, {_COLUMNS} FROM texts "
            "WHERE key = ?",
            each,
        )
        for table in ("texts", "vectors", "items"):
            self.database.executemany(f"DELETE FROM {table} WHERE key = ?", each)

    def _add(self, item_type: ItemType, changes: Sequence[Change], prepared: Mapping[str, _Prepared]) -> None:
        first, within = first_key(item_type), "SELECT max(key) FROM items WHERE key BETWEEN ? AND ?"
        last = self.database.execute(within, (first, first + KEYS_OF_A_TYPE - 1)).fetchone()[0]
        items, texts, vectors = list[Any](), list[Any](), list[Any]()
        for key, change in enumerate(changes, start=first if last is None else last + 1):
            items.append((key, *_columns(change)))
            if change.document:
                row, vector = prepared[change.path]
                texts.append((key, *row))
                if vector:
                    vectors.append((key, sign_bits(vector), vector))
        for table, rows in (("items", items), ("texts", texts), ("vectors", vectors)):
            self._insert(table, rows)
        self.database.execute(
            f"INSERT INTO words(rowid, {_COLUMNS}) SELECT key, {_COLUMNS} FROM texts "
            "WHERE key BETWEEN ? AND ? ORDER BY key",
            (items[0][0], items[-1][0]),
        )
        self._count((row[1:] for row in texts), 1)

    def _count(self, rows: Iterable[Sequence[Any]], sign: int) -> None:
        """Count the words and stems of these documents, of which there are more now, or less."""
        having: Counter[str] = Counter()
        naming: Counter[str] = Counter()
        documents = length = named = 0
        for *texts, _, words in rows:
            having.update(set(" ".join(texts).split()))
            naming.update(set(texts[0].split()))
            documents += 1
            named += len(_named(texts))
            length += words
        counted = [(word, sign * having[word], sign * naming[word]) for word in sorted(having)]
        update = "documents = documents + excluded.documents, names = names + excluded.names"
        self._insert("counts", counted, f"ON CONFLICT(word) DO UPDATE SET {update}")
        if sign < 0:
            forget = "DELETE FROM counts WHERE word = ? AND documents <= 0"
            self.database.executemany(forget, [(word,) for word in having])
        totals = "UPDATE totals SET documents = documents + ?, length = length + ?, named = named + ?"
        self.database.execute(totals, (sign * documents, sign * length, sign * named))

    # --- what is found ---

    def counts(self, words: Iterable[str], prefixes: Iterable[str]) -> Counts:
        """What is counted of these words and stems, and of all that begin with the prefixes."""
        first = "ORDER BY documents DESC, word LIMIT ?"
        sql = f"SELECT word, documents FROM counts WHERE word >= ? AND word < ? {first}"
        begun = {
            prefix: dict(
                self.database.execute(sql, (prefix, f"{prefix}\U0010ffff", MAX_OF_A_PREFIX)).fetchall()
            )
            for prefix in prefixes
        }
        having = dict(self._selected("SELECT word, documents FROM counts WHERE word IN", words))
        for found in begun.values():
            having |= found
        sql = "SELECT documents, length, named FROM totals"
        documents, length, named = self.database.execute(sql).fetchone()
        return Counts(
            documents, length, named, having, {prefix: list(found) for prefix, found in begun.items()}
        )

    def count(self, wanted: Wanted) -> int:
        """How many documents match; quickest when all of them have just been candidates."""
        if self._weighed_all is not None and self._weighed_all[0] is wanted:
            return self._weighed_all[1]
        if wanted.is_one_question:
            sql = "SELECT count(*) FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?"
            found = [self._of_type(sql, each, wanted.match.expression) for each in wanted.item_types]
            return sum(rows[0][0] for rows in found)
        sql, values = wanted.condition
        return int(self.database.execute(f"SELECT count(*) FROM items WHERE {sql}", values).fetchone()[0])

    def candidates(self, wanted: Wanted, words: Sequence[str], limit: int) -> list[Entry]:
        """The documents that match and have some of these words or stems; the best of them if there are many.

        As many of the words are asked for, the rarest first, as are affordable.
        """
        most = MAX_MATCHES if wanted.is_plain else MAX_NARROWED_MATCHES
        expression, is_all = self._planned(words, limit, most)
        narrowing, values = wanted.narrowing
        sql = (
            f"SELECT rowid, {_RANK} FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? AND {narrowing}"
        )
        types = wanted.item_types if expression else ()
        weighed = [row for each in types for row in self._of_type(sql, each, expression, *values)]
        self._weighed_all = (wanted, len(weighed)) if is_all and wanted.is_plain else None
        return self._best(weighed, limit)

    def _planned(self, words: Sequence[str], limit: int, most: int) -> tuple[str, bool]:
        """The question that finds candidates, and whether it asks for all of these words."""
        sql = "SELECT documents, names, word FROM counts WHERE word IN"
        # Of what a beginning stands for, which is not stemmed, as much is asked for as there is room left.
        known = sorted(
            self._selected(sql, words[:MAX_PARTS]), key=lambda each: (not each[2].startswith(STEM), each)
        )
        chosen, left = list[str](), most
        for documents, names, word in known:
            if documents > left >= names > 0:
                chosen.append(f'name : "{word}"')
                left -= names
            elif documents <= left or most - left < limit:
                chosen.append(f'"{word}"')
                left = max(0, left - documents)
        is_all = chosen == [f'"{word}"' for *_, word in known] and len(words) <= MAX_PARTS
        return " OR ".join(f"({each})" for each in chosen), is_all

    def _of_type(self, sql: str, item_type: ItemType, expression: str, *values: Any) -> list[Any]:
        first = first_key(item_type)
        return self.database.execute(sql, (expression, first, first + KEYS_OF_A_TYPE - 1, *values)).fetchall()

    def _best(self, weighed: list[tuple[int, float]], limit: int) -> list[Entry]:
        """The best; of those that are equally good, the first by id."""
        if len(weighed) > limit:
            weighed.sort(key=itemgetter(1))
            worst = weighed[limit - 1][1]
            sure = [key for key, rank in weighed[:limit] if rank < worst]
            tied = self._entries(key for key, rank in weighed if rank == worst)
            tied.sort(key=lambda each: (each.item_id, each.extension, each.item_type))
            return self._entries(sure) + tied[: limit - len(sure)]
        return self._entries(key for key, _ in weighed)

    def matches(self, wanted: Wanted, order: str, limit: int) -> list[Entry]:
        """The first documents that match, by `name`, by `date` (the latest first) or by `id`."""
        sql, values = wanted.condition
        rows = self.database.execute(
            f"SELECT {_ITEM_COLUMNS} FROM items WHERE {sql} ORDER BY {_ORDERS[order]} LIMIT ?",
            (*values, limit),
        )
        return [_entry(row) for row in rows]

    def features(self, entries: Iterable[Entry]) -> Mapping[int, Features]:
        """What is compared of these documents, by their keys."""
        sql = f"SELECT key, counted, length, {', '.join(NAMED)} FROM texts WHERE key IN"
        found: dict[int, Features] = {}
        for key, counted, length, *texts in self._selected(sql, [each.key for each in entries]):
            found[key] = Features(counted, _named(texts), length)
        return found

    def vectors(self, entries: Iterable[Entry]) -> Mapping[int, bytes]:
        """The vectors of these documents, by their keys."""
        keys = [entry.key for entry in entries]
        return dict(self._selected("SELECT key, vector FROM vectors WHERE key IN", keys))

    def nearest(self, wanted: Wanted, vector: bytes, limit: int, seen: Container[int]) -> list[Entry]:
        """Wanted documents, whatever their words: those whose vectors share most signs with this one."""
        keys, signs = self._while_unchanged(self._signs)
        bits, allowed = sign_bits(vector), self._allowed(wanted)
        near: list[int] = []
        for item_type in wanted.item_types:
            first = first_key(item_type)
            start, end = bisect_left(keys, first), bisect_left(keys, first + KEYS_OF_A_TYPE)
            found = (keys[at] for at in signs.nearest(bits, start, end))
            near += islice(
                (key for key in found if key not in seen and (allowed is None or key in allowed)), limit
            )
        return self._entries(near)

    def _allowed(self, wanted: Wanted) -> Container[int] | None:
        """The keys of what may be found, whatever its words; None for all."""
        if wanted.others is None:
            return None
        sql, values = both(Condition("is_listed"), wanted.others)
        return {key for (key,) in self.database.execute(f"SELECT key FROM items WHERE {sql}", values)}

    def vocabulary(self) -> Vocabulary:
        """The words of the documents."""
        return self._while_unchanged(self._vocabulary)

    def _vocabulary(self) -> Vocabulary:
        sql = "SELECT word FROM counts WHERE word NOT LIKE ? ORDER BY documents DESC, word LIMIT ?"
        return Vocabulary(word for (word,) in self.database.execute(sql, (f"{STEM}%", MAX_VOCABULARY)))

    def _signs(self) -> tuple[Sequence[int], Signs]:
        """The keys of all vectors in order, and their sign bits."""
        rows = self.database.execute("SELECT key, signs FROM vectors ORDER BY key").fetchall()
        return [key for key, _ in rows], Signs(signs for _, signs in rows)

    def _while_unchanged(self, make: Callable[[], Kept]) -> Kept:
        """What was made before, unless the index has changed since."""
        state = (self.version(), self.database.total_changes)
        if make not in self._kept or self._kept[make][0] != state:
            self._kept[make] = (state, make())
        kept: Kept = self._kept[make][1]
        return kept

    def _entries(self, keys: Iterable[int]) -> list[Entry]:
        return [
            _entry(row) for row in self._selected(f"SELECT {_ITEM_COLUMNS} FROM items WHERE key IN", keys)
        ]

    def _selected(self, sql: str, values: Iterable[Any]) -> Iterator[Any]:
        """The rows of a statement that ends with `IN`, for any number of values."""
        every = list(values)
        for start in range(0, len(every), _VALUES):
            some = every[start : start + _VALUES]
            # All at once: a step of SQLite's for each row is not the whole price of it, going in and out is.
            yield from self.database.execute(f"{sql} ({', '.join('?' * len(some))})", some).fetchall()

    def _insert(self, table: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
        """Insert these rows; `tail` says what is done about those that are there."""
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self.database.executemany(f"INSERT INTO {table} VALUES ({marks}) {tail}", rows)


def _named(texts: Sequence[str]) -> str:
    """The words of name, title and description, without their stems."""
    return " ".join(text.partition(_STEMS)[0] for text in texts[: len(NAMED)])


def _columns(change: Change) -> tuple[Any, ...]:
    """The columns of `items` without the key."""
    place, document, after = change.place, change.document, change.after
    known = (change.path, *(after or ("", "")))
    if place is None or document is None:
        return (*known, False, *_NO_DOCUMENT)
    return (
        *known,
        True,
        place.item_id,
        place.extension,
        document.name,
        change.date,
        document.category,
        "\n".join(("", *document.tags, "")),
        document.tool_type,
        document.executor_id,
        document.version,
        document.is_destructive,
        document.is_part,
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    key, item_id, extension, name, date, digest, *flags = row
    return Entry(
        key, _TYPES[key // KEYS_OF_A_TYPE], item_id, extension, name, date, digest, *map(bool, flags)
    )
