"""Words → stems, by the very stemmer of the index.

A stem is asked of an FTS5 table that holds nothing else, so that what is counted here and what is found there
never disagree. Stems are kept: a language has few words.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["TOKENIZER", "Stemmer"]

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
