"""Splits text into words, the same way for documents and queries; knows their stems, and similar words.

Stems are asked of the stemmer of the index itself. Similar words are found through an index of deletions.

    >>> name_words("convertToMP3")
    ['converttomp3', 'convert', 'to', 'mp3']
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from string import ascii_lowercase
from sys import intern
from typing import Final

__all__ = [
    "GREETINGS",
    "MARKS",
    "QUESTION_WORDS",
    "TOKENIZER",
    "Stemmer",
    "distance_between",
    "grams_of",
    "name_parts",
    "name_words",
    "sign_of",
    "similar_words",
    "spell_out",
    "words_of",
]

MAX_WORD: Final = 64
"""How many characters of a word count; what is longer is no word of a language."""

GRAM: Final = 3
"""How many characters an n-gram has, the marks of a beginning and an end among them."""

MARKS: Final = str.maketrans("^$", "  ")
"""What the beginning and the end of a word, in its n-grams, are among words with blanks between them."""

_SIGNED: Final = {character: number for number, character in enumerate("^$0123456789" + ascii_lowercase)}
_FIRST_SIGN: Final = 0x100
"""There is room for all signs between this and what is no character (U+D800)."""

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


@lru_cache(maxsize=65_536)
def grams_of(word: str) -> tuple[str, ...]:
    """The n-grams of a word, each once, in any order; of a short one, all of it."""
    marked = f"^{word}$"
    grams = {marked[at : at + GRAM] for at in range(max(1, len(marked) - GRAM + 1))}
    return tuple(map(intern, grams))  # many words share few


@lru_cache(maxsize=65_536)
def sign_of(gram: str) -> str:
    """The one character that stands for an n-gram, and for no other one; nothing when it has none.

    Those of Latin letters and digits have one, as of most words.

    One character is found in a text several times as quickly as three.
    """
    numbers = [_SIGNED[character] for character in gram if character in _SIGNED]
    if len(numbers) != GRAM or len(gram) != GRAM:
        return ""
    first, second, third = numbers
    return chr(_FIRST_SIGN + (first * len(_SIGNED) + second) * len(_SIGNED) + third)


def _without_accents(text: str) -> str:
    # Who looks for a Tool™ may leave the sign out: it is not taken for the letters that it stands for.
    plain = "".join(" " if unicodedata.category(each)[0] == _SYMBOL else each for each in text)
    decomposed = unicodedata.normalize("NFKD", plain)
    # What stands for a capital, as a letter of mathematics does, has no small form until it has become one.
    return "".join(each for each in decomposed if not unicodedata.combining(each)).lower()


TOKENIZER: Final = "porter unicode61"
"""The tokenizer of everything that is stemmed."""

_MAX_KEPT: Final = 200_000


class Stemmer:
    """Gives stems; several threads may ask."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute(
            f"CREATE VIRTUAL TABLE word USING fts5(text, tokenize='{TOKENIZER}', content='', columnsize=0)"
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
