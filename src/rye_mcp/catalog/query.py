"""Parses the query language: the text that somebody searches for becomes a tree.

The rules of the language are in `docs/architecture/search.md`.

    >>> parse("video AND (mp3 OR sound*)")
    And(parts=(Term(text='video', field=None), Or(parts=(Term(text='mp3', field=None), \
Prefix(text='sound', field=None)))))
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Final, NoReturn

from lilux._dataclasses import dataclass
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
    Query,
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
    "OPERATORS",
    "And",
    "Everything",
    "Kind",
    "Leaf",
    "Near",
    "Node",
    "Not",
    "Or",
    "Phrase",
    "Prefix",
    "Query",
    "Term",
    "Token",
    "parse",
    "printed",
    "read_query",
    "read_tokens",
    "refuse",
]

DEFAULT_NEAR_DISTANCE: Final = 10
"""How many words may stand between those of a NEAR that says nothing about it."""

MAX_NEAR_DISTANCE: Final = 1000
"""How many words a NEAR may let stand between."""

MAX_NEAR_WORDS: Final = 16
"""How many words a NEAR may have: what it takes to compare their places grows with the square."""

_SHOWN_CHARACTERS: Final = 32
"""How much of a query is shown of what is wrong, before it and behind it."""

_PLAIN_QUOTES: Final = str.maketrans("\u201c\u201d\u201e", '"""')
_PLAIN_CHUNK: Final = re.compile(r'[^\s"()]+')
_CHUNK: Final = re.compile(r'["()]|[^ "()]+')
_FIELD: Final = re.compile(rf"({'|'.join(FIELDS)}):")
_EVERYTHING = "*"
_NEAR = "NEAR"


class Kind(Enum):
    """What a token is."""

    LEAF = auto()
    OPEN = auto()
    CLOSE = auto()
    AND = auto()
    OR = auto()
    NOT = auto()
    LONE_QUOTE = auto()


OPERATORS: Final = {"AND": Kind.AND, "OR": Kind.OR, "NOT": Kind.NOT}
"""How operators are written: like this, and as a word of their own."""


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a query, from one character up to another one.

    `leaf` is what a LEAF is; `field` is what was written in front of an OPEN.
    """

    kind: Kind
    start: int
    end: int
    leaf: Leaf | None = None
    field: str | None = None


def printed(text: str) -> str:
    """The text with blanks for what cannot be printed, and quotes of one kind."""
    plain = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return plain.translate(_PLAIN_QUOTES)


def read_tokens(text: str) -> list[Token]:
    """The tokens of a printed text, in their order; RyeError `invalid_query` for a NEAR that is none."""
    scanner = _Scanner(text)
    found: list[Token] = []
    while (chunk := _CHUNK.search(scanner.text, scanner.position)) is not None:
        token = scanner.read(chunk)
        if token is not None:
            found.append(token)
    return found


def refuse(text: str, expected: str, found: str, start: int, end: int, *, hint: str) -> NoReturn:
    """Refuse a query for what stands in it from one character up to another one."""
    before, behind = text[max(0, start - _SHOWN_CHARACTERS) : start], text[end : end + _SHOWN_CHARACTERS]
    shown = f"{before}>>>{text[start:end][:_SHOWN_CHARACTERS]}<<<{behind}"
    raise RyeError(
        "invalid_query",
        f"expected {expected}, found {found} in column {start + 1}: {shown}",
        hint=hint,
        column=start + 1,
    )


class _Scanner:
    """A query, and how far it was read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def read(self, chunk: re.Match[str]) -> Token | None:
        """The token that begins here; None for what is only punctuation."""
        start, self.position = chunk.span()
        match chunk[0]:
            case '"':
                return self._phrase(start)
            case "(":
                return Token(Kind.OPEN, start, self.position)
            case ")":
                return Token(Kind.CLOSE, start, self.position)
            case word if word in OPERATORS and not self._follows_comma(start):
                return Token(OPERATORS[word], start, self.position)
            case word:
                return self._word(word, start)

    def _word(self, word: str, start: int) -> Token | None:
        if word == _EVERYTHING:
            return self._leaf(Everything(), start)
        if (found := _FIELD.match(word)) and (token := self._of_field(found[1], word[found.end() :], start)):
            return token
        if word == _NEAR and self._comes("("):
            return self._leaf(self._near(start, None), start)
        leaf = _word_or_prefix(word, None)
        return None if leaf is None else self._leaf(leaf, start)

    def _of_field(self, field: str, rest: str, start: int) -> Token | None:
        """What is asked of one field; None when nothing is, and this is only a word with a colon."""
        if rest == _NEAR and self._comes("("):
            return self._leaf(self._near(start, field), start)
        if rest:
            leaf = _word_or_prefix(rest, field)
            return None if leaf is None else self._leaf(leaf, start)
        if self._comes("("):
            self.position += 1
            return Token(Kind.OPEN, start, self.position, field=field)
        if self._comes('"'):
            self.position += 1
            return self._phrase(start, field)
        return None

    def _phrase(self, start: int, field: str | None = None) -> Token | None:
        """What stands in quotes, the first of which was read."""
        end = self.text.find('"', self.position)
        if end < 0:
            return Token(Kind.LONE_QUOTE, start, self.position)
        words = _words(self.text[self.position : end])
        self.position = end + 1
        return self._leaf(Phrase(words, field), start) if words else None

    def _near(self, start: int, field: str | None) -> Near:
        """The words of a NEAR, whose parenthesis comes next, and how far they may be from each other."""
        hint = "write it as NEAR(two words, 5)"
        end = self.text.find(")", self.position)
        if end < 0:
            refuse(self.text, "a ) that ends the NEAR", "none", start, self.position + 1, hint=hint)
        inside = self.text[self.position + 1 : end]
        self.position = end + 1
        listed, comma, number = inside.rpartition(",") if "," in inside else (inside, "", "")
        words = _words(listed)
        if len(words) < 2:
            refuse(self.text, "two words or more in NEAR", f"{len(words)}", start, end + 1, hint=hint)
        if len(words) > MAX_NEAR_WORDS:
            expected = f"at most {MAX_NEAR_WORDS} words in NEAR"
            refuse(self.text, expected, f"{len(words)}", start, end + 1, hint=hint)
        distance = _distance(number.strip()) if comma else DEFAULT_NEAR_DISTANCE
        if distance is None:
            expected = f"a number up to {MAX_NEAR_DISTANCE} behind the comma of NEAR"
            refuse(self.text, expected, "something else", start, end + 1, hint=hint)
        return Near(words, distance, field)

    def _follows_comma(self, start: int) -> bool:
        """Whether a comma and a blank come before, as in an address: `Portland, OR`."""
        return self.text.endswith(", ", 0, start)

    def _comes(self, character: str) -> bool:
        return self.text.startswith(character, self.position)

    def _leaf(self, leaf: Leaf, start: int) -> Token:
        return Token(Kind.LEAF, start, self.position, leaf)


def _word_or_prefix(chunk: str, field: str | None) -> Leaf | None:
    word = _as_word(chunk)
    if not word:
        return None
    written = _stripped(chunk, but=_EVERYTHING)
    if written.endswith(_EVERYTHING) and written.count(_EVERYTHING) == 1:
        return Prefix(word, field)
    return Term(word, field)


def _as_word(chunk: str) -> str:
    """A word without the punctuation around it; nothing when there is no letter or digit in it."""
    return _stripped(chunk) if any(map(str.isalnum, chunk)) else ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for chunk in text.split() if (word := _as_word(chunk)))


def _distance(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NEAR_DISTANCE))):
        return None
    return int(text) if int(text) <= MAX_NEAR_DISTANCE else None


def _stripped(chunk: str, *, but: str = "") -> str:
    start, end = 0, len(chunk)
    while start < end and _is_punctuation(chunk[start], but):
        start += 1
    while end > start and _is_punctuation(chunk[end - 1], but):
        end -= 1
    return chunk[start:end]


def _is_punctuation(character: str, but: str) -> bool:
    return character not in ("_", but) and unicodedata.category(character)[0] in "PS"


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
        term = Term(_as_word(chunk[0]))
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
