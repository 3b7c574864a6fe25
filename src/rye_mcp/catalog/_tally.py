"""What the documents of an index come to, counted together for all that is written at once.

In how many documents each word, each stem and each n-gram is, in how many names each stem is; and how long
the documents are. What no document has any more is not known any more.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection
from itertools import chain
from typing import Final

from rye_mcp.catalog._engine import Features
from rye_mcp.catalog._rows import insert
from rye_mcp.catalog._stems import Stemmer

__all__ = ["Tally"]

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
