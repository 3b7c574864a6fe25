"""Searches the spaces of a call: collects what matches in each index, scores and orders it, and cuts pages.

`refresh` brings the indexes up to date before a search; `note_changed` does so for single files. A `Hit` says
what a file held when it was indexed: callers read and verify the item before they show anything of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, zip_longest
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from types import TracebackType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.catalog._engine import Entry
from rye_mcp.catalog._matching import STEM, SearchQuery, Wanted
from rye_mcp.catalog._ranking import (
    MEANING_WEIGHT,
    Counts,
    Measure,
    Scale,
)
from rye_mcp.catalog._space_index import MAX_WORDS, SpaceIndex
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, SpaceName
from rye_mcp.language.meaning import Meaning, TableError, WordTable, similarity
from rye_mcp.language.slips import MAX_DISTANCE
from rye_mcp.language.words import Stemmer, words_of
from rye_mcp.queries import QUESTION_WORDS, Asked, Term, as_sentence, asks_to_look, leaves_of, sentences_of
from rye_mcp.queries.wishes import IMPLIED, LEAST_WORDS
from rye_mcp.spaces import Spaces

__all__ = ["Catalog", "Hit", "Page", "SearchQuery"]

CANDIDATES: Final = 60
"""How many documents of a space are compared as a whole; what is behind them stays as it was found."""

NEAREST: Final = 20
"""How many documents of a space are compared with a wish because of their meaning."""

LEAST_SIMILARITY: Final = 0.1
"""How similar a document has to be to be found by its meaning alone."""

NEARER: Final = {SpaceName.PROJECT: 0.05, SpaceName.USER: 0.025, SpaceName.SYSTEM: 0.0}
"""What an item is worth for its space: of two that are nearly as good, the own one comes first."""

PART: Final = 0.25
"""What is taken off for a runtime or a primitive: other tools need them, and nobody can call them."""

MAX_FUZZY_WORDS: Final = 16
"""How many words may be taken for slips of others at once."""

MAX_SUGGESTIONS: Final = 3

_CAPITALS: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that matches. `digest` is the SHA256 of the whole file that was indexed.

    `sentence` is the number of the sentence that it answers best, if a wish has several. `is_near` says that
    no word was found in it, and that it means something similar.
    """

    item_id: str
    item_type: ItemType
    space: SpaceName
    extension: str
    score: float
    digest: str
    sentence: int | None = None
    is_near: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A part of what was found. `total` counts all of it; `did_you_mean` is for when there is nothing."""

    hits: tuple[Hit, ...]
    total: int
    did_you_mean: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry of one space, with what it is worth; see `Hit`."""

    index: SpaceIndex
    entry: Entry
    score: float
    sentence: int | None = None
    is_near: bool = False

    @property
    def identity(self) -> tuple[SpaceName, int]:
        return (self.index.space.name, self.entry.key)

    @property
    def hit(self) -> Hit:
        entry = self.entry
        which = (entry.item_id, entry.item_type, self.index.space.name, entry.extension)
        return Hit(*which, round(self.score, 6), entry.digest, self.sentence, self.is_near)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that is compared as a whole: its score by each measure, and how alike its meaning is."""

    index: SpaceIndex
    entry: Entry
    scores: Sequence[float]
    alike: float
    is_near: bool


class Catalog:
    """The indexes of the spaces of one call, or of one server."""

    def __init__(
        self, indexes: Sequence[SpaceIndex], stemmer: Stemmer, meaning: Meaning | None, notices: Sequence[str]
    ) -> None:
        self._indexes = tuple(indexes)
        self._stemmer = stemmer
        self._meaning = meaning
        self._notices = tuple(notices)

    @classmethod
    def open(
        cls,
        spaces: Spaces,
        directory: Path | None,
        *,
        meaning: Callable[[Stemmer], Meaning] = WordTable.load,
        max_words: int = MAX_WORDS,
    ) -> Catalog:
        """The catalog of these spaces, with its files in a directory; in memory alone without one.

        Without what knows of `meaning`, because it cannot be read, words are found all the same. What is
        beyond `max_words` in one look at a space is found by ids and names alone, until it changes.
        """
        stemmer, notices, known = Stemmer(), [], None
        try:
            known = meaning(stemmer)
        except TableError as exc:
            notices.append(f"search only compares words, and not what they mean: {exc}")
        roots = [space.root for space in spaces.accessible()]
        if directory is not None and any(directory.resolve().is_relative_to(root) for root in roots):
            directory = None
        indexes = [
            SpaceIndex(spaces, space, directory, stemmer, known, max_words) for space in spaces.accessible()
        ]
        return cls(indexes, stemmer, known, notices)

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the indexes."""
        return (*self._notices, *(index.notice for index in self._indexes if index.notice))

    def close(self) -> None:
        """Close all files."""
        for index in self._indexes:
            index.close()
        self._stemmer.close()

    def refresh(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Bring every index up to date; `progress` is told how many files were looked at, and of how many."""
        for index in self._indexes:
            index.refresh(progress)

    def note_changed(self, *places: ItemPlace) -> None:
        """Look at these files alone: something has happened to them."""
        for index in self._indexes:
            own = [place for place in places if place.space == index.space]
            if own:
                index.note_changed(own)

    def search(self, query: SearchQuery) -> Page:
        """The part of everything that matches which was asked for."""
        indexes = [index for index in self._indexes if index.space.name in query.spaces]
        query = replace(query, tree=as_sentence(query.tree))
        with ExitStack() as stack:
            for index in indexes:
                stack.enter_context(index.unchanged())
            search = _Search(query, indexes, self._stemmer, self._meaning)
            found = search.ordered()[query.offset : query.offset + query.limit]
            total = search.total()
            suggestions = () if total else tuple(search.suggestions())
        return Page(tuple(each.hit for each in found), total, suggestions)


class _Search:
    """One search, in steps: what the words may stand for, what each is worth, who matches, in which order."""

    def __init__(
        self, query: SearchQuery, indexes: Sequence[SpaceIndex], stemmer: Stemmer, meaning: Meaning | None
    ) -> None:
        self._query = query
        # One that holds nothing, as that of a user with no items of their own, is asked no more.
        self._indexes = [each for each in indexes if each.ask(lambda engine: engine.length())]
        self._stemmer = stemmer
        self._meaning = meaning
        self._asked = Asked.of(query.tree)
        self._said = words_of(query.wish or "")
        self._slips = {
            word: [each for _, each in self._edits(word, query.fuzzy)] for word in self._misspelt()
        }
        self._wanted = Wanted.of(query, stemmer, self._slips)

    def ordered(self) -> list[_Found]:
        """What matches, in order, as far as the end of the page."""
        query, last = self._query, self._query.offset + self._query.limit
        if query.sort_by != "score":
            return self._by_column(last)
        if not self._asked.words and not self._asked.prefixes:
            return self._matching("id", last, 1.0)
        found = self._ranked()
        return found if len(found) >= last else found + self._behind(found, last)

    def total(self) -> int:
        """How much matches."""
        return sum(index.ask(lambda engine: engine.count(self._wanted)) for index in self._indexes)

    def suggestions(self) -> list[str]:
        """Words of the documents that are close to those that nothing has."""
        having = self._counts.having
        stems = self._stemmer.stems(self._asked.words)
        unknown = [word for word in self._asked.words if not having.get(STEM + stems[word])]
        suggested = (each for word in unknown[:MAX_FUZZY_WORDS] for each in self._nearest(word))
        return list(dict.fromkeys(suggested))[:MAX_SUGGESTIONS]

    # --- what words may stand for ---

    def _misspelt(self) -> list[str]:
        """The words that may be slips of others: those that are looked for as one word."""
        if not self._query.fuzzy:
            return []
        texts = (leaf.text for leaf in leaves_of(self._query.tree) if isinstance(leaf, Term))
        single = list(dict.fromkeys(each[0] for each in map(words_of, texts) if len(each) == 1))
        if len(single) > MAX_FUZZY_WORDS:
            what = f"expected at most {MAX_FUZZY_WORDS} words with fuzzy, found {len(single)}"
            raise RyeError("invalid_query", what, hint="search for fewer words, or without fuzzy")
        return single

    @property
    def _all_slips(self) -> list[str]:
        return [slip for words in self._slips.values() for slip in words]

    def _nearest(self, word: str) -> list[str]:
        edits = self._edits(word, MAX_DISTANCE)
        return [each for distance, each in edits if distance == edits[0][0]]

    def _edits(self, word: str, distance: int) -> list[tuple[int, str]]:
        vocabularies = [index.ask(lambda engine: engine.vocabulary()) for index in self._indexes]
        found = dict.fromkeys(each for words in vocabularies for each in words.near(word, distance))
        return sorted(found, key=lambda each: each[0])

    # --- what is worth how much ---

    @cached_property
    def _counts(self) -> Counts:
        stems = self._stemmer.stems([*self._asked.words, *self._all_slips])
        words = [STEM + stem for stem in stems.values()]
        prefixes = self._asked.prefixes
        return Counts.merged(
            [index.ask(lambda engine: engine.counts(words, prefixes)) for index in self._indexes]
        )

    @cached_property
    def _measure(self) -> Measure:
        counts = self._counts
        begun = (word for words in counts.words.values() for word in words)
        return Measure(
            self._asked,
            counts,
            self._stemmer.stems([*self._asked.words, *self._all_slips, *begun]),
            similar=self._slips,
            sentences=sentences_of(self._query.wish) if self._query.wish else [],
        )

    @cached_property
    def _vector(self) -> bytes:
        """What a wish means; empty for a query with operators, and where no word is known."""
        if self._meaning is None or QUESTION_WORDS.issuperset(self._said):
            return b""
        implied = IMPLIED.intersection(self._asked.words)
        return self._meaning.of_text(self._query.wish or "", [*self._said, *implied])

    @cached_property
    def _candidates(self) -> list[_Candidate]:
        """The documents of all spaces that are compared as a whole."""
        own = [*self._asked.words, *self._all_slips]
        stems = self._stemmer.stems(own)
        begun = [word for turn in zip_longest(*self._counts.words.values()) for word in turn if word]
        words = list(dict.fromkeys([*(STEM + stems[word] for word in own), *begun]))
        found: list[_Candidate] = []
        for index in self._indexes:
            entries = index.ask(lambda engine: engine.candidates(self._wanted, words, CANDIDATES))
            found += self._compared(index, entries)
            if self._vector and len(self._said) >= LEAST_WORDS:  # a single word is looked up
                seen = {entry.key for entry in entries}
                found += self._near_in_meaning(index, seen)
        return found

    def _near_in_meaning(self, index: SpaceIndex, seen: Container[int]) -> Iterator[_Candidate]:
        """What means something similar to a wish, whether it has one of its words or not."""
        entries = index.ask(lambda engine: engine.nearest(self._wanted, self._vector, NEAREST, seen))
        for candidate in self._compared(index, entries):
            if not candidate.is_near or candidate.alike >= LEAST_SIMILARITY:
                yield candidate

    def _compared(self, index: SpaceIndex, entries: Sequence[Entry]) -> Iterator[_Candidate]:
        """How well the words of these documents answer, by each measure, and how alike their meaning is."""
        features = index.ask(lambda engine: engine.features(entries))
        vectors = index.ask(lambda engine: engine.vectors(entries)) if self._vector else {}
        for entry in entries:
            alike = similarity(self._vector, vectors.get(entry.key, b""))
            has_words = self._measure.has_words(features[entry.key])
            yield _Candidate(index, entry, self._measure.scores(features[entry.key]), alike, not has_words)

    @cached_property
    def _scale(self) -> Scale:
        scores = [candidate.scores for candidate in self._candidates]
        scale = Scale.of(scores, self._measure.possible)
        return scale if self._vector else replace(scale, coverage=1.0)

    @cached_property
    def _valued(self) -> list[_Found]:
        """The candidates, with what they are worth."""
        return [self._value(candidate) for candidate in self._candidates]

    @cached_property
    def _top(self) -> float:
        """What the best candidate is worth."""
        return max((each.score for each in self._valued), default=0.0) or 1.0

    def _value(self, candidate: _Candidate) -> _Found:
        worth, sentence = self._scale.worth(candidate.scores)
        worth += MEANING_WEIGHT * max(0.0, candidate.alike)
        worth += NEARER[candidate.index.space.name] - PART * candidate.entry.is_part
        sentence = None if candidate.is_near else sentence
        return _Found(candidate.index, candidate.entry, max(worth, 0.0), sentence, candidate.is_near)

    # --- in which order ---

    def _ranked(self) -> list[_Found]:
        """The candidates in order; the best is worth 1, and for a wish to look at something, none that
        destroys something comes before one that does not."""
        found = sorted((replace(each, score=each.score / self._top) for each in self._valued), key=_by_score)
        if self._query.wish and asks_to_look(self._query.wish, self._stemmer):
            found.sort(key=lambda each: each.entry.is_destructive)
        return _never_rising(found)

    def _behind(self, found: Sequence[_Found], last: int) -> list[_Found]:
        """What matches and was no candidate, by id; all of it is worth as much as the last candidate."""
        seen = {each.identity for each in found}
        everything = self._matching("id", last + len(found), found[-1].score if found else 0.0)
        return [each for each in everything if each.identity not in seen]

    def _by_column(self, last: int) -> list[_Found]:
        """What matches by name or date; what is on the page is worth what it would be among candidates."""
        first, found = self._query.offset, self._matching(self._query.sort_by, last, 1.0)[:last]
        if not self._asked.words and not self._asked.prefixes:
            return found
        page = [
            self._value(candidate)
            for index in self._indexes
            for candidate in self._compared(
                index, [each.entry for each in found[first:] if each.index is index]
            )
        ]
        worth = {each.identity: min(1.0, each.score / self._top) for each in page}
        return found[:first] + [replace(each, score=worth[each.identity]) for each in found[first:]]

    def _matching(self, order: str, last: int, score: float) -> list[_Found]:
        """The first of what matches, in this order."""
        found = [
            _Found(index, entry, score)
            for index in self._indexes
            for entry in index.ask(lambda engine: engine.matches(self._wanted, order, last))
        ]
        return sorted(found, key=_ORDERS[order])


def _never_rising(found: Sequence[_Found]) -> list[_Found]:
    """The same, none of which is worth more than what is before it."""
    lowest = accumulate((each.score for each in found), min)
    return [replace(each, score=score) for each, score in zip(found, lowest, strict=True)]


def _by_score(found: _Found) -> tuple[float, str, str, int, str]:
    return (-round(found.score, 6), *_by_id(found))


def _by_name(found: _Found) -> tuple[str, str, str, int, str]:
    # As NOCASE compares it: the pages of several spaces are put together in the order of each.
    return (found.entry.name.translate(_CAPITALS), *_by_id(found))


def _by_date(found: _Found) -> tuple[int, str, str, int, str]:
    return (-found.entry.date, *_by_id(found))


def _by_id(found: _Found) -> tuple[str, str, int, str]:
    entry = found.entry
    return (entry.item_id, entry.item_type, -found.index.space.precedence, entry.extension)


_ORDERS: Final[Mapping[str, Callable[[_Found], Any]]] = {"name": _by_name, "date": _by_date, "id": _by_id}
