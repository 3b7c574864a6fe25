"""What somebody looks for, as a tree; `rye_mcp.catalog.query` makes it and has its rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lilux._dataclasses import dataclass

__all__ = [
    "FIELDS",
    "NAMED",
    "And",
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
    "texts_of",
]

FIELDS: Final = ("name", "title", "description", "category", "tags", "parameters", "examples", "body", "id")
"""What can stand before a colon."""

NAMED: Final = FIELDS[:3]
"""What an item is called and what it is for."""


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


def texts_of(node: Node) -> Iterator[str]:
    """The words of a tree that are looked for by themselves."""
    if isinstance(node, Term):
        yield node.text
    for part in getattr(node, "parts", ()):
        yield from texts_of(part)
