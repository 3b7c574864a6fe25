"""Says which items match: compiles the tree of a query to SQL with FTS5 expressions and bound values.

Words are folded as in the index, and quoted; nothing of a query reaches SQLite as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from lilux._dataclasses import dataclass
from rye_mcp.catalog._query_tree import And, Everything, Leaf, Near, Node, Not, Or, Phrase, Prefix, Term
from rye_mcp.catalog._words import name_parts, words_of
from rye_mcp.items import ItemType

__all__ = [
    "KEYS_OF_A_TYPE",
    "Alternative",
    "Condition",
    "Entry",
    "Found",
    "Match",
    "Wanted",
    "all_conditions",
    "alternatives_of",
    "any_of",
    "as_condition",
    "first_key",
    "match_of",
]


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
    is_destructive: bool
    is_part: bool


KEYS_OF_A_TYPE: Final = 1 << 40
"""The keys of each item type are a range of their own: so many, and a table can be asked for one type."""

_TYPES: Final = tuple(ItemType)
_FILTER_COLUMNS: Final = ("category", "tool_type", "executor_id", "version", "name")


@dataclass(frozen=True, slots=True)
class Match:
    """A question to one full-text table; with `is_negated`, what does not answer it is meant."""

    table: str
    expression: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on `items`, as SQL with its values."""

    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of several things that are looked for: its words, how it is asked for, and how in names alone."""

    words: tuple[str, ...]
    expression: str
    in_name: str = ""


_KEPT: Final = 32
"""How many searches at a time are remembered: each asks every space the same, more than once."""

Found = Match | Condition
_NOTHING: Final = Condition("0")
_ALL: Final = Condition("1")
_OPPOSITES: Final = {_NOTHING: _ALL, _ALL: _NOTHING}


def first_key(item_type: ItemType) -> int:
    """The key from which on those of a type are counted."""
    return _TYPES.index(item_type) * KEYS_OF_A_TYPE


@lru_cache(maxsize=_KEPT)
def match_of(wanted: Wanted) -> Found:
    """What the tree comes to."""
    return _Compiler(wanted.fields, wanted.similar).compile(wanted.tree)


@lru_cache(maxsize=_KEPT)
def alternatives_of(wanted: Wanted) -> tuple[Alternative, ...] | None:
    """The parts of a query that is content with any of them; None for every other query."""
    tree = wanted.tree
    parts = tree.parts if isinstance(tree, Or) else (tree,)
    found: list[Alternative] = []
    for part in parts:
        if not isinstance(part, Term):
            return None
        fields = _fields_of(part, wanted.fields)
        for words in _forms(part, wanted.similar):
            phrase = _phrase(words)
            in_name = f"name : {phrase}" if fields is None or "name" in fields else ""
            found.append(Alternative(tuple(words), _within(fields, phrase), in_name))
    return tuple(found)


def any_of(alternatives: Iterable[Alternative]) -> str:
    """What any of these matches."""
    return " OR ".join(f"({each.expression})" for each in alternatives)


def all_conditions(wanted: Wanted) -> list[Condition]:
    """Everything that an item has to be, the tree aside."""
    conditions = [_typed(wanted.item_types)]
    if wanted.id_patterns:
        conditions.append(_joined(" OR ", [_like(pattern) for pattern in wanted.id_patterns]))
    for name, values in wanted.filters.items():
        conditions.append(_joined(" OR ", [_filtered(name, value) for value in values]))
    return conditions


def as_condition(found: Found) -> Condition:
    """What was found, as a condition on `items`."""
    if isinstance(found, Condition):
        return found
    table, word = found.table, "NOT IN" if found.is_negated else "IN"
    return Condition(
        f"items.key {word} (SELECT rowid FROM {table} WHERE {table} MATCH ?)", (found.expression,)
    )


@dataclass(frozen=True, slots=True)
class _Compiler:
    fields: tuple[str, ...] | None
    similar: Mapping[str, tuple[str, ...]]

    def compile(self, node: Node) -> Found:
        match node:
            case Everything():
                return _ALL
            case Not():
                return _negated(self.compile(node.part))
            case And():
                return _all_of([self.compile(part) for part in node.parts])
            case Or():
                return _any_of([self.compile(part) for part in node.parts])
            case _:
                return self._leaf(node)

    def _leaf(self, node: Term | Prefix | Phrase | Near) -> Found:
        expression = _EXPRESSIONS[type(node)](node, self.similar)
        if not expression:
            return _NOTHING
        expression = _within(_fields_of(node, self.fields), expression)
        return Match("written" if isinstance(node, Prefix) else "stemmed", expression)


def _fields_of(node: Leaf, fields: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return fields if isinstance(node, Everything) or node.field is None else (node.field,)


def _within(fields: tuple[str, ...] | None, expression: str) -> str:
    return expression if fields is None else f"{{{' '.join(fields)}}} : ({expression})"


def _forms(node: Term, similar: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """The words that a word of the query may be written as, each form once."""
    forms = [words_of(node.text), name_parts(node.text), *([each] for each in similar.get(node.text, ()))]
    return [form for number, form in enumerate(forms) if form and form not in forms[:number]]


def _term(node: Term, similar: Mapping[str, tuple[str, ...]]) -> str:
    return " OR ".join(map(_phrase, _forms(node, similar)))


def _prefix(node: Prefix, _: Mapping[str, tuple[str, ...]]) -> str:
    expression = _phrase(words_of(node.text))
    return expression and f"{expression} *"


def _phrase_of(node: Phrase, _: Mapping[str, tuple[str, ...]]) -> str:
    return _phrase([word for each in node.words for word in words_of(each)])


def _near(node: Near, _: Mapping[str, tuple[str, ...]]) -> str:
    phrases = [_phrase(words_of(word)) for word in node.words]
    return f"NEAR({' '.join(phrases)}, {int(node.distance)})" if all(phrases) else ""


_EXPRESSIONS: Final[Mapping[type, Any]] = {
    Term: _term,
    Prefix: _prefix,
    Phrase: _phrase_of,
    Near: _near,
}


def _phrase(words: Sequence[str]) -> str:
    return f'"{" ".join(words)}"' if words else ""


def _all_of(found: Sequence[Found]) -> Found:
    if _NOTHING in found:
        return _NOTHING
    return _together(" AND ", _grouped([each for each in found if each != _ALL])) or _ALL


def _any_of(found: Sequence[Found]) -> Found:
    if _ALL in found:
        return _ALL
    groups = [_negated(each) for each in _grouped([_negated(each) for each in found if each != _NOTHING])]
    return _together(" OR ", groups) or _NOTHING


def _grouped(found: Sequence[Found]) -> list[Found]:
    """Questions to the same table, all of which are to be answered, as one question."""
    by_table: dict[str, list[Match]] = {}
    for each in found:
        if isinstance(each, Match):
            by_table.setdefault(each.table, []).append(each)
    groups: list[Found] = [_conjunction(matches) for matches in by_table.values()]
    return groups + [each for each in found if isinstance(each, Condition)]


def _conjunction(matches: Sequence[Match]) -> Match:
    if len(matches) == 1:
        return matches[0]
    wanted = _listed(" AND ", [each for each in matches if not each.is_negated])
    refused = _listed(" OR ", [each for each in matches if each.is_negated])
    table = matches[0].table
    if not wanted:
        return Match(table, refused, is_negated=True)
    return Match(table, f"({wanted}) NOT ({refused})" if refused else wanted)


def _listed(operator: str, matches: Sequence[Match]) -> str:
    expressions = [each.expression for each in matches]
    return expressions[0] if len(expressions) == 1 else operator.join(f"({each})" for each in expressions)


def _together(operator: str, found: Sequence[Found]) -> Found | None:
    if len(found) <= 1:
        return found[0] if found else None
    return _joined(operator, [as_condition(each) for each in found])


def _negated(found: Found) -> Found:
    if isinstance(found, Match):
        return replace(found, is_negated=not found.is_negated)
    if found in _OPPOSITES:
        return _OPPOSITES[found]
    return Condition(f"NOT ({found.sql})", found.values)


def _joined(operator: str, conditions: Sequence[Condition]) -> Condition:
    sql = operator.join(f"({condition.sql})" for condition in conditions) or "0"
    return Condition(sql, tuple(value for condition in conditions for value in condition.values))


def _typed(item_types: Iterable[ItemType]) -> Condition:
    ranges = [
        Condition("items.key BETWEEN ? AND ?", (first_key(each), first_key(each) + KEYS_OF_A_TYPE - 1))
        for each in item_types
    ]
    return _joined(" OR ", ranges)


def _like(pattern: str) -> Condition:
    # In a GLOB only `[` has a meaning besides `*` and `?`.
    return Condition("items.item_id GLOB ?", (pattern.replace("[", "[[]"),))


def _filtered(name: str, value: str) -> Condition:
    if name == "tags":
        return Condition("instr(items.tags, ?) > 0", (f"\n{value}\n",))
    if name not in _FILTER_COLUMNS:
        return _NOTHING
    return Condition(f"items.{name} = ? COLLATE NOCASE", (value,))
