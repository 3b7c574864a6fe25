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
            f"CREATE VIRTUAL TABLE word USING fts5(text, tokenize='{TOKENIZER}', content='', detail=none)"
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
        database = self._database
        database.execute("BEGIN")
        database.executemany("INSERT INTO word(rowid, text) VALUES (?, ?)", enumerate(words))
        self._kept.update((word, word) for word in words)  # for what the tokenizer takes for no word
        self._kept.update((words[row], stem) for row, stem in database.execute("SELECT doc, term FROM stem"))
        database.execute("ROLLBACK")
