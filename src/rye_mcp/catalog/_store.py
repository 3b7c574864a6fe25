"""The engine: the documents of one space in an SQLite file, found by FTS5.

Rules:

- What is written is written in transactions of a few milliseconds, and what is counted changes with what it
  counts: whoever is killed leaves the one state or the other.
- A question that many documents answer is asked in two steps. Words that are in few documents find
  candidates, words that are in many only where they stand in a name; then every candidate is compared as a
  whole. The plan, and what wins a tie, depend on the documents, and not on when they were indexed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from rye_mcp.catalog._document import FIELD_WEIGHTS, Document
from rye_mcp.catalog._engine import Counts, Entry, Features, Group, Wanted
from rye_mcp.catalog._matching import (
    KEYS_OF_A_TYPE,
    Alternative,
    Condition,
    Match,
    all_conditions,
    alternatives_of,
    any_of,
    as_condition,
    first_key,
    match_of,
)
from rye_mcp.catalog._query_tree import FIELDS
from rye_mcp.catalog._spelling import similar_words
from rye_mcp.catalog._stems import Stemmer
from rye_mcp.catalog._tally import Tally
from rye_mcp.catalog._words import grams_of
from rye_mcp.items import ItemPlace, ItemType

__all__ = ["Change", "Row", "SqliteEngine"]

MAX_MATCHES: Final = 2_000
"""How many documents are weighed by FTS5 for one question: about a microsecond each."""

MAX_OF_A_PREFIX: Final = 50
"""How many words a beginning stands for when what was found is ranked; all of them are found."""

_ITEM_COLUMNS: Final = "items.key, item_id, extension, items.name, date, digest"
_ORDERS: Final = {
    "id": "item_id, extension, items.key",
    "name": "items.name COLLATE NOCASE, item_id, extension, items.key",
    "date": "date DESC, item_id, extension, items.key",
}
_RANK: Final = f"bm25(stemmed, {', '.join(str(FIELD_WEIGHTS[name]) for name in FIELDS)})"
_TYPES: Final = tuple(ItemType)
_VALUES: Final = 500
"""How many values one statement asks for."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known about a file: the stamp that it had, and the digest of its bytes."""

    stamp: str
    digest: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a file has become.

    `before` is what was known when it was looked at: when something else is known by now, another process has
    looked at it too, and the change is not made. `place` and `document` are None for what is no item to
    search for, and `after` is None when the file is gone.
    """

    path: str
    before: Row | None
    after: Row | None
    place: ItemPlace | None = None
    document: Document | None = None
    date: int = 0


class SqliteEngine:
    """One index; one thread at a time."""

    def __init__(self, database: sqlite3.Connection, stemmer: Stemmer) -> None:
        self.database = database
        self._stemmer = stemmer

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # --- what changes ---

    def rows(self) -> dict[str, Row]:
        """What is known about each file, by its path."""
        rows = self.database.execute("SELECT path, stamp, digest FROM items")
        return {path: Row(stamp, digest) for path, stamp, digest in rows}

    def write(self, changes: Sequence[Change]) -> bool:
        """Make these changes, all of them or none; whether none was left out."""
        self._stemmer.stems(word for each in changes if each.document for word in each.document.words)
        counted = Tally(self._stemmer)
        self.database.execute("BEGIN IMMEDIATE")
        try:
            made = [self._change(change, counted) for change in changes]
            counted.write(self.database)
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")
        return all(made)

    def _change(self, change: Change, counted: Tally) -> bool:
        found = self.database.execute(
            "SELECT key, stamp, digest FROM items WHERE path = ?", (change.path,)
        ).fetchone()
        if (Row(*found[1:]) if found else None) != change.before:
            return False
        if found and change.after and found[2] == change.after.digest:
            self.database.execute("UPDATE items SET stamp = ? WHERE key = ?", (change.after.stamp, found[0]))
            return True
        if found:
            self._remove(found[0], counted)
        if change.after:
            self._add(change, change.after, counted)
        return True

    def _add(self, change: Change, after: Row, counted: Tally) -> None:
        place, document = change.place, change.document
        key = self._next_key(place.item_type if place else ItemType.TOOL)
        values: tuple[Any, ...] = ("", "", "", 0, "", "", "", "", "")
        if place and document:
            values = (
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
            self._index(key, document)
            grams = document.grams
            counted.add(Features(document.words, document.length, grams, len(grams)), document.texts[0], 1)
        self.database.execute(
            f"INSERT INTO items VALUES ({', '.join('?' * 14)})",
            (key, change.path, after.stamp, after.digest, document is not None, *values),
        )

    def _next_key(self, item_type: ItemType) -> int:
        first = first_key(item_type)
        within = (first, first + KEYS_OF_A_TYPE - 1)
        last = self.database.execute(
            "SELECT max(key) FROM items WHERE key BETWEEN ? AND ?", within
        ).fetchone()
        return first if last[0] is None else int(last[0]) + 1

    def _index(self, key: int, document: Document) -> None:
        run = self.database.execute
        columns, marks = ", ".join(FIELDS), ", ".join("?" * (len(FIELDS) + 1))
        run(f"INSERT INTO texts VALUES ({marks})", (key, *document.texts))
        for table in ("stemmed", "written"):
            run(f"INSERT INTO {table}(rowid, {columns}) VALUES ({marks})", (key, *document.texts))
        features = (key, _written(document.words), document.length, " ".join(document.grams))
        run("INSERT INTO features VALUES (?, ?, ?, ?, ?)", (*features, len(document.grams)))

    def _remove(self, key: int, counted: Tally) -> None:
        run = self.database.execute
        columns, marks = ", ".join(FIELDS), ", ".join("?" * (len(FIELDS) + 1))
        row = run(f"SELECT {columns} FROM texts WHERE key = ?", (key,)).fetchone()
        if row is not None:
            (features,) = self._features_of([key]).values()
            for table in ("stemmed", "written"):
                run(f"INSERT INTO {table}({table}, rowid, {columns}) VALUES ('delete', {marks})", (key, *row))
            run("DELETE FROM texts WHERE key = ?", (key,))
            run("DELETE FROM features WHERE key = ?", (key,))
            counted.add(features, row[0], -1)
        run("DELETE FROM items WHERE key = ?", (key,))

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

    def count(self, wanted: Wanted) -> int:
        """How many documents match."""
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
        restriction = Condition("1")
        if isinstance(match, Match) and _is_ranked(match) and _is_bare(wanted):
            parts = alternatives_of(wanted)
            expression = match.expression if parts is None else self._plan(parts, limit)
        else:
            condition = self._condition(wanted)
            expression = any_of(Alternative((word,), f'"{word}"') for word in words)
            # The plus keeps SQLite from asking the full-text table once for each key.
            restriction = Condition(
                f"+rowid IN (SELECT key FROM items WHERE {condition.sql})", condition.values
            )
        weighed: list[tuple[int, float]] = []
        for item_type in wanted.item_types if expression else ():
            weighed += self._weighed(expression, item_type, restriction)
        return self._entries(self._best(weighed, limit))

    def _weighed(
        self, expression: str, item_type: ItemType, restriction: Condition
    ) -> list[tuple[int, float]]:
        first = first_key(item_type)
        sql = f"SELECT rowid, {_RANK} FROM stemmed WHERE stemmed MATCH ? AND rowid BETWEEN ? AND ?"
        values = (expression, first, first + KEYS_OF_A_TYPE - 1)
        return self.database.execute(
            f"{sql} AND {restriction.sql}", (*values, *restriction.values)
        ).fetchall()

    def _plan(self, parts: Sequence[Alternative], limit: int) -> str:
        """The question that finds candidates: as many of its parts, the rarest first, as are affordable."""
        stems = self._stemmer.stems(word for part in parts for word in part.words)
        sql = "SELECT stem, documents, names FROM stems WHERE stem IN"
        known = {stem: (documents, names) for stem, documents, names in self._asked(sql, set(stems.values()))}
        costs = [
            (sum(known.get(stems[word], (0, 0))[0] for word in part.words), part.expression, part)
            for part in parts
        ]
        left, chosen = MAX_MATCHES, list[Alternative]()
        for documents, _, part in sorted(costs, key=itemgetter(0, 1)):
            names = sum(known.get(stems[word], (0, 0))[1] for word in part.words)
            if part.in_name and documents > left >= names > 0:
                chosen.append(Alternative(part.words, part.in_name))
                left -= names
            elif documents <= left or MAX_MATCHES - left < limit:
                chosen.append(part)
                left = max(0, left - documents)
        return any_of(chosen)

    def _best(self, weighed: list[tuple[int, float]], limit: int) -> list[int]:
        """The keys of the best; of those that are equally good, the first by id."""
        if len(weighed) <= limit:
            return [key for key, _ in weighed]
        weighed.sort(key=itemgetter(1))
        worst = weighed[limit - 1][1]
        sure = [key for key, rank in weighed[:limit] if rank < worst]
        tied = [key for key, rank in weighed if rank == worst]
        if len(sure) + len(tied) > limit:
            tied = [entry.key for entry in sorted(self._entries(tied), key=_by_id)]
        return sure + tied[: limit - len(sure)]

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
        return self._features_of([entry.key for entry in entries], words, grams)

    def similar(self, word: str, distance: int) -> tuple[str, ...]:
        """The words of the documents that are at most so many edits away from this one."""
        return similar_words(self.database, word, distance)

    def _features_of(
        self, keys: Iterable[int], words: frozenset[str] | None = None, grams: frozenset[str] | None = None
    ) -> dict[int, Features]:
        sql = "SELECT key, words, length, grams, grams_length FROM features WHERE key IN"
        return {
            key: Features(
                _read(written, words),
                length,
                frozenset(some.split()) if grams is None else grams.intersection(some.split()),
                grams_length,
            )
            for key, written, length, some, grams_length in self._asked(sql, keys)
        }

    def _entries(self, keys: Iterable[int]) -> list[Entry]:
        return [_entry(row) for row in self._asked(f"SELECT {_ITEM_COLUMNS} FROM items WHERE key IN", keys)]

    def _condition(self, wanted: Wanted) -> Condition:
        parts = [Condition("items.is_listed"), *all_conditions(wanted), as_condition(match_of(wanted))]
        return Condition(
            " AND ".join(f"({part.sql})" for part in parts), tuple(v for part in parts for v in part.values)
        )

    def _asked(self, sql: str, values: Iterable[Any]) -> Iterator[Any]:
        every = list(values)
        for start in range(0, len(every), _VALUES):
            some = every[start : start + _VALUES]
            yield from self.database.execute(f"{sql} ({', '.join('?' * len(some))})", some)


def _written(words: Mapping[str, int]) -> str:
    """Words with how often each counts, as lines of those that count as often."""
    lines: dict[int, list[str]] = {}
    for word, times in words.items():
        lines.setdefault(times, []).append(word)
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


def _is_ranked(match: Match) -> bool:
    """Whether what answers this question is weighed by it."""
    return match.table == "stemmed" and not match.is_negated


def _is_bare(wanted: Wanted) -> bool:
    """Whether the tree alone says what matches."""
    return not wanted.id_patterns and not wanted.filters


def _entry(row: tuple[Any, ...]) -> Entry:
    key, item_id, extension, name, date, digest = row
    return Entry(key, _TYPES[key // KEYS_OF_A_TYPE], item_id, extension, name, date, digest)


def _by_id(entry: Entry) -> tuple[str, str, str]:
    return (entry.item_id, entry.extension, entry.item_type)
