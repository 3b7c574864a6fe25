"""Searches the spaces of a call: collects what matches in each index, scores and orders it, and cuts pages.

`refresh` brings the indexes up to date before a search; `note_changed` does so for single files. A `Hit` says
what a file held when it was indexed: callers read and verify the item before they show anything of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate, zip_longest
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from types import TracebackType
from typing import Final, Literal

from lilux._dataclasses import dataclass
from rye_mcp.catalog._matching import Entry, Wanted
from rye_mcp.catalog._query_tree import Node, Term
from rye_mcp.catalog._ranking import (
    LEAST_WORDS,
    MEANING_WEIGHT,
    Asked,
    Counts,
    Group,
    Measure,
    Scale,
    as_sentence,
    asks_to_look,
    merged,
    sentences_of,
)
from rye_mcp.catalog._space_index import SpaceIndex
from rye_mcp.catalog._words import QUESTION_WORDS, Stemmer, words_of
from rye_mcp.catalog.meaning import Meaning, TableError, WordTable, similarity
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, SpaceName
from rye_mcp.spaces import Spaces

__all__ = ["Catalog", "Hit", "Page", "SearchQuery"]

CANDIDATES: Final = 60
"""How many documents of a space are compared as a whole; what is behind them stays as it was found."""

MAX_BEHIND: Final = 400
"""How many of those behind the candidates are weighed; what is behind them is worth no more than the last."""

FEW: Final = 10
"""If a wish finds fewer, it is filled up with what is near in meaning."""

FILLED_UP: Final = 20
"""How many documents are near enough to be compared with a wish by their meaning alone."""

LEAST_SIMILARITY: Final = 0.2
"""How similar a document has to be to be found by its meaning alone."""

NEARER: Final = {SpaceName.PROJECT: 0.05, SpaceName.USER: 0.025, SpaceName.SYSTEM: 0.0}
"""What an item is worth for its space: of two that are nearly as good, the own one comes first."""

PART: Final = 0.25
"""What is taken off for a runtime or a primitive: other tools need them, and nobody can call them."""

MAX_FUZZY_WORDS: Final = 16
"""How many words may be taken for slips of others at once."""

MAX_SUGGESTIONS: Final = 3

_CAPITALS: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_ALL_SPACES: Final = (SpaceName.PROJECT, SpaceName.USER, SpaceName.SYSTEM)
SortBy = Literal["score", "name", "date"]
Fuzzy = Literal[0, 1, 2]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is asked for.

    `id_patterns` are ids with `*` and `?`, of which one has to match. `fields` are those that words without a
    field are looked for in. `wish` is the text of a query without operators: then its sentences and its
    meaning count, too. `filters` say what a column has to be: `category`, `tags`, `tool_type`,
    `executor_id`, `version`, `name`; of several values one has to match. With `fuzzy`, a word stands for all
    that are at most so many edits away. `notices` say what is not looked for.
    """

    tree: Node
    wish: str | None = None
    item_types: tuple[ItemType, ...] = (ItemType.TOOL,)
    id_patterns: tuple[str, ...] = ()
    spaces: tuple[SpaceName, ...] = _ALL_SPACES
    limit: int = 10
    offset: int = 0
    sort_by: SortBy = "score"
    fields: tuple[str, ...] | None = None
    filters: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    fuzzy: Fuzzy = 0
    notices: tuple[str, ...] = ()


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
        return Hit(
            entry.item_id,
            entry.item_type,
            self.index.space.name,
            entry.extension,
            round(self.score, 6),
            entry.digest,
            self.sentence,
            self.is_near,
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that is compared as a whole: its score by each measure, and how alike its meaning is."""

    index: SpaceIndex
    entry: Entry
    scores: Sequence[float]
    alike: float


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
    ) -> Catalog:
        """The catalog of these spaces, with its files in a directory; in memory alone without one.

        Without what knows of `meaning`, because it cannot be read, words are found all the same.
        """
        stemmer, notices, known = Stemmer(), [], None
        try:
            known = meaning(stemmer)
        except TableError as exc:
            notices.append(f"search only compares words, as the word table cannot be used: {exc}")
        roots = [space.root for space in spaces.accessible()]
        if directory is not None and any(directory.resolve().is_relative_to(root) for root in roots):
            directory = None
        indexes = [SpaceIndex(spaces, space, directory, stemmer, known) for space in spaces.accessible()]
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
        search = _Search(query, indexes, self._stemmer, self._meaning)
        with ExitStack() as stack:
            for index in indexes:
                stack.enter_context(index.unchanged())
            search.leave_out_empty()
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
        self._indexes = indexes
        self._stemmer = stemmer
        self._meaning = meaning
        self._asked = Asked.of(query.tree)
        self._similar = self._similar_words() if query.fuzzy else {}
        self.wanted = Wanted(
            tree=query.tree,
            item_types=tuple(dict.fromkeys(query.item_types)),
            id_patterns=query.id_patterns,
            fields=query.fields,
            filters={
                name: (value,) if isinstance(value, str) else value for name, value in query.filters.items()
            },
            similar=self._similar,
        )

    def leave_out_empty(self) -> None:
        """Ask no more of those that hold nothing, as that of a user with no items of their own."""
        self._indexes = [each for each in self._indexes if not each.ask(lambda engine: engine.is_empty())]

    def ordered(self) -> list[_Found]:
        """As much as is needed of what matches, in order."""
        query, last = self._query, self._query.offset + self._query.limit
        if query.sort_by != "score":
            return self._sorted_by_column(last)
        if not self._asked.words and not self._asked.prefixes:
            return self._in_any_order(last)
        found = self._ranked()
        if self._is_filled_up and len(found) < FEW and self.total() < FEW:
            found += self._near_in_meaning(found)
        return found if len(found) >= last else found + self._behind(found, last)

    def total(self) -> int:
        """How much matches."""
        return sum(index.ask(lambda engine: engine.count(self.wanted)) for index in self._indexes)

    def suggestions(self) -> Iterator[str]:
        """Words of the documents that are close to those that nothing has."""
        counted = self._counts()
        unknown = [word for word in self._asked.words if not counted.words.get(word)]
        suggested = dict.fromkeys(each for word in unknown[:MAX_FUZZY_WORDS] for each in self._nearest(word))
        yield from list(suggested)[:MAX_SUGGESTIONS]

    def _counts(self) -> Counts:
        asked = self._asked
        return merged(
            [index.ask(lambda engine: engine.counts(asked.words, asked.prefixes)) for index in self._indexes]
        )

    @cached_property
    def _measures(self) -> list[Measure]:
        """That of the whole query, and that of each of its sentences."""
        counts, stems = self._counts(), self._stemmer.stems(self._asked.words)
        groups = dict(counts.groups)
        for word, similar in self._similar.items():
            for label in {stems[each] for each in words_of(word) if each in stems}:
                known = groups.get(label, Group(label, 0, ()))
                groups[label] = replace(known, words=tuple(dict.fromkeys((*known.words, *similar))))
        counts = replace(counts, groups=groups)
        sentences = sentences_of(self._query.wish) if self._query.wish else []
        asked = [self._asked, *(self._asked.within(sentence) for sentence in sentences)]
        return [Measure.of(each, counts, stems) for each in asked]

    @cached_property
    def _vector(self) -> bytes:
        """What a wish means; empty for a query with operators, and where no word is known."""
        words = words_of(self._query.wish or "")
        if self._meaning is None or QUESTION_WORDS.issuperset(words):
            return b""
        return self._meaning.of_text(self._query.wish or "", words)

    @cached_property
    def _candidates(self) -> list[_Candidate]:
        """The documents of all spaces that are compared as a whole."""
        words = self._words_of(self._measures[0])
        found: list[_Candidate] = []
        for index in self._indexes:
            entries = index.ask(lambda engine: engine.candidates(self.wanted, words, CANDIDATES))
            found += self._compared(index, entries)
        return found

    def _compared(self, index: SpaceIndex, entries: Sequence[Entry]) -> Iterator[_Candidate]:
        """How well the words of these documents answer, by each measure, and how alike their meaning is."""
        measure = self._measures[0]
        words, grams = frozenset(measure.groups), frozenset(measure.grams)
        features = index.ask(lambda engine: engine.features(entries, words, grams))
        vectors = index.ask(lambda engine: engine.vectors(entries)) if self._vector else {}
        for entry in entries:
            if entry.key in features:
                scores = [measure.score(features[entry.key]) for measure in self._measures]
                yield _Candidate(index, entry, scores, similarity(self._vector, vectors.get(entry.key, b"")))

    @cached_property
    def _valued(self) -> list[_Found]:
        """The candidates, with what they are worth."""
        return [self._value(candidate) for candidate in self._candidates]

    @cached_property
    def _scale(self) -> Scale:
        return Scale.of([candidate.scores for candidate in self._candidates])

    @cached_property
    def _top(self) -> float:
        """What the best candidate is worth."""
        return max((each.score for each in self._valued), default=0.0) or 1.0

    def _value(self, candidate: _Candidate) -> _Found:
        worth, sentence = self._scale.worth(candidate.scores)
        worth += MEANING_WEIGHT * max(0.0, candidate.alike)
        worth += NEARER[candidate.index.space.name] - PART * candidate.entry.is_part
        return _Found(candidate.index, candidate.entry, max(worth, 0.0), sentence)

    def _ranked(self) -> list[_Found]:
        """The candidates in order; the best is worth 1, and for a wish to look at something, none that
        destroys something comes before one that does not."""
        found = sorted((replace(each, score=each.score / self._top) for each in self._valued), key=_by_score)
        if self._query.wish and asks_to_look(self._query.wish, self._stemmer):
            found.sort(key=lambda each: each.entry.is_destructive)
        return _never_rising(found)

    @property
    def _is_filled_up(self) -> bool:
        """Whether a wish says enough to find anything by its meaning alone: a single word is looked up."""
        return bool(self._vector) and len(self._asked.words) >= LEAST_WORDS

    def _near_in_meaning(self, found: Sequence[_Found]) -> list[_Found]:
        """What no word was found in, and means something similar; the most similar first."""
        near: list[_Found] = []
        for index in self._indexes:
            seen = {each.entry.key for each in found if each.index is index}
            entries = index.ask(
                lambda engine, seen=seen: engine.nearest(self.wanted, self._vector, FILLED_UP, seen)  # type: ignore[misc]
            )
            vectors = index.ask(lambda engine, entries=entries: engine.vectors(entries))  # type: ignore[misc]
            near += [
                _Found(index, entry, MEANING_WEIGHT * alike / self._top, is_near=True)
                for entry in entries
                if (alike := similarity(self._vector, vectors[entry.key])) >= LEAST_SIMILARITY
            ]
        near.sort(key=_by_score)
        return _never_rising([*found[-1:], *near[:FILLED_UP]])[len(found[-1:]) :]

    def _words_of(self, measure: Measure) -> list[str]:
        """The words of the query and those that its parts stand for, of each part one after the other."""
        by_label: dict[str, list[str]] = {}
        for word, (label, _) in measure.groups.items():
            by_label.setdefault(label, []).append(word)
        in_turn = [word for turn in zip_longest(*by_label.values()) for word in turn if word is not None]
        return list(dict.fromkeys([*self._asked.words, *in_turn]))

    def _behind(self, found: Sequence[_Found], last: int) -> list[_Found]:
        """What matches and was no candidate, by id; none of it is worth more than what is before it.

        The first of them are weighed, whatever page is asked for, so that a late one is no more work.
        """
        seen = {each.identity for each in found}
        everything = self._in_any_order(last + len(found))
        rest = [each for each in everything if each.identity not in seen]
        worth = self._worth(rest[:MAX_BEHIND])
        scores = (worth.get(each.identity, 0.0) for each in rest[:MAX_BEHIND])
        lowest = list(accumulate(scores, min, initial=found[-1].score if found else 1.0))
        return [
            replace(each, score=lowest[min(number, MAX_BEHIND)]) for number, each in enumerate(rest, start=1)
        ]

    def _sorted_by_column(self, last: int) -> list[_Found]:
        order = self._query.sort_by
        found = self._first(order, last)
        if order == "name":
            found.sort(key=lambda each: (_as_sqlite_folds(each.entry.name), *_by_id(each)))
        else:
            found.sort(key=lambda each: (-each.entry.date, *_by_id(each)))
        before, found = found[: self._query.offset], found[self._query.offset : last]
        if not self._asked.words and not self._asked.prefixes:
            return before + found
        worth = self._worth(found)
        return before + [replace(each, score=worth.get(each.identity, 0.0)) for each in found]

    def _worth(self, found: Sequence[_Found]) -> dict[tuple[SpaceName, int], float]:
        """What these are worth, as a share of the best candidate."""
        valued = [
            self._value(candidate)
            for index in self._indexes
            for candidate in self._compared(index, [one.entry for one in found if one.index is index])
        ]
        return {each.identity: min(1.0, each.score / self._top) for each in valued}

    def _in_any_order(self, last: int) -> list[_Found]:
        """What matches a query that asks for no word: everything is worth the same."""
        return sorted(self._first("id", last), key=_by_id)

    def _first(self, order: str, last: int) -> list[_Found]:
        return [
            _Found(index, entry, 1.0)
            for index in self._indexes
            for entry in index.ask(lambda engine: engine.matches(self.wanted, order, last))
        ]

    def _similar_words(self) -> dict[str, tuple[str, ...]]:
        """For each word of the query as it was written, what it may be a slip of."""
        split = {text: words_of(text) for text in _terms(self._query.tree)}
        single = {text: words[0] for text, words in split.items() if len(words) == 1}
        if len(single) > MAX_FUZZY_WORDS:
            what = f"expected at most {MAX_FUZZY_WORDS} words with fuzzy, found {len(single)}"
            raise RyeError("invalid_query", what, hint="search for fewer words, or without fuzzy")
        return {text: self._near(word, self._query.fuzzy) for text, word in single.items()}

    def _near(self, word: str, distance: int) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for index in self._indexes:
            index.spell_out()
            found |= dict.fromkeys(index.ask(lambda engine: engine.similar(word, distance)))
        return tuple(found)

    def _nearest(self, word: str) -> Iterable[str]:
        return self._near(word, 1) or self._near(word, 2)


def _terms(tree: Node) -> Iterator[str]:
    if isinstance(tree, Term):
        yield tree.text
    for part in getattr(tree, "parts", ()):
        yield from _terms(part)


def _as_sqlite_folds(name: str) -> str:
    """A name as NOCASE compares it: the pages of several spaces are put together in the order of each."""
    return name.translate(_CAPITALS)


def _never_rising(found: Sequence[_Found]) -> list[_Found]:
    """The same, none of which is worth more than what is before it."""
    lowest = accumulate((each.score for each in found), min)
    return [replace(each, score=score) for each, score in zip(found, lowest, strict=True)]


def _by_score(found: _Found) -> tuple[float, str, str, int, str]:
    return (-round(found.score, 6), *_by_id(found))


def _by_id(found: _Found) -> tuple[str, str, int, str]:
    entry = found.entry
    return (entry.item_id, entry.item_type, -found.index.space.precedence, entry.extension)
