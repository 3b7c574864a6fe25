"""What an engine of the catalog is: who keeps the documents of one space, and finds those that match.

Rules:

- An engine finds; how what it found is ranked is decided by `_ranking`, from what the engines of all spaces
  count. So two engines, and two spaces, are compared by the same measure.
- `matches` is exact: who matches a query, and how many do, depends on the documents alone. `candidates` may
  leave out documents that would come behind, as long as what it leaves out depends on the documents alone.
- Another engine, for spaces that outgrow this one, is another class with these methods; `tests` have one that
  evaluates the tree naively, in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rye_mcp.catalog._query_tree import Node
from rye_mcp.items import ItemType

__all__ = ["Counts", "Engine", "Entry", "Features", "Group", "Wanted"]


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What one search looks for in each space; told apart from others by being another one.

    `fields` are those that words without a field are looked for in, None for all. `id_patterns` are ids in
    which `*` and `?` stand for others; one has to match, when there are any. `filters` say what a column has
    to be; of several values one has to match. `similar` are the words that a word may be a slip of.
    """

    tree: Node
    item_types: tuple[ItemType, ...]
    id_patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] | None = None
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    similar: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Entry(NamedTuple):
    """An item as an index knows it. A tuple, as hundreds of them are made for a search."""

    key: int
    item_type: ItemType
    item_id: str
    extension: str
    name: str
    date: int
    digest: str


class Features(NamedTuple):
    """What is counted of one document, as far as a query asks for it; see `Document`.

    `length` and `grams_length` are those of the whole document. A tuple, as an `Entry` is.
    """

    words: Mapping[str, int]
    length: int
    grams: Collection[str]
    grams_length: int


@dataclass(frozen=True, slots=True)
class Group:
    """The words that one part of a query stands for: those of a stem, or with a beginning."""

    label: str
    documents: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the documents of one space come to, as far as a query needs it.

    In how many documents each group, each word and each n-gram of the query is.
    """

    documents: int
    length: int
    grams_length: int
    groups: Mapping[str, Group]
    words: Mapping[str, int]
    grams: Mapping[str, int]


class Engine(Protocol):
    """Keeps the documents of one space."""

    def counts(self, words: Iterable[str], prefixes: Iterable[str]) -> Counts:
        """What is counted of these words, and of all that begin with the prefixes."""
        ...

    def is_empty(self) -> bool:
        """Whether there is no document at all."""
        ...

    def count(self, wanted: Wanted) -> int:
        """How many documents match."""
        ...

    def candidates(self, wanted: Wanted, words: Iterable[str], limit: int) -> list[Entry]:
        """The documents that match and speak of these words; the best of them when there are many."""
        ...

    def matches(self, wanted: Wanted, order: str, limit: int) -> list[Entry]:
        """The first documents that match, by `name`, by `date` (the latest first) or by `id`."""
        ...

    def features(
        self, entries: Iterable[Entry], words: frozenset[str], grams: frozenset[str]
    ) -> Mapping[int, Features]:
        """What is counted of these documents, by their keys, as far as it is about these."""
        ...

    def similar(self, word: str, distance: int) -> tuple[str, ...]:
        """The words of the documents that are at most so many edits away from this one."""
        ...
