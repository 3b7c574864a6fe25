"""A catalog without an index: it looks at every item for each query, and evaluates the tree word by word.

`Shelf` is slow and plain, so that it can be seen to be right. `Prepared` finds what it was told to, as an
index does that is old, damaged or somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rye_mcp.catalog import Hit, Page, SearchQuery
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.metadata import parse_metadata
from rye_mcp.queries import And, Everything, Near, Node, Not, Or, Phrase, Prefix, Term
from rye_mcp.spaces import Spaces

__all__ = ["Prepared", "Shelf", "hit"]

Words = Mapping[str, Sequence[str]]


def hit(item_id: str, item_type: ItemType = ItemType.TOOL, space: SpaceName = SpaceName.PROJECT) -> Hit:
    """A hit as an index would have it."""
    return Hit(item_id, item_type, space, ".py", 0.5, "0" * 64)


@dataclass(frozen=True)
class Prepared:
    """Finds the same for every query."""

    hits: tuple[Hit, ...]
    did_you_mean: tuple[str, ...] = ()
    total: int | None = None

    def search(self, query: SearchQuery, /) -> Page:
        total = len(self.hits) if self.total is None else self.total
        return Page(self.hits, total, self.did_you_mean)


@dataclass(frozen=True)
class Shelf:
    """Finds by looking at everything."""

    spaces: Spaces

    def search(self, query: SearchQuery, /) -> Page:
        found = [
            Hit(file.item_id, file.item_type, file.space.name, file.extension, _score(query.tree, words), "")
            for file in self._files(query)
            if _matches(query.tree, words := _words(file))
        ]
        found.sort(key=lambda each: (-each.score, each.item_id, -each.space.precedence))
        return Page(tuple(found[query.offset : query.offset + query.limit]), len(found), ())

    def _files(self, query: SearchQuery) -> list[ItemFile]:
        places = [
            place
            for name in query.spaces
            for kind in query.item_types
            for place in self.spaces.list(name, kind).items
        ]
        patterns = query.id_patterns or ("*",)
        asked = [
            place for place in places if any(fnmatchcase(place.item_id, pattern) for pattern in patterns)
        ]
        return [file for file in map(self.spaces.read, asked) if not _is_library(file)]


def _is_library(file: ItemFile) -> bool:
    try:
        return file.item_type is ItemType.TOOL and parse_metadata(file).is_library
    except RyeError:
        return False


def _words(file: ItemFile) -> Words:
    """The words of an item, by field; in small letters, split where nothing but letters and digits is."""
    fields = {"name": file.item_id.rpartition("/")[2], "id": file.item_id}
    try:
        metadata = parse_metadata(file)
        fields |= {"description": metadata.description, "tags": " ".join(metadata.tags)}
    except RyeError:
        fields["body"] = file.content.decode("utf-8", "replace")
    return {name: _split(text) for name, text in fields.items()}


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _matches(node: Node, words: Words) -> bool:
    match node:
        case Everything():
            return True
        case And(parts):
            return all(_matches(part, words) for part in parts)
        case Or(parts):
            return any(_matches(part, words) for part in parts)
        case Not(part):
            return not _matches(part, words)
        case leaf:
            named = words.values() if leaf.field is None else (words.get(leaf.field, ()),)
            return any(_stands_in(leaf, list(each)) for each in named)


def _stands_in(leaf: Term | Prefix | Phrase | Near, words: list[str]) -> bool:
    match leaf:
        case Prefix(text):
            return any(word.startswith(text.lower()) for word in words)
        case Near(listed):
            return all(word.lower() in words for word in listed)
    wanted = _split(leaf.text if isinstance(leaf, Term) else " ".join(leaf.words))
    starts = range(len(words) - len(wanted) + 1)
    return any(words[start : start + len(wanted)] == wanted for start in starts)


def _score(node: Node, words: Words) -> float:
    """Which part of the words stands in the item."""
    parts = node.parts if isinstance(node, And | Or) else (node,)
    return sum(_matches(part, words) for part in parts) / len(parts)
