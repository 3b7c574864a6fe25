"""What tests of the catalog share: items that are quickly written, and a naive evaluation of a query tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rye_mcp.catalog import Catalog, Page, SearchQuery
from rye_mcp.catalog._stems import Stemmer
from rye_mcp.catalog._words import name_parts, words_of
from rye_mcp.catalog.query import FIELDS, And, Everything, Near, Node, Not, Or, Phrase, Prefix, Term, parse
from tests.space_helpers import Ground

__all__ = ["Naive", "Shelf", "tool"]


def tool(name: str = "", description: str = "", *, body: str = "", **more: Any) -> bytes:
    """A tool in Python; what else it says about itself is given by the names of metadata."""
    lines = ['__version__ = "1.0.0"', '__executor_id__ = "rye/core/primitives/subprocess"']
    said = {"__tool_name__": name, "__tool_description__": description, **more}
    lines += [f"{key} = {value!r}" for key, value in said.items() if value]
    return "\n".join([*lines, "", "", "def main():", f"    # {body}", "    return 1", ""]).encode()


@dataclass(frozen=True)
class Shelf:
    """Three spaces, and a directory for indexes."""

    ground: Ground

    @classmethod
    def in_directory(cls, root: Path) -> Shelf:
        return cls(Ground.in_directory(root))

    @property
    def cache(self) -> Path:
        return self.ground.root / "cache"

    def put(self, item_id: str, content: bytes, *, space: str = "project", ending: str = ".py") -> Path:
        return self.ground.write(space, f"tools/{item_id}{ending}", content)

    def exchange(self, item_id: str, content: bytes, *, by: str = "") -> None:
        """Put an item in the place of another one, so that nobody ever sees a part of it."""
        new = self.ground.write("project", f"tools/{item_id}.new{by}", content)
        new.rename(new.with_suffix(".py"))

    def open(self) -> Catalog:
        return Catalog.open(self.ground.spaces, self.cache)

    def search(self, query: str, **options: Any) -> Page:
        """What somebody finds who has just come."""
        with self.open() as catalog:
            catalog.refresh()
            return catalog.search(SearchQuery(parse(query), **options))

    def ids(self, query: str, **options: Any) -> list[str]:
        return [hit.item_id for hit in self.search(query, **options).hits]

    def open_anew(self) -> Catalog:
        """The catalog of who has no index yet, and keeps none."""
        return Catalog.open(self.ground.spaces, None)

    def index_file(self) -> Path:
        """The index of the project's space, which is the largest."""
        return max(self.cache.glob("*.sqlite"), key=lambda path: path.stat().st_size)


@dataclass(frozen=True)
class Naive:
    """One document as lists of words, and whether it matches a tree, found out in the most obvious way."""

    texts: Mapping[str, Sequence[str]]
    stemmer: Stemmer

    def matches(self, node: Node, fields: Iterable[str] = FIELDS) -> bool:
        match node:
            case Everything():
                return True
            case Not():
                return not self.matches(node.part, fields)
            case And():
                return all(self.matches(part, fields) for part in node.parts)
            case Or():
                return any(self.matches(part, fields) for part in node.parts)
        inside = fields if node.field is None else (node.field,)
        return any(self._matches_in(node, self.texts[field]) for field in inside)

    def _matches_in(self, node: Term | Prefix | Phrase | Near, words: Sequence[str]) -> bool:
        match node:
            case Term():
                return any(self._phrase(form, words) for form in (words_of(node.text), name_parts(node.text)))
            case Phrase():
                return self._phrase([word for each in node.words for word in words_of(each)], words)
            case Prefix():
                *before, beginning = words_of(node.text) or [""]
                return bool(beginning) and any(
                    list(words[at : at + len(before)]) == before
                    and words[at + len(before)].startswith(beginning)
                    for at in range(len(words) - len(before))
                )
            case Near():
                return self._near(node, words)

    def _phrase(self, phrase: Sequence[str], words: Sequence[str]) -> bool:
        wanted, stems = self._stems(phrase), self._stems(words)
        return bool(wanted) and any(
            stems[at : at + len(wanted)] == wanted for at in range(len(stems) - len(wanted) + 1)
        )

    def _near(self, node: Near, words: Sequence[str]) -> bool:
        stems = self._stems(words)
        (*wanted,) = self._stems([words_of(word)[0] for word in node.words])
        places = [[at for at, stem in enumerate(stems) if stem == each] for each in wanted]
        return any(max(chosen) - min(chosen) - 1 <= node.distance for chosen in product(*places))

    def _stems(self, words: Sequence[str]) -> list[str]:
        known = self.stemmer.stems(words)
        return [known[word] for word in words]
