"""The rows of an index: what is known about each file, and what is counted of each document.

The words of a document stand in one text, in a line for all that count as often: what a query asks for is
picked out of it without building the rest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from rye_mcp.catalog._engine import Features

__all__ = ["Row", "features_of", "insert", "known_files", "selected", "written_words"]

_VALUES: Final = 500
"""How many values one statement asks for."""

_ROWS: Final = 250
"""How many rows one statement inserts."""


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
        yield from database.execute(f"{sql} ({', '.join('?' * len(some))})", some)


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
    sql = "SELECT key, words, length, grams, grams_length FROM features WHERE key IN"
    return {
        key: Features(
            _read(written, words),
            length,
            frozenset(some.split()) if grams is None else grams.intersection(some.split()),
            grams_length,
        )
        for key, written, length, some, grams_length in selected(database, sql, keys)
    }


def written_words(words: Mapping[str, int]) -> str:
    """Words with how often each counts, as they are kept."""
    lines: dict[int, list[str]] = {}
    for word, times in words.items():
        if times in lines:
            lines[times].append(word)
        else:
            lines[times] = [word]
    return "\n".join(" ".join((str(times), *same)) for times, same in sorted(lines.items()))


def _read(written: str, wanted: frozenset[str] | None) -> dict[str, int]:
    """The words that are wanted, out of those lines; all of them for None."""
    found: dict[str, int] = {}
    for line in written.split("\n"):
        times, _, same = line.partition(" ")
        words = same.split()
        for word in words if wanted is None else wanted.intersection(words):
            found[word] = int(times)
    return found
