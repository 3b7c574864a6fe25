"""Writes what has become of files into the tables of an index, and reads rows and counts back.

One batch is one transaction, and the counts change with what they count. A change is left out if another
process has looked at its file meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.catalog._document import Document
from rye_mcp.catalog._matching import KEYS_OF_A_TYPE, first_key
from rye_mcp.catalog._query_tree import FIELDS
from rye_mcp.catalog._ranking import Features
from rye_mcp.catalog._words import MARKS, Stemmer, grams_of, sign_of
from rye_mcp.catalog.meaning import Meaning, sign_bits
from rye_mcp.items import ItemPlace, ItemType

__all__ = [
    "Change",
    "Row",
    "features_of",
    "insert",
    "known_files",
    "selected",
    "write_changes",
    "written_in_a_row",
    "written_words",
]

_VALUES: Final = 500
"""How many values one statement asks for."""

_ROWS: Final = 250
"""How many rows one statement inserts."""

_TOLD_APART: Final = 6
"""How many characters words share that are looked for together, as those of a stem mostly do."""

_MANY_BEGINNINGS: Final = 24
"""From how many on it is quicker to look at every word of a document than to look for each of them."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known about a file: the stamp that it had, and the digest of its bytes."""

    stamp: str
    digest: str


def selected(database: sqlite3.Connection, sql: str, values: Iterable[Any]) -> Iterator[Any]:
    """The rows of a statement that ends with `IN`, for any number of values."""
    every = list(values)
    for start in range(0, len(every), _VALUES):
        some = every[start : start + _VALUES]
        # All at once: a step of SQLite's for each row is not the whole price of it, going in and out is.
        yield from database.execute(f"{sql} ({', '.join('?' * len(some))})", some).fetchall()


def insert(database: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
    """Insert these rows, many in a statement; `tail` says what is done about those that are there."""
    if not rows:
        return
    one = f"({', '.join('?' * len(rows[0]))})"
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        values = tuple(chain.from_iterable(some))
        database.execute(f"INSERT INTO {table} VALUES {', '.join([one] * len(some))} {tail}", values)


def known_files(database: sqlite3.Connection, paths: Iterable[str]) -> dict[str, tuple[int, Row]]:
    """The key of each of these files, and what is known about it."""
    rows = selected(database, "SELECT path, key, stamp, digest FROM items WHERE path IN", paths)
    return {path: (key, Row(stamp, digest)) for path, key, stamp, digest in rows}


def features_of(
    database: sqlite3.Connection,
    keys: Iterable[int],
    words: frozenset[str] | None = None,
    grams: frozenset[str] | None = None,
) -> dict[int, Features]:
    """What is counted of these documents, by their keys: of these words and n-grams, or of all for None."""
    sql = "SELECT key, words, length, gram_words, grams, grams_length FROM features WHERE key IN"
    rows = selected(database, sql, keys)
    if words is None or grams is None:
        return {
            key: Features(_every(written), length, _grams_in(some), grams_length)
            for key, written, length, some, _, grams_length in rows
        }
    beginnings = _beginnings(words)
    signed = [(gram, sign) for gram in grams if (sign := sign_of(gram))]
    unsigned = [(gram, gram.translate(MARKS)) for gram in grams if not sign_of(gram)]
    return {
        key: Features(
            _picked(written, words, beginnings),
            length,
            _held(signed, signs) + _held(unsigned, some),
            grams_length,
        )
        for key, written, length, some, signs, grams_length in rows
    }


def _held(grams: Iterable[tuple[str, str]], kept: str) -> list[str]:
    """Those n-grams whose sign is in what is kept of a document."""
    return [gram for gram, sign in grams if sign in kept]


def written_words(words: Mapping[str, int]) -> str:
    """Words with how often each counts, as they are kept."""
    lines: dict[int, list[str]] = {}
    for word, times in words.items():
        if times in lines:
            lines[times].append(word)
        else:
            lines[times] = [word]
    return "\n".join(" ".join((str(times), *same, "")) for times, same in sorted(lines.items()))


def written_in_a_row(words: Iterable[str]) -> str:
    """Words as those are kept of which the n-grams count: a blank is where one begins or ends."""
    return " ".join(("", *words, ""))


def _grams_in(written: str) -> frozenset[str]:
    return frozenset(chain.from_iterable(map(grams_of, written.split())))


def _every(written: str) -> dict[str, int]:
    """All words, out of those lines."""
    found: dict[str, int] = {}
    for line in written.split("\n"):
        times, _, same = line.partition(" ")
        found |= dict.fromkeys(same.split(), int(times or 0))
    return found


def _beginnings(words: frozenset[str]) -> list[str] | None:
    """What all of these words begin with, as it is written; None when that is too much to look for."""
    alike: dict[str, list[str]] = {}
    for word in words:
        alike.setdefault(word[:_TOLD_APART], []).append(word)
    if len(alike) > _MANY_BEGINNINGS:
        return None
    return [f" {each[0]} " if len(each) == 1 else f" {_shared(each)}" for each in alike.values()]


def _shared(words: Sequence[str]) -> str:
    """What all of these words begin with: the first and the last of them tell."""
    first, last = min(words), max(words)
    for number, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:number]
    return first


def _picked(written: str, wanted: frozenset[str], beginnings: list[str] | None) -> dict[str, int]:
    """The words that are wanted, out of those lines."""
    if beginnings is None:
        # The numbers of the lines are among them, and are no words: no blank is before them.
        beginnings = [f" {word} " for word in wanted.intersection(written.split())]
    found: dict[str, int] = {}
    for beginning in beginnings:
        at = written.find(beginning)
        while at >= 0:
            end = written.index(" ", at + 1)
            if (word := written[at + 1 : end]) in wanted:
                line = written.rfind("\n", 0, at) + 1
                found[word] = int(written[line : written.index(" ", line)])
            at = written.find(beginning, end)
    return found


_COUNTED: Final = "ON CONFLICT({}) DO UPDATE SET documents = documents + excluded.documents"
_TABLES: Final = {"words": "word", "stems": "stem", "grams": "gram"}


class Tally:
    """Documents that came and went, until they are written."""

    def __init__(self, stemmer: Stemmer) -> None:
        self._stemmer = stemmer
        self._stem_of: dict[str, str] = {}
        self._words: Counter[str] = Counter()
        self._stems: Counter[str] = Counter()
        self._names: Counter[str] = Counter()
        self._grams: Counter[str] = Counter()
        self._documents = 0
        self._length = 0
        self._grams_length = 0
        self._gone = False

    def add(self, documents: Collection[tuple[Features, str]], sign: int) -> None:
        """These documents came (1) or went (-1): what is counted of each, and the words of its name."""
        words = set(chain.from_iterable(features.words for features, _ in documents))
        self._stem_of.update(self._stemmer.stems(words))
        for features, name in documents:
            self._add(features, name, sign)
        self._documents += sign * len(documents)
        self._gone = self._gone or (sign < 0 and bool(documents))

    def _add(self, features: Features, name: str, sign: int) -> None:
        stem_of = self._stem_of.__getitem__
        counted = (
            (self._words, features.words),
            (self._stems, set(map(stem_of, features.words))),
            (self._names, set(map(stem_of, features.words.keys() & name.split()))),
            (self._grams, features.grams),
        )
        for counter, values in counted:
            # Of an iterable a Counter counts in C; none of these has anything twice.
            (counter.update if sign > 0 else counter.subtract)(iter(values))
        self._length += sign * features.length
        self._grams_length += sign * features.grams_length

    def write(self, database: sqlite3.Connection) -> None:
        """Add all of it to what is there, in the transaction that is open."""
        stem_of, words, stems, names = self._stem_of, self._words, self._stems, self._names
        known = [(word, stem_of[word], words[word], 0) for word in sorted(words)]
        insert(database, "words", known, _COUNTED.format("word"))
        stemmed = [(stem, stems[stem], names[stem]) for stem in sorted(stems)]
        insert(database, "stems", stemmed, f"{_COUNTED.format('stem')}, names = names + excluded.names")
        insert(database, "grams", sorted(self._grams.items()), _COUNTED.format("gram"))
        database.execute(
            "UPDATE totals SET documents = documents + ?, length = length + ?, grams = grams + ?",
            (self._documents, self._length, self._grams_length),
        )
        if self._gone:
            self._forget(database)

    def _forget(self, database: sqlite3.Connection) -> None:
        for (table, column), counter in zip(
            _TABLES.items(), (self._words, self._stems, self._grams), strict=True
        ):
            database.executemany(
                f"DELETE FROM {table} WHERE {column} = ? AND documents <= 0", [(each,) for each in counter]
            )


_COLUMNS: Final = ", ".join(FIELDS)
_NO_DOCUMENT: Final = ("", "", "", 0, "", "", "", "", "", False, False)
_OF_DOCUMENTS: Final = ("texts", "features", "vectors")
_FULL_TEXT: Final = ("stemmed", "written")

Columns = tuple[Any, ...]


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
        return self.document.length if self.document else 0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A change, and the columns of `features` and of `vectors` for its document."""

    change: Change
    features: Columns
    vector: Columns


_Coming = tuple[_Prepared, Row]
"""What was prepared, and what is known of its file from now on."""


def write_changes(
    database: sqlite3.Connection, stemmer: Stemmer, changes: Sequence[Change], meaning: Meaning | None = None
) -> bool:
    """Make these changes, all of them or none; whether none was left out."""
    # Whatever can be worked out before anybody has to wait is.
    tally = Tally(stemmer)
    tally.add([_counted(change.document) for change in changes if change.document], 1)
    vectors = iter(_vectors([change.document for change in changes if change.document], meaning))
    prepared = [
        _Prepared(change, _features_row(change.document), next(vectors) if change.document else ())
        for change in changes
    ]
    database.execute("BEGIN IMMEDIATE")
    try:
        made = _write(database, prepared, tally)
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
    return made == len(changes)


@dataclass(slots=True)
class _Sorted:
    """What is to be done for each change, now that it is known what the tables hold."""

    stamps: list[tuple[str, int]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    come: dict[ItemType, list[_Coming]] = field(default_factory=dict)
    left_out: list[Change] = field(default_factory=list)

    def take(self, prepared: _Prepared, key: int | None, row: Row | None) -> None:
        """Sort in a change; `key` and `row` are what is known of its file."""
        change = prepared.change
        if row != change.before:
            self.left_out.append(change)
            return
        if key is not None and row and change.after and row.digest == change.after.digest:
            self.stamps.append((change.after.stamp, key))
            return
        if key is not None:
            self.gone.append(key)
        if change.after:
            item_type = change.place.item_type if change.place else ItemType.TOOL
            self.come.setdefault(item_type, []).append((prepared, change.after))


def _write(database: sqlite3.Connection, prepared: Sequence[_Prepared], tally: Tally) -> int:
    known = known_files(database, [each.change.path for each in prepared])
    found = _Sorted()
    for each in prepared:
        found.take(each, *known.get(each.change.path, (None, None)))
    tally.add([_counted(change.document) for change in found.left_out if change.document], -1)
    database.executemany("UPDATE items SET stamp = ? WHERE key = ?", found.stamps)
    _remove(database, found.gone, tally)
    for item_type, added in found.come.items():
        _add(database, item_type, added)
    tally.write(database)
    return len(prepared) - len(found.left_out)


def _remove(database: sqlite3.Connection, keys: Sequence[int], tally: Tally) -> None:
    names = dict(selected(database, "SELECT key, name FROM texts WHERE key IN", keys))
    tally.add([(features, names[key]) for key, features in features_of(database, keys).items()], -1)
    each = [(key,) for key in keys]
    for table in _FULL_TEXT:
        database.executemany(
            f"INSERT INTO {table}({table}, rowid, {_COLUMNS}) "
            f"SELECT 'delete', key, {_COLUMNS} FROM texts WHERE key = ?",
            each,
        )
    for table in (*_OF_DOCUMENTS, "items"):
        database.executemany(f"DELETE FROM {table} WHERE key = ?", each)


def _add(database: sqlite3.Connection, item_type: ItemType, come: Sequence[_Coming]) -> None:
    first = _next_key(database, item_type)
    items: list[Columns] = []
    texts: list[Columns] = []
    features: list[Columns] = []
    vectors: list[Columns] = []
    for key, (prepared, after) in enumerate(come, start=first):
        document = prepared.change.document
        items.append((key, *_of_file(prepared.change, after)))
        if document:
            texts.append((key, *document.texts))
            features.append((key, *prepared.features))
            vectors += [(key, *prepared.vector)] if prepared.vector else []
    insert(database, "items", items)
    insert(database, "texts", texts)
    insert(database, "features", features)
    insert(database, "vectors", vectors)
    for table in _FULL_TEXT:
        database.execute(
            f"INSERT INTO {table}(rowid, {_COLUMNS}) SELECT key, {_COLUMNS} FROM texts "
            "WHERE key BETWEEN ? AND ? ORDER BY key",
            (first, first + len(items) - 1),
        )


def _next_key(database: sqlite3.Connection, item_type: ItemType) -> int:
    first = first_key(item_type)
    within = (first, first + KEYS_OF_A_TYPE - 1)
    last = database.execute("SELECT max(key) FROM items WHERE key BETWEEN ? AND ?", within).fetchone()[0]
    return first if last is None else int(last) + 1


def _of_file(change: Change, after: Row) -> Columns:
    """The columns of `items` without the key."""
    place, document = change.place, change.document
    if place is None or document is None:
        return (change.path, after.stamp, after.digest, False, *_NO_DOCUMENT)
    return (
        change.path,
        after.stamp,
        after.digest,
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


def _vectors(documents: Sequence[Document], meaning: Meaning | None) -> list[Columns]:
    """The columns of `vectors` without the key, for each document; empty where there is none."""
    if meaning is None:
        return [()] * len(documents)
    made = meaning.of_items([dict(zip(FIELDS, document.texts, strict=True)) for document in documents])
    return [(sign_bits(each).to_bytes(len(each) // 8, "little"), each) if each else () for each in made]


def _counted(document: Document) -> tuple[Features, str]:
    """What is counted of a document, and the words of its name."""
    grams = document.grams
    return Features(document.words, document.length, grams, len(grams)), document.texts[0]


def _features_row(document: Document | None) -> Columns:
    """The columns of `features` without the key."""
    if document is None:
        return ()
    in_a_row = written_in_a_row(document.gram_words)
    signs = "".join(map(sign_of, document.grams))
    return (written_words(document.words), document.length, in_a_row, signs, len(document.grams))
