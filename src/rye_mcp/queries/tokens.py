"""Splits a query into its tokens: words, phrases, operators and parentheses.

Every character is read a fixed number of times. `refuse` says where a query is wrong.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum, auto
from typing import Final, NoReturn

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.queries.tree import FIELDS, Everything, Leaf, Near, Phrase, Prefix, Term

__all__ = [
    "MAX_NEAR_DISTANCE",
    "MAX_NEAR_WORDS",
    "OPERATORS",
    "Kind",
    "Token",
    "as_word",
    "printed",
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
    """The tokens of a printed text, in their order; RyeError `invalid_query` for an invalid NEAR."""
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
    word = as_word(chunk)
    if not word:
        return None
    written = _stripped(chunk, but=_EVERYTHING)
    if written.endswith(_EVERYTHING) and written.count(_EVERYTHING) == 1:
        return Prefix(word, field)
    return Term(word, field)


def as_word(chunk: str) -> str:
    """A word without the punctuation around it; nothing when there is no letter or digit in it."""
    return _stripped(chunk) if any(map(str.isalnum, chunk)) else ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for chunk in text.split() if (word := as_word(chunk)))


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
