"""What files have become → the tables of an index.

Rules:

- What is written at once is one transaction, and what is counted changes with what it counts: whoever is
  killed leaves the one state or the other.
- A change is made only as long as what is known about its file is what it was made for. Otherwise another
  process has looked at the file too, and whoever asked for the change looks again.
- Work that grows with the number of documents is left to SQLite, in few statements: while one of these runs,
  other threads do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rye_mcp.catalog._document import Document
from rye_mcp.catalog._engine import Features
from rye_mcp.catalog._matching import KEYS_OF_A_TYPE, first_key
from rye_mcp.catalog._query_tree import FIELDS
from rye_mcp.catalog._rows import (
    Row,
    features_of,
    insert,
    known_files,
    selected,
    written_in_a_row,
    written_words,
)
from rye_mcp.catalog._stems import Stemmer
from rye_mcp.catalog._tally import Tally
from rye_mcp.catalog._words import sign_of
from rye_mcp.items import ItemPlace, ItemType

__all__ = ["Change", "write_changes"]

_COLUMNS: Final = ", ".join(FIELDS)
_NO_DOCUMENT: Final = ("", "", "", 0, "", "", "", "", "")
_OF_DOCUMENTS: Final = ("texts", "features")
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


_Coming = tuple[Change, Row, Columns]
"""A change, what is known of its file from now on, and the columns of `features` for its document."""


def write_changes(database: sqlite3.Connection, stemmer: Stemmer, changes: Sequence[Change]) -> bool:
    """Make these changes, all of them or none; whether none was left out."""
    # Whatever can be worked out before anybody has to wait is.
    tally = Tally(stemmer)
    tally.add([_counted(change.document) for change in changes if change.document], 1)
    prepared = [(change, _features_row(change.document)) for change in changes]
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

    def take(self, change: Change, features: Columns, key: int | None, row: Row | None) -> None:
        """Sort in a change; `key` and `row` are what is known of its file."""
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
            self.come.setdefault(item_type, []).append((change, change.after, features))


def _write(database: sqlite3.Connection, prepared: Sequence[tuple[Change, Columns]], tally: Tally) -> int:
    known = known_files(database, [change.path for change, _ in prepared])
    found = _Sorted()
    for change, features in prepared:
        found.take(change, features, *known.get(change.path, (None, None)))
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
    for key, (change, after, counted) in enumerate(come, start=first):
        items.append((key, *_of_file(change, after)))
        if change.document:
            texts.append((key, *change.document.texts))
            features.append((key, *counted))
    insert(database, "items", items)
    insert(database, "texts", texts)
    insert(database, "features", features)
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
    )


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
