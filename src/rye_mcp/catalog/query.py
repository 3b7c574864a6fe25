"""The query language: what somebody looks for, as a tree.

Rules:

- A tree says what is looked for and nothing about how: words stand in it as they were written, and whoever
  evaluates it splits, folds and stems them. No part of a query reaches an engine as it is.
- Words beside each other are an `Or`. `And` and `Or` have two parts or more, and none of their own kind.
- Without a field, all of them are meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "FIELDS",
    "And",
    "Everything",
    "Near",
    "Node",
    "Not",
    "Or",
    "Phrase",
    "Prefix",
    "Term",
]

FIELDS: Final = ("name", "title", "description", "category", "tags", "parameters", "body", "id")
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


Node = Term | Prefix | Phrase | Near | And | Or | Not | Everything
"""A query, or a part of one."""
