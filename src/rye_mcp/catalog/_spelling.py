"""Words that another word may be a slip of, by an index of deletions.

Two words that are few edits apart become the same word when few characters are left out of each. So every
beginning of a word is kept under what is left of it when up to two characters are left out, and a look-up
asks for what is left of the misspelt one: its time does not grow with the number of words. Many words share
a beginning, so there are far fewer of these.

Rules:

- An edit inserts, deletes or replaces a character, or swaps two neighbours.
- Short words have few edits: one of less than three characters has none, one of less than five at most one.
- The index of deletions is filled when somebody first asks. Words that come later are added by who asks next.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from itertools import combinations
from typing import Final

__all__ = ["MAX_DISTANCE", "distance_between", "similar_words", "spell_out"]

MAX_DISTANCE: Final = 2
"""How many edits may be between two words."""

_BEGINNING: Final = 7
"""How many characters of a word are varied; the distance is that of the whole words."""

_LAST_CHARACTER: Final = chr(0x10FFFF)
"""What a whole beginning goes on with comes before this."""

_FIRST_CHARACTER: Final = chr(1)
"""What is shorter than a beginning is a whole word, and goes on with nothing; no word has this."""

_SHORTEST: Final = 3
_SHORT: Final = 5
_BATCH: Final = 10_000


def similar_words(database: sqlite3.Connection, word: str, distance: int) -> tuple[str, ...]:
    """The words of an index at most so many edits away from this one, the nearest first, without itself.

    Call `spell_out` first, to have all of them.
    """
    distance = min(distance, 0 if len(word) < _SHORTEST else 1 if len(word) < _SHORT else MAX_DISTANCE)
    if not distance:
        return ()
    variants = list(_variants(word, distance))
    marks = ", ".join("?" * len(variants))
    rows = database.execute(
        "SELECT word, documents FROM "
        f"(SELECT DISTINCT beginning FROM variants WHERE variant IN ({marks})) JOIN words "
        "ON word >= beginning AND word < beginning || iif(length(beginning) = ?, ?, ?)",
        (*variants, _BEGINNING, _LAST_CHARACTER, _FIRST_CHARACTER),
    )
    near = [
        (apart, -documents, each)
        for each, documents in rows
        if each != word and (apart := distance_between(word, each, distance)) <= distance
    ]
    return tuple(each for _, _, each in sorted(near))


def spell_out(database: sqlite3.Connection) -> None:
    """Enter the words that came since the last time, some at a time."""
    while words := database.execute(
        "SELECT word FROM words WHERE is_spelled = 0 LIMIT ?", (_BATCH,)
    ).fetchall():
        beginnings = {word[:_BEGINNING] for (word,) in words}
        variants = sorted((variant, each) for each in beginnings for variant in _variants(each, MAX_DISTANCE))
        database.execute("BEGIN IMMEDIATE")
        try:
            database.executemany("INSERT OR IGNORE INTO variants VALUES (?, ?)", variants)
            database.executemany("UPDATE words SET is_spelled = 1 WHERE word = ?", words)
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")


def distance_between(one: str, other: str, limit: int) -> int:
    """How many edits are between two words; more than `limit` when that many are not enough."""
    if (
        abs(len(one) - len(other)) > limit
        or max(len(set(one) - set(other)), len(set(other) - set(one))) > limit
    ):
        return limit + 1
    one, other = _without_common_ends(one, other)
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, character in enumerate(one, start=1):
        above = row
        row = [index]
        for column, each in enumerate(other, start=1):
            cost = min(above[column] + 1, row[-1] + 1, above[column - 1] + (character != each))
            if index > 1 and column > 1 and character == other[column - 2] and one[index - 2] == each:
                cost = min(cost, before[column - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(above) > limit:
            return limit + 1
        before = above
    return row[-1]


def _without_common_ends(one: str, other: str) -> tuple[str, str]:
    """What is left of two words when both begin and end alike, which is as many edits apart as they are."""
    start, most = 0, min(len(one), len(other))
    while start < most and one[start] == other[start]:
        start += 1
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]


def _variants(word: str, distance: int) -> Iterator[int]:
    """What is left of the beginning of a word when up to so many characters are left out, as numbers."""
    beginning = word[:_BEGINNING]
    seen: set[str] = set()
    for count in range(min(distance, len(beginning)) + 1):
        for kept in combinations(beginning, len(beginning) - count):
            seen.add("".join(kept))
    return (zlib.crc32(each.encode()) for each in sorted(seen))
