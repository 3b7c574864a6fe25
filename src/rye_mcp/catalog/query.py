"""The query language: the text that somebody searches for → a tree.

Rules:

- Words beside each other are one group: any of them. `AND`, `OR` and `NOT`, in capitals and as words of their
  own, stand between groups; `AND` and `NOT` bind closer than `OR`. Parentheses put groups together.
- Beside plain words a group can hold `"a phrase"`, `begin*`, `field:word`, `field:"a phrase"`,
  `field:(a group)` and `NEAR(two words, 5)`. Nothing at all, or `*`, is everything.
- A text in which no operator was written is a sentence. It is never wrong: its parentheses and its quotes
  without a partner are punctuation. (It has to hold a word, and stay within the limits.)
- What is wrong is RyeError `invalid_query`, with the column and the text around it.
- A tree says what is looked for and nothing about how: words stand in it as they were written, and whoever
  evaluates it splits, folds and stems them. No part of a query reaches an engine as it is.
- `And` and `Or` have two parts or more, no two the same, and none of their own kind.
- The time that it takes grows with the length of the text, and the length has a limit.

    >>> parse("video AND (mp3 OR sound*)")
    And(parts=(Term(text='video', field=None), Or(parts=(Term(text='mp3', field=None), \
Prefix(text='sound', field=None)))))
    >>> written(parse("turn this into an mp3, please!"))
    'turn OR this OR into OR an OR mp3 OR please'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from rye_mcp.catalog._query_tokens import (
    MAX_NEAR_DISTANCE,
    MAX_NEAR_WORDS,
    OPERATORS,
    Kind,
    Token,
    printed,
    read_tokens,
    refuse,
)
from rye_mcp.catalog._query_tree import (
    FIELDS,
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
)
from rye_mcp.catalog._words import words_of
from rye_mcp.errors import RyeError

__all__ = [
    "FIELDS",
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "MAX_NEAR_DISTANCE",
    "MAX_NEAR_WORDS",
    "MAX_PREFIXES",
    "MAX_WORDS",
    "And",
    "Everything",
    "Leaf",
    "Near",
    "Node",
    "Not",
    "Or",
    "Phrase",
    "Prefix",
    "Term",
    "parse",
    "written",
]

MAX_CHARACTERS: Final = 8192
"""How many characters a query may have."""

MAX_WORDS: Final = 256
"""How many words a query may have, with those of phrases and those that a word is put together from."""

MAX_PREFIXES: Final = 4
"""How many beginnings of words a query may have: each stands for any number of words."""

MAX_DEPTH: Final = 8
"""How deep parentheses may stand in each other; SQLite reads no expression that is a few times as deep."""

_WORD_HINT: Final = "search for a word, or for * to see everything"
_OPERATOR_HINT: Final = "for the words and, or, not: write them in small letters"
_PARENTHESIS_HINT: Final = "close every parenthesis, or leave them out"
_QUOTE_HINT: Final = "close the quotes, or leave them out"
_SHOWN: Final = {
    Kind.AND: "AND",
    Kind.OR: "OR",
    Kind.NOT: "NOT",
    Kind.OPEN: "(",
    Kind.CLOSE: ")",
    Kind.LONE_QUOTE: "quotes that nothing closes",
}


def parse(text: str) -> Node:
    """The tree of a query; RyeError `invalid_query` when it makes no sense, or is too much."""
    if len(text) > MAX_CHARACTERS:
        what = f"expected a query of at most {MAX_CHARACTERS} characters, found {len(text)}"
        raise RyeError("invalid_query", what)
    text = printed(text)
    if not text.strip():
        return Everything()
    tokens = read_tokens(text)
    _require_within_limits(tokens)
    if _is_sentence(tokens):
        tokens = [token for token in tokens if token.kind is Kind.LEAF]
    if not tokens:
        refuse(text, "a word", "only punctuation", 0, len(text), hint=_WORD_HINT)
    reader = _Reader(text, tokens)
    tree = reader.either()
    reader.require_end()
    return tree


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


def _require_within_limits(tokens: Iterable[Token]) -> None:
    leaves = [token.leaf for token in tokens if token.leaf is not None]
    words = sum(_count_words(leaf) for leaf in leaves)
    prefixes = sum(isinstance(leaf, Prefix) for leaf in leaves)
    for count, limit, what in ((words, MAX_WORDS, "words"), (prefixes, MAX_PREFIXES, "words with a *")):
        if count > limit:
            raise RyeError(
                "invalid_query",
                f"expected at most {limit} {what}, found {count}",
                hint="search for fewer words",
            )


def _count_words(leaf: Leaf) -> int:
    match leaf:
        case Everything():
            return 0
        case Phrase(words) | Near(words):
            return sum(max(1, len(words_of(word))) for word in words)
        case Term(text) | Prefix(text):
            return max(1, len(words_of(text)))


def _is_sentence(tokens: Iterable[Token]) -> bool:
    """Whether no operator was written; a field in front of a parenthesis is as good as one."""
    return not any(
        token.kind in OPERATORS.values() or token.field is not None or isinstance(token.leaf, Near)
        for token in tokens
    )


class _Reader:
    """The tokens of a query, and how far they were read; a method for each level of the grammar."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def either(self) -> Node:
        """What stands between `OR`, or all by itself."""
        parts = [self._both()]
        while self._take(Kind.OR):
            parts.append(self._both())
        return _joined(Or, parts)

    def require_end(self) -> None:
        """Refuse what was not read."""
        if self._at < len(self._tokens):
            self._refuse("a word or an operator")

    def _both(self) -> Node:
        """Groups with `AND` or `NOT` between them."""
        parts = [self._side()]
        while self._take(Kind.AND) or self._kind() is Kind.NOT:
            parts.append(self._side())
        return _joined(And, parts)

    def _side(self) -> Node:
        return Not(self._group()) if self._take(Kind.NOT) else self._group()

    def _group(self) -> Node:
        """What stands beside each other."""
        parts: list[Node] = []
        while (token := self._next()) is not None and token.kind in (Kind.LEAF, Kind.OPEN):
            self._at += 1
            part = token.leaf if token.kind is Kind.LEAF else self._in_parentheses(token)
            parts += [] if part is None else [part]
        if not parts:
            self._refuse("a word")
        named = [part for part in parts if not isinstance(part, Everything)]
        return _joined(Or, named) if named else parts[0]

    def _in_parentheses(self, opening: Token) -> Node | None:
        """What stands in the parentheses that were opened; None when that is nothing."""
        if self._take(Kind.CLOSE):
            return None
        if self._depth == MAX_DEPTH:
            expected = f"parentheses at most {MAX_DEPTH} deep"
            refuse(self._text, expected, "more", opening.start, opening.end, hint=_PARENTHESIS_HINT)
        self._depth += 1
        inside = self.either()
        self._depth -= 1
        if not self._take(Kind.CLOSE):
            if self._next() is None:
                found = "none before the end, for the one"
                refuse(self._text, "a )", found, opening.start, opening.end, hint=_PARENTHESIS_HINT)
            self._refuse("a word, an operator or a )")
        return inside if opening.field is None else _in_field(inside, opening.field)

    def _next(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _kind(self) -> Kind | None:
        token = self._next()
        return None if token is None else token.kind

    def _take(self, kind: Kind) -> bool:
        taken = self._kind() is kind
        self._at += taken
        return taken

    def _refuse(self, expected: str) -> NoReturn:
        """Refuse what comes next."""
        token = self._next()
        if token is None:
            end = len(self._text)
            refuse(self._text, expected, "the end", end, end, hint=_OPERATOR_HINT)
        hints = {Kind.LONE_QUOTE: _QUOTE_HINT, Kind.CLOSE: _PARENTHESIS_HINT}
        hint = hints.get(token.kind, _OPERATOR_HINT)
        refuse(self._text, expected, _SHOWN[token.kind], token.start, token.end, hint=hint)


def _joined(kind: type[And] | type[Or], parts: Iterable[Node]) -> Node:
    """The parts as one node: each once, and those of the same kind as parts of their own."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat |= dict.fromkeys(part.parts if isinstance(part, kind) else (part,))
    return kind(tuple(flat)) if len(flat) > 1 else next(iter(flat))


def _in_field(node: Node, field: str) -> Node:
    """The same in one field, where nothing else was said."""
    match node:
        case And(parts) | Or(parts):
            return _joined(type(node), [_in_field(part, field) for part in parts])
        case Not(part):
            return Not(_in_field(part, field))
        case Everything():
            return node
        case leaf:
            return leaf if leaf.field is not None else replace(leaf, field=field)


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
