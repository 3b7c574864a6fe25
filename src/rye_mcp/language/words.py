"""Splits text into words, the same way for documents and queries, and knows their stems.

Stems are asked of the stemmer of SQLite itself, so counting words and finding them agree.

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
    "Stemmer",
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
