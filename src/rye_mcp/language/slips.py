"""Finds the words that one may be a slip of: few letters are inserted, deleted, replaced or swapped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["MAX_DISTANCE", "Vocabulary", "distance_between"]

MAX_DISTANCE: Final = 2
"""How many edits may be between two words."""

_SHORTEST: Final = 3
_SHORT: Final = 5
_LETTERS: Final = 64


class Vocabulary:
    """The words that a misspelt one may stand for, the most frequent first."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(words)
        self._letters = tuple(map(_letters_of, self._words))

    def near(self, word: str, distance: int) -> list[tuple[int, str]]:
        """The words at most so many edits away, each with how many, the nearest first; never the word itself.

        A word of less than three characters has none, and one of less than five has those one edit away.
        """
        distance = min(distance, 0 if len(word) < _SHORTEST else 1 if len(word) < _SHORT else MAX_DISTANCE)
        if not distance:
            return []
        # An edit changes two letters at most, which rules out nearly all words at once.
        apart = map(int.bit_count, map(_letters_of(word).__xor__, self._letters))
        likely = [at for at, letters in enumerate(apart) if letters <= 2 * distance]
        measured = [(distance_between(word, self._words[at], distance), at) for at in likely]
        return [(edits, self._words[at]) for edits, at in sorted(measured) if 0 < edits <= distance]


def _letters_of(word: str) -> int:
    """A bit for each of the letters of a word."""
    bits = 0
    for letter in word:
        bits |= 1 << ord(letter) % _LETTERS
    return bits


def distance_between(one: str, other: str, limit: int) -> int:
    """How many edits are between two words; more than `limit` when that many are not enough."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    above = list(range(len(other) + 1))
    for index, character in enumerate(one, start=1):
        row = [index]
        for column, each in enumerate(other, start=1):
            cost = min(above[column] + 1, row[-1] + 1, above[column - 1] + (character != each))
            if index > 1 and column > 1 and character == other[column - 2] and one[index - 2] == each:
                cost = min(cost, before[column - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(above) > limit:
            return limit + 1
        before, above = above, row
    return above[-1]
