"""What somebody looks for, as a tree; `rye_mcp.queries` makes it and has its rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.language.words import name_words, words_of

__all__ = [
    "FIELDS",
    "And",
    "Asked",
    "Everything",
    "Leaf",
    "Near",
    "Node",
    "Not",
    "Or",
    "Phrase",
    "Prefix",
    "Query",
    "Term",
    "leaves_of",
]

FIELDS: Final = ("name", "title", "description", "category", "tags", "parameters", "examples", "body", "id")
"""What can stand before a colon."""


@dataclass(frozen=True, slots=True)
class Term:
    """One word, as it was written, without the punctuation around it."""

    text: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Any word that begins like this."""

    text: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in this order, with nothing between them."""

    words: tuple[str, ...]
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """Words in any order, with at most `distance` others between the first and the last of them."""

    words: tuple[str, ...]
    distance: int
    field: str | None = None


@dataclass(frozen=True, slots=True)
class And:
    """What all parts match."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """What one part matches, or several."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """What the part does not match."""

    part: Node


@dataclass(frozen=True, slots=True)
class Everything:
    """What there is."""


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody asks for: a tree, and what was cut off it, if anything.

    `wish` is the text of a query without operators, with its punctuation; None for every other one.
    """

    tree: Node
    wish: str | None = None
    notice: str | None = None


Leaf = Term | Prefix | Phrase | Near | Everything
"""What stands in a query by itself."""

Node = Term | Prefix | Phrase | Near | And | Or | Not | Everything
"""A query, or a part of one."""


def leaves_of(node: Node) -> Iterator[Term | Prefix | Phrase | Near]:
    """What stands in a tree by itself, but for what is not wanted."""
    match node:
        case And() | Or():
            for part in node.parts:
                yield from leaves_of(part)
        case Not() | Everything():
            return
        case _:
            yield node


@dataclass(frozen=True, slots=True)
class Asked:
    """The words that a query asks for; what it does not want has none."""

    words: tuple[str, ...]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, tree: Node) -> Asked:
        """The words of a tree, each once, in its order."""
        leaves = list(leaves_of(tree))
        words = [word for leaf in leaves for word in _words(leaf)]
        prefixes = [
            words_of(leaf.text)[-1] for leaf in leaves if isinstance(leaf, Prefix) and words_of(leaf.text)
        ]
        return cls(tuple(dict.fromkeys(words)), tuple(dict.fromkeys(prefixes)))


def _words(leaf: Term | Prefix | Phrase | Near) -> Iterable[str]:
    match leaf:
        case Term():
            return name_words(leaf.text)
        case Prefix():
            return words_of(leaf.text)[:-1]
        case _:
            return [word for each in leaf.words for word in words_of(each)]
