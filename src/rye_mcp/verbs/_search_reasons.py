"""Says why an item was found: the words that it has, the sentence that it answers, what is near in meaning.

Everything is told from the bytes of the item as they are now, and nothing from an index.

    with Reasons(query) as reasons:
        reasons.of(hit, verified.file).as_dict()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.catalog import Hit, SearchQuery, words_of_fields
from rye_mcp.items import ItemFile
from rye_mcp.language.meaning import MAX_FIELD_WORDS, TableError, WordTable, similarity
from rye_mcp.language.words import Stemmer
from rye_mcp.queries import QUESTION_WORDS, Asked, as_sentence, sentences_of

__all__ = ["Reasons", "Why"]

LEAST_ALIKE: Final = 0.4
"""How similar two words have to be to be called near."""

MAX_NEAR: Final = 5
"""How many words of a query are looked at that an item does not have."""

_CODE: Final = frozenset({"body", "id"})


@dataclass(frozen=True, slots=True)
class Why:
    """The words of a query that an item has, its sentence, and pairs of a word of each that are near."""

    words: tuple[str, ...]
    sentence: str | None
    near: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as data, without empty fields."""
        answer: dict[str, Any] = {"words": list(self.words)}
        if self.sentence is not None:
            answer["sentence"] = self.sentence
        if self.near:
            answer["near"] = [{"asked": asked, "item": word} for asked, word in self.near]
        return answer


class Reasons:
    """Why items were found for one query."""

    def __init__(self, query: SearchQuery) -> None:
        self._stemmer = Stemmer()
        self._sentences = sentences_of(query.wish) if query.wish else []
        asked = Asked.of(as_sentence(query.tree))
        self._asked = tuple(word for word in asked.words if word not in QUESTION_WORDS) or asked.words
        self._prefixes = asked.prefixes
        self._table: WordTable | None = None
        if query.wish:
            with suppress(TableError):  # the catalog has said so
                self._table = WordTable.load(self._stemmer)

    def __enter__(self) -> Reasons:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stemmer.close()

    def of(self, hit: Hit, file: ItemFile) -> Why:
        """Why an item was found that stands in a hit, given its bytes."""
        fields = words_of_fields(file)
        every = set(chain.from_iterable(fields.values()))
        stems = self._stemmer.stems({*every, *self._asked})
        there = {stems[word] for word in every}
        missing = [word for word in self._asked if stems[word] not in there]
        words = [word for word in self._asked if stems[word] in there]
        begun = [f"{each}*" for each in self._prefixes if any(word.startswith(each) for word in every)]
        return Why((*words, *begun), self._sentence(hit), tuple(self._near(missing[:MAX_NEAR], fields)))

    def _sentence(self, hit: Hit) -> str | None:
        if hit.sentence is None or not 0 <= hit.sentence < len(self._sentences):
            return None
        return " ".join(self._sentences[hit.sentence].split())

    def _near(self, missing: Sequence[str], fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
        """Each of these words with the one that an item says and that means the most similar thing."""
        if self._table is None or not missing:
            return
        said = (words[:MAX_FIELD_WORDS] for name, words in fields.items() if name not in _CODE)
        vectors = {word: self._table.of_word(word) for word in chain(*said) if word not in QUESTION_WORDS}
        for asked in missing:
            vector = self._table.of_word(asked)
            alike = ((similarity(vector, other), word) for word, other in vectors.items())
            best, word = max(alike, default=(0.0, ""))
            if best >= LEAST_ALIKE:
                yield asked, word
