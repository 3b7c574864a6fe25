"""The rows of an index: what is known about each file, and what is counted of each document.

The words of a document stand in one text, in a line for all that count as often, and those whose n-grams
count in another. A blank is before and behind each: what a query asks for is found there as it is written,
and nothing is made of the rest. The n-grams have a text of their own, with one sign for each that has one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from rye_mcp.catalog._engine import Features
from rye_mcp.catalog._words import MARKS, grams_of, sign_of

__all__ = ["Row", "features_of", "insert", "known_files", "selected", "written_in_a_row", "written_words"]

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
            [gram for gram, sign in signed if sign in signs]
            + [gram for gram, marked in unsigned if marked in some],
            grams_length,
        )
        for key, written, length, some, signs, grams_length in rows
    }


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
