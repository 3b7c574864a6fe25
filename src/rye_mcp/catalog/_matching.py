"""Says which items match: compiles a query to one FTS5 expression, and to SQL with bound values.

The index has each word twice: as it is written, for prefixes, and as `=` with its stem, for everything else.
So one expression has all of a query. Words are folded as in the index, and quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple

from lilux._dataclasses import dataclass
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.language.words import Stemmer, name_parts, name_words, words_of
from rye_mcp.queries import And, Everything, Near, Node, Not, Or, Phrase, Prefix, Term

__all__ = [
    "ALL_SPACES",
    "KEYS_OF_A_TYPE",
    "STEM",
    "Condition",
    "Match",
    "SearchQuery",
    "Wanted",
    "both",
    "first_key",
]

STEM: Final = "="
"""What a stem has in front in the index, so that it is never taken for a word."""

KEYS_OF_A_TYPE: Final = 1 << 40
"""The keys of each item type are a range of their own: so many, and a table can be asked for one type."""

ALL_SPACES: Final = (SpaceName.PROJECT, SpaceName.USER, SpaceName.SYSTEM)
_TYPES: Final = tuple(ItemType)
_FILTER_COLUMNS: Final = ("category", "tool_type", "executor_id", "version", "name")


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
    spaces: tuple[SpaceName, ...] = ALL_SPACES
    limit: int = 10
    offset: int = 0
    sort_by: Literal["score", "name", "date"] = "score"
    fields: tuple[str, ...] | None = None
    filters: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    fuzzy: Literal[0, 1, 2] = 0
    notices: tuple[str, ...] = ()


class Match(NamedTuple):
    """A question to the full-text table; with `is_negated`, what does not answer it is meant.

    Without an expression nothing answers it, and everything does if it is negated.
    """

    expression: str
    is_negated: bool = False


class Condition(NamedTuple):
    """A condition on `items`, as SQL with its values."""

    sql: str = "1"
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one search looks for in each space.

    `others` is what an item has to be, besides; None for nothing. `is_plain` says that any of the words of
    the query will do, in any field.
    """

    item_types: tuple[ItemType, ...]
    match: Match
    others: Condition | None
    is_plain: bool

    @classmethod
    def of(cls, query: SearchQuery, stemmer: Stemmer, similar: Mapping[str, Sequence[str]]) -> Wanted:
        """What a query looks for; `similar` are the words that one of it may be a slip of."""
        conditions = [_any([Condition("item_id GLOB ?", (_glob(each),)) for each in query.id_patterns])]
        for name, value in query.filters.items():
            values = (value,) if isinstance(value, str) else value
            conditions.append(_any([_filtered(name, each) for each in values]))
        others = [each for each in conditions if each]
        return cls(
            item_types=tuple(dict.fromkeys(query.item_types)),
            match=_Compiler(stemmer, query.fields, similar).compile(query.tree),
            others=both(*others) if others else None,
            is_plain=not others and query.fields is None and _is_plain(query.tree),
        )

    @property
    def condition(self) -> Condition:
        """All of it, as one condition on `items`."""
        keys = " OR ".join("key BETWEEN ? AND ?" for _ in self.item_types) or "0"
        first = [first_key(each) for each in self.item_types]
        typed = Condition(f"({keys})", tuple(key for at in first for key in (at, at + KEYS_OF_A_TYPE - 1)))
        return both(Condition("is_listed"), typed, self.others or Condition(), self._matching("key"))

    @property
    def narrowing(self) -> Condition:
        """What a document has to be that has one of the words, as a condition on the full-text table."""
        if self.is_plain:
            return Condition()
        # The plus keeps SQLite from asking the full-text table once for each key.
        if self.is_one_question:
            return self._matching("+rowid")
        sql, values = self.condition
        return Condition(f"+rowid IN (SELECT key FROM items WHERE {sql})", values)

    @property
    def is_one_question(self) -> bool:
        """Whether the full-text table alone says what matches."""
        return self.others is None and bool(self.match.expression) and not self.match.is_negated

    def _matching(self, key: str) -> Condition:
        expression, is_negated = self.match
        if not expression:
            return Condition("1" if is_negated else "0")
        word = "NOT IN" if is_negated else "IN"
        return Condition(f"{key} {word} (SELECT rowid FROM words WHERE words MATCH ?)", (expression,))


def first_key(item_type: ItemType) -> int:
    """The key from which on those of a type are counted."""
    return _TYPES.index(item_type) * KEYS_OF_A_TYPE


def both(*conditions: Condition) -> Condition:
    """What meets all of these."""
    values = tuple(value for each in conditions for value in each.values)
    return Condition(" AND ".join(f"({each.sql})" for each in conditions), values)


def _any(conditions: Sequence[Condition]) -> Condition | None:
    values = tuple(value for each in conditions for value in each.values)
    return Condition(" OR ".join(each.sql for each in conditions), values) if conditions else None


def _glob(pattern: str) -> str:
    return pattern.replace("[", "[[]")  # which alone has a meaning besides * and ?


def _filtered(name: str, value: str) -> Condition:
    if name == "tags":
        return Condition("instr(tags, ?) > 0", (f"\n{value}\n",))
    return Condition(f"{name} = ? COLLATE NOCASE", (value,)) if name in _FILTER_COLUMNS else Condition("0")


def _is_plain(tree: Node) -> bool:
    """Whether whatever has one of the words of a tree, or of those that begin so, matches it."""
    parts = tree.parts if isinstance(tree, Or) else (tree,)
    split = [
        name_words(part.text) if isinstance(part, Term) else words_of(part.text)
        for part in parts
        if isinstance(part, Term | Prefix) and part.field is None
    ]
    single = {words[0] for words in split if len(words) == 1}
    return len(split) == len(parts) and all(single.issuperset(words) for words in split)


class _Compiler:
    def __init__(
        self, stemmer: Stemmer, fields: tuple[str, ...] | None, similar: Mapping[str, Sequence[str]]
    ) -> None:
        self._stemmer = stemmer
        self._fields = fields
        self._similar = similar

    def compile(self, node: Node) -> Match:
        """The question that a tree is."""
        match node:
            case Everything():
                return Match("", is_negated=True)
            case Not():
                return _negated(self.compile(node.part))
            case And():
                return _all_of([self.compile(part) for part in node.parts])
            case Or():
                return _negated(_all_of([_negated(self.compile(part)) for part in node.parts]))
            case _:
                return Match(self._within(node, self._leaf(node)))

    def _within(self, leaf: Term | Prefix | Phrase | Near, expression: str) -> str:
        fields = self._fields if leaf.field is None else (leaf.field,)
        return f"{{{' '.join(fields)}}} : ({expression})" if fields and expression else expression

    def _leaf(self, leaf: Term | Prefix | Phrase | Near) -> str:
        match leaf:
            case Term(text):
                return self._term(text)
            case Prefix(text):
                return f'"{" ".join(words)}" *' if (words := words_of(text)) else ""
            case Near(words, distance):
                phrases = [self._phrase(words_of(word)) for word in words]
                return f"NEAR({' '.join(phrases)}, {int(distance)})" if all(phrases) else ""
            case Phrase(words):
                return self._phrase([word for each in words for word in words_of(each)])

    def _term(self, text: str) -> str:
        """A word as it is written, in its parts, or as one that it may be a slip of."""
        words = words_of(text)
        similar = ([each] for each in self._similar.get(" ".join(words), ()))
        return " OR ".join(
            dict.fromkeys(self._phrase(form) for form in (words, name_parts(text), *similar) if form)
        )

    def _phrase(self, words: Sequence[str]) -> str:
        stems = self._stemmer.stems(words)
        return f'"{" ".join(STEM + stems[word] for word in words)}"' if words else ""


def _negated(match: Match) -> Match:
    return Match(match.expression, not match.is_negated)


def _all_of(parts: Iterable[Match]) -> Match:
    """What answers each of these. FTS5 has no `everything but`: what is negated follows something else."""
    every = list(parts)
    if Match("") in every:
        return Match("")
    wanted = _listed(" AND ", [each for each, is_negated in every if not is_negated])
    refused = _listed(" OR ", [each for each, is_negated in every if is_negated and each])
    if not wanted:
        return Match(refused, is_negated=True)
    return Match(f"({wanted}) NOT ({refused})" if refused else wanted)


def _listed(operator: str, expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else operator.join(f"({each})" for each in expressions)
