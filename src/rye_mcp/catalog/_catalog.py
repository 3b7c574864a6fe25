"""Searches the spaces of a call: collects what matches in each index, scores and orders it, and cuts pages.

`refresh` brings the indexes up to date before a search; `note_changed` does so for single files. A `Hit` says
what a file held when it was indexed: callers read and verify the item before they show anything of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from itertools import accumulate, zip_longest
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from types import TracebackType
from typing import Final, Literal, Protocol

from lilux._dataclasses import dataclass
from rye_mcp.catalog._matching import Entry, Wanted
from rye_mcp.catalog._query_tree import Node, Term
from rye_mcp.catalog._ranking import (
    Asked,
    Counts,
    Group,
    Measure,
    as_sentence,
    merged,
    reciprocal_rank_fusion,
)
from rye_mcp.catalog._space_index import SpaceIndex
from rye_mcp.catalog._words import Stemmer, words_of
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, SpaceName
from rye_mcp.spaces import Spaces

__all__ = ["Catalog", "Hit", "Page", "Ranker", "SearchQuery"]

CANDIDATES: Final = 60
"""How many documents of a space are compared as a whole; what is behind them stays as it was found."""

MAX_BEHIND: Final = 400
"""How many of those behind the candidates are weighed; what is behind them is worth no more than the last."""

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
    field are looked for in. `filters` say what a column has to be: `category`, `tags`, `tool_type`,
    `executor_id`, `version`, `name`; of several values one has to match. With `fuzzy`, a word stands for all
    that are at most so many edits away.
    """

    tree: Node
    item_types: tuple[ItemType, ...] = (ItemType.TOOL,)
    id_patterns: tuple[str, ...] = ()
    spaces: tuple[SpaceName, ...] = _ALL_SPACES
    limit: int = 10
    offset: int = 0
    sort_by: SortBy = "score"
    fields: tuple[str, ...] | None = None
    filters: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    fuzzy: Fuzzy = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that matches. `digest` is the SHA256 of the whole file that was indexed."""

    item_id: str
    item_type: ItemType
    space: SpaceName
    extension: str
    score: float
    digest: str


@dataclass(frozen=True, slots=True)
class Page:
    """A part of what was found. `total` counts all of it; `did_you_mean` is for when there is nothing."""

    hits: tuple[Hit, ...]
    total: int
    did_you_mean: tuple[str, ...] = ()


class Ranker(Protocol):
    """A second opinion on what comes first, such as by embeddings."""

    def rank(self, query: SearchQuery, hits: Sequence[Hit]) -> Sequence[int]:
        """The indexes of these hits, the best first."""
        ...


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry of one space, with what it is worth."""

    index: SpaceIndex
    entry: Entry
    score: float

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
        )


class Catalog:
    """The indexes of the spaces of one call, or of one server."""

    def __init__(self, indexes: Sequence[SpaceIndex], stemmer: Stemmer, ranker: Ranker | None) -> None:
        self._indexes = tuple(indexes)
        self._stemmer = stemmer
        self._ranker = ranker

    @classmethod
    def open(cls, spaces: Spaces, directory: Path | None, *, ranker: Ranker | None = None) -> Catalog:
        """The catalog of these spaces, with its files in a directory; in memory alone without one."""
        stemmer = Stemmer()
        roots = [space.root for space in spaces.accessible()]
        if directory is not None and any(directory.resolve().is_relative_to(root) for root in roots):
            directory = None
        indexes = [SpaceIndex(spaces, space, directory, stemmer) for space in spaces.accessible()]
        return cls(indexes, stemmer, ranker)

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the indexes."""
        return tuple(index.notice for index in self._indexes if index.notice)

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
        search = _Search(query, indexes, self._stemmer, self._ranker)
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
        self, query: SearchQuery, indexes: Sequence[SpaceIndex], stemmer: Stemmer, ranker: Ranker | None
    ) -> None:
        self._query = query
        self._indexes = indexes
        self._stemmer = stemmer
        self._ranker = ranker
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
        measure = self._measure()
        words = self._words_of(measure)
        found: list[_Found] = []
        for index in self._indexes:
            entries = index.ask(lambda engine: engine.candidates(self.wanted, words, CANDIDATES))
            found += self._scored(index, entries, measure)
        found.sort(key=_by_score)
        if self._ranker is not None:
            found = self._fused(found, self._ranker)
        return found if len(found) >= last else found + self._behind(found, last, measure)

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

    def _measure(self) -> Measure:
        counts, stems = self._counts(), self._stemmer.stems(self._asked.words)
        groups = dict(counts.groups)
        for word, similar in self._similar.items():
            for label in {stems[each] for each in words_of(word) if each in stems}:
                known = groups.get(label, Group(label, 0, ()))
                groups[label] = replace(known, words=tuple(dict.fromkeys((*known.words, *similar))))
        return Measure.of(self._asked, replace(counts, groups=groups), stems)

    def _words_of(self, measure: Measure) -> list[str]:
        """The words of the query and those that its parts stand for, of each part one after the other."""
        by_label: dict[str, list[str]] = {}
        for word, (label, _) in measure.groups.items():
            by_label.setdefault(label, []).append(word)
        in_turn = [word for turn in zip_longest(*by_label.values()) for word in turn if word is not None]
        return list(dict.fromkeys([*self._asked.words, *in_turn]))

    def _scored(self, index: SpaceIndex, entries: Sequence[Entry], measure: Measure) -> list[_Found]:
        words, grams = frozenset(measure.groups), frozenset(measure.grams)
        features = index.ask(lambda engine: engine.features(entries, words, grams))
        return [
            _Found(index, entry, measure.score(features[entry.key]))
            for entry in entries
            if entry.key in features
        ]

    def _behind(self, found: Sequence[_Found], last: int, measure: Measure) -> list[_Found]:
        """What matches and was no candidate, by id; none of it is worth more than what is before it.

        The first of them are weighed, whatever page is asked for, so that a late one is no more work.
        """
        seen = {each.identity for each in found}
        everything = self._in_any_order(last + len(found))
        rest = [each for each in everything if each.identity not in seen]
        worth = self._worth(rest[:MAX_BEHIND], measure)
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
        worth = self._worth(found, self._measure())
        return before + [replace(each, score=worth.get(each.identity, 0.0)) for each in found]

    def _worth(self, found: Sequence[_Found], measure: Measure) -> dict[tuple[SpaceName, int], float]:
        return {
            each.identity: each.score
            for index in self._indexes
            for each in self._scored(index, [one.entry for one in found if one.index is index], measure)
        }

    def _in_any_order(self, last: int) -> list[_Found]:
        """What matches a query that asks for no word: everything is worth the same."""
        return sorted(self._first("id", last), key=_by_id)

    def _first(self, order: str, last: int) -> list[_Found]:
        return [
            _Found(index, entry, 1.0)
            for index in self._indexes
            for entry in index.ask(lambda engine: engine.matches(self.wanted, order, last))
        ]

    def _fused(self, found: list[_Found], ranker: Ranker) -> list[_Found]:
        second = ranker.rank(self._query, [each.hit for each in found])
        fused = reciprocal_rank_fusion([range(len(found)), second])
        return sorted((replace(found[number], score=score) for number, score in fused.items()), key=_by_score)

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


def _by_score(found: _Found) -> tuple[float, str, str, int, str]:
    return (-round(found.score, 6), *_by_id(found))


def _by_id(found: _Found) -> tuple[str, str, int, str]:
    entry = found.entry
    return (entry.item_id, entry.item_type, -found.index.space.precedence, entry.extension)
