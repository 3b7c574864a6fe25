"""Parses the query language: the text that somebody searches for becomes a tree.

    >>> parse("video AND (mp3 OR sound*)")
    And(parts=(Term(text='video', field=None), Or(parts=(Term(text='mp3', field=None), \
Prefix(text='sound', field=None)))))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from rye_mcp.errors import RyeError
from rye_mcp.language.words import words_of
from rye_mcp.queries.tokens import OPERATORS, Kind, Token, as_word, printed, read_tokens, refuse
from rye_mcp.queries.tree import And, Everything, Leaf, Near, Node, Not, Or, Phrase, Prefix, Query, Term

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_PREFIXES", "MAX_WORDS", "parse", "read_query"]

MAX_CHARACTERS: Final = 8192
"""How many characters a query may have."""

MAX_WORDS: Final = 256
"""How many words a query may have, with those of phrases and those that a word is put together from."""

MAX_PREFIXES: Final = 4
"""How many beginnings of words a query may have: each stands for any number of words."""

MAX_DEPTH: Final = 8
"""How deep parentheses may stand in each other; SQLite reads no expression that is a few times as deep."""

MAX_PHRASE: Final = 5
"""How many words a query in quotes may have that asks for a phrase; a longer one is a sentence in quotes."""

_PLAIN_CHUNK: Final = re.compile(r'[^\s"()]+')
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
    return read_query(text).tree


def read_query(text: str) -> Query:
    """The query that a text is; RyeError `invalid_query` when it makes no sense, or is too much.

    Plain text, without operators, always makes sense, and is cut where it is too long.
    """
    given, long = text, len(text)
    text = printed(text[: MAX_CHARACTERS + 1])
    if not text.strip() and long <= MAX_CHARACTERS:
        return Query(Everything())
    tokens = read_tokens(text)
    if _is_plain(tokens):
        return _plain_query(given, long)
    if long > MAX_CHARACTERS:
        raise RyeError(
            "invalid_query", f"expected a query of at most {MAX_CHARACTERS} characters, found {long}"
        )
    _require_within_limits(tokens)
    if _is_sentence(tokens):
        tokens = [token for token in tokens if token.kind is Kind.LEAF]
    if not tokens:
        refuse(text, "a word", "only punctuation", 0, len(text), hint=_WORD_HINT)
    reader = _Reader(text, tokens)
    tree = reader.either()
    reader.require_end()
    return Query(tree)


def _plain_query(text: str, long: int) -> Query:
    """The words of a text, as many as count; whatever stands between them is punctuation."""
    too_long = long > MAX_CHARACTERS
    shown = text[:MAX_CHARACTERS].rpartition(" ")[0] or text[:MAX_CHARACTERS] if too_long else text
    terms: list[Term] = []
    left, end = MAX_WORDS, 0
    for chunk in _PLAIN_CHUNK.finditer(printed(shown)):
        term = Term(as_word(chunk[0]))
        left, room = left - _count_words(term) if term.text else left, left
        if left < 0:
            terms = terms or [Term(chunk[0][:room])]  # in some languages, a character is a word
            break
        terms += [term] if term.text else []
        end = chunk.end()
    notice = None
    if left < 0 or too_long:
        most = f"{MAX_WORDS} words" if left < 0 else f"{MAX_CHARACTERS} characters"
        notice = f"only the beginning of the query was searched for: expected at most {most}, found more"
    return Query(_joined(Or, terms) if terms else Everything(), shown[:end] or terms[0].text, notice)


def _is_plain(tokens: Sequence[Token]) -> bool:
    """Whether a query is nothing but text: words without fields, and what may stand between them.

    Quotes are a phrase in a query of phrases alone, as long as they hold no whole sentence.
    """
    leaves = [token.leaf for token in tokens if token.kind is Kind.LEAF]
    if not _is_sentence(tokens) or any(_is_operator(leaf) for leaf in leaves):
        return False
    phrases = [leaf for leaf in leaves if isinstance(leaf, Phrase)]
    return any(isinstance(leaf, Term) for leaf in leaves) or any(
        len(phrase.words) > MAX_PHRASE for phrase in phrases
    )


def _is_operator(leaf: Leaf | None) -> bool:
    return isinstance(leaf, Prefix) or getattr(leaf, "field", None) is not None


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
