"""Splits text into words, the same way for documents and queries; knows their stems, and similar words.

Stems are asked of the stemmer of the index itself. Slips of words are found by their letters first.

    >>> name_words("convertToMP3")
    ['converttomp3', 'convert', 'to', 'mp3']
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = [
    "GREETINGS",
    "QUESTION_WORDS",
    "Stemmer",
    "Vocabulary",
    "distance_between",
    "grams_of",
    "name_parts",
    "name_words",
    "words_of",
]

MAX_WORD: Final = 64
"""How many characters of a word count; what is longer is no word of a language."""

GRAM: Final = 3
"""How many characters an n-gram has, with a blank for the beginning and the end of its word."""

_SYMBOL: Final = "S"
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_PLAIN_WORD = re.compile(rf"([a-z0-9]{{1,{MAX_WORD}}})[a-z0-9]*")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DIGITS_INSIDE = re.compile(r"(?<=[a-z])([0-9]+)(?=[a-z])")

_QUESTION_WORDS: Final = """
a about all also am an and any anybody anyone anything are as at be been being but by can could did
do does doing each either else every everything for from get getting give gives had has have having
he help her here hers him his how i if in into is it its just kindly know let like
looking many may maybe me might more most much must my myself need needed needs no not of off on one
onto or other our ours out over perhaps please provide really shall she should show so some somebody
someone something still such suggest tell than thank thanks that the their theirs them then there
these they thing things this those through to too try trying under until up upon us use used using
very via want wants was way we were what whats when where whether which while who whom whose why
will with within without wonder would yes yet you your yours d ll m re s t ve aren couldn didn doesn
don hadn hasn haven isn shouldn wasn weren won wouldn
"""

QUESTION_WORDS: Final = frozenset(_QUESTION_WORDS.split())
"""What a sentence is made of, and not what it is about."""


GREETINGS: Final = frozenset({"hello", "hey", "hi"})
"""What a sentence may begin with; a tool may be called so."""


def words_of(text: str) -> list[str]:
    """The words of a text, in its order."""
    lowered = text.lower()
    if lowered.isascii():  # as most texts are, and those are read twice as fast
        return _PLAIN_WORD.findall(lowered)
    return [word[:MAX_WORD] for word in _WORD.findall(_without_accents(lowered))]


def name_parts(name: str) -> list[str]:
    """The words that a name is put together from: split at capitals, digits and what is no letter."""
    spaced = _HUMPS.sub(" ", name)
    return words_of(_DIGITS_INSIDE.sub(r" \1 ", spaced.lower()))


def name_words(name: str) -> list[str]:
    """The words of a name as it is written, and those it is put together from when these are others."""
    if name.islower() and name.isascii() and name.isalpha():
        return [name[:MAX_WORD]]  # there is nothing to split at
    written, parts = words_of(name), name_parts(name)
    return written if written == parts else written + parts


def grams_of(text: str) -> set[tuple[str, ...]]:
    """The n-grams of words with blanks between them; a blank is part of one where a word begins or ends."""
    marked = f" {text} "
    return set(zip(*(marked[at:] for at in range(GRAM)), strict=False))


def _without_accents(text: str) -> str:
    # Who looks for a Tool™ may leave the sign out: it is not taken for the letters that it stands for.
    plain = "".join(" " if unicodedata.category(each)[0] == _SYMBOL else each for each in text)
    decomposed = unicodedata.normalize("NFKD", plain)
    # What stands for a capital, as a letter of mathematics does, has no small form until it has become one.
    return "".join(each for each in decomposed if not unicodedata.combining(each)).lower()


_MAX_KEPT: Final = 200_000


class Stemmer:
    """Gives stems; several threads may ask."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute(
            "CREATE VIRTUAL TABLE word USING fts5(text, tokenize='porter', content='', columnsize=0)"
        )
        self._database.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(word, 'instance')")

    def stems(self, words: Iterable[str]) -> Mapping[str, str]:
        """The stem of each of these words."""
        wanted = set(words)
        with self._lock:
            if missing := sorted(wanted.difference(self._kept)):
                if len(self._kept) + len(missing) > _MAX_KEPT:
                    self._kept.clear()
                    missing = sorted(wanted)
                self._learn(missing)
            return dict(zip(wanted, map(self._kept.__getitem__, wanted), strict=True))

    def close(self) -> None:
        """Give its table back."""
        self._database.close()

    def _learn(self, words: list[str]) -> None:
        # Of these the tokenizer makes one token each, so that one row of them tells them apart by their
        # positions; a row for each takes much longer. Of others it may make none, or several.
        plain = [word for word in words if word.isascii() and word.isalnum()]
        others = [word for word in words if not (word.isascii() and word.isalnum())]
        kept, database = self._kept, self._database
        kept.update(zip(others, others, strict=True))  # for what the tokenizer takes for no word
        database.execute("BEGIN")
        rows = enumerate([" ".join(plain), *others])
        database.executemany("INSERT INTO word(rowid, text) VALUES (?, ?)", rows)
        for row, position, stem in database.execute('SELECT doc, "offset", term FROM stem'):
            kept[others[row - 1] if row else plain[position]] = stem
        database.execute("ROLLBACK")


MAX_DISTANCE: Final = 2
"""How many edits may be between two words."""

_SHORTEST: Final = 3
_SHORT: Final = 5
_LETTERS: Final = 64


class Vocabulary:
    """Words, the most frequent first, of which one that is misspelt may be a slip."""

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
