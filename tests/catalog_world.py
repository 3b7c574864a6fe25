"""What tests of the catalog share: items that are quickly written, and a naive evaluation of a query tree."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unicodedata import combining, normalize

from rye_mcp.catalog import Catalog, Page, SearchQuery
from rye_mcp.queries import (
    FIELDS,
    OPERATORS,
    And,
    Everything,
    Leaf,
    Near,
    Node,
    Not,
    Or,
    Phrase,
    Prefix,
    Term,
    read_query,
)
from tests.space_helpers import Ground

__all__ = ["Naive", "Shelf", "stem_of", "tool", "written"]


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
            read = read_query(query)
            return catalog.search(SearchQuery(read.tree, read.wish, **options))

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
                return any(self._phrase(words_of(form), words) for form in (node.text, apart(node.text)))
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
        return [stem_of(word) for word in words]


def words_of(text: str) -> list[str]:
    """The words of a query: runs of letters and digits, in lower case and without accents."""
    plain = "".join(each for each in normalize("NFKD", text.lower()) if not combining(each))
    return re.findall(r"[a-z0-9]+", plain)


def apart(name: str) -> str:
    """A name with a blank before each capital inside of it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)


@cache
def stem_of(word: str) -> str:
    """The stem of a word, as SQLite has it."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE word USING fts5(text, tokenize='porter unicode61')")
        database.execute("CREATE VIRTUAL TABLE stem USING fts5vocab(word, 'row')")
        database.execute("INSERT INTO word VALUES (?)", (word,))
        [(stem,)] = database.execute("SELECT term FROM stem")
    return str(stem)


def written(node: Node) -> str:
    """The tree as a query whose tree is the same."""
    match node:
        case And(parts):
            return " AND ".join(_as_part(part) for part in parts)
        case Or(parts):
            return " OR ".join(_as_part(part) for part in parts)
        case Not(part):
            return f"NOT ({written(part)})" if isinstance(part, Not) else f"NOT {_as_part(part)}"
        case leaf:
            return _leaf_written(leaf)


def _as_part(node: Node) -> str:
    return f"({written(node)})" if isinstance(node, And | Or) else written(node)


def _leaf_written(leaf: Leaf) -> str:
    match leaf:
        case Everything():
            return "*"
        case Term(text, field):
            return _plainly(text, field)
        case Prefix(text, field):
            return f"{_plainly(text, field)}*"
        case Phrase(words, field):
            return f'{_before(field)}"{" ".join(words)}"'
        case Near(words, distance, field):
            return f"{_before(field)}NEAR({' '.join(words)}, {distance})"


def _before(field: str | None) -> str:
    return "" if field is None else f"{field}:"


def _plainly(text: str, field: str | None) -> str:
    """A word that would be something else has an apostrophe in front, which is punctuation."""
    if field is not None:
        return f"{field}:{text}"
    return f"'{text}" if text in OPERATORS or text.partition(":")[0] in FIELDS else text
