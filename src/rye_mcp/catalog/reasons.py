"""Says why an item was found: the words that it has, the sentence that it answers, what is near in meaning.

Everything is told from the bytes of the item as they are now, and nothing from an index.

    with Reasons(query) as reasons:
        reasons.of(hit, verified.file).as_dict()
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.catalog._catalog import Hit
from rye_mcp.catalog._document import documents_of
from rye_mcp.catalog._matching import SearchQuery
from rye_mcp.catalog._query_tree import FIELDS
from rye_mcp.catalog._ranking import Asked, as_sentence, sentences_of
from rye_mcp.catalog._words import QUESTION_WORDS, Stemmer
from rye_mcp.catalog.meaning import MAX_FIELD_WORDS, TableError, WordTable, similarity
from rye_mcp.items import ItemFile

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
            try:
                self._table = WordTable.load(self._stemmer)
            except TableError:
                self._table = None  # the catalog has said so

    def __enter__(self) -> Reasons:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stemmer.close()

    def of(self, hit: Hit, file: ItemFile) -> Why:
        """Why an item was found that stands in a hit, given its bytes."""
        [document] = documents_of([file])
        fields = dict(zip(FIELDS, document.texts, strict=True)) if document else {}
        every = {word for text in fields.values() for word in text.split()}
        stems = self._stemmer.stems({*every, *self._asked})
        there = {stems[word] for word in every}
        words = [word for word in self._asked if stems[word] in there]
        words += [f"{each}*" for each in self._prefixes if any(word.startswith(each) for word in every)]
        missing = [word for word in self._asked if stems[word] not in there][:MAX_NEAR]
        said = dict.fromkeys(
            word
            for name, text in fields.items()
            if name not in _CODE
            for word in text.split()[:MAX_FIELD_WORDS]
            if word not in QUESTION_WORDS
        )
        near = ((word, self._nearest(word, list(said))) for word in missing)
        return Why(tuple(words), self._sentence(hit), tuple((asked, word) for asked, word in near if word))

    def _sentence(self, hit: Hit) -> str | None:
        if hit.sentence is None or not 0 <= hit.sentence < len(self._sentences):
            return None
        return " ".join(self._sentences[hit.sentence].split())

    def _nearest(self, asked: str, words: list[str]) -> str:
        """The word of an item that means the most similar thing; nothing if none is near."""
        table = self._table
        vector = b"" if table is None else table.of_word(asked)
        if table is None or not vector:
            return ""
        alike = [(similarity(vector, table.of_word(word)), word) for word in words]
        best, word = max(alike, default=(0.0, ""), key=lambda each: each[0])
        return word if best >= LEAST_ALIKE else ""
