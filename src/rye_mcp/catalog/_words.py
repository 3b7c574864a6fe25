"""Text → words, as they are indexed and searched for; the same on both sides.

Rules:

- A word is a run of letters and digits, in lower case and without accents; signs such as ™ are neither.
  Scripts that put no blanks between words are taken character by character, so that a phrase of them finds
  what stands inside of a sentence.
- A name is indexed as it is written and in its parts: `convertToMP3` is `converttomp3`, `convert`, `to`,
  `mp3`. Whoever looks for it may write either.
- The n-grams of a word know where it begins and ends. They bring words together that share a stem which the
  stemmer does not see, or that differ by a slip.
- Question words say nothing about what is looked for. A sentence drops them, and nothing else does.

    >>> name_words("convertToMP3")
    ['converttomp3', 'convert', 'to', 'mp3']
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from string import ascii_lowercase
from sys import intern
from typing import Final

__all__ = [
    "GREETINGS",
    "MARKS",
    "MAX_WORD",
    "QUESTION_WORDS",
    "grams_of",
    "name_parts",
    "name_words",
    "sign_of",
    "words_of",
]

MAX_WORD: Final = 64
"""How many characters of a word count; what is longer is no word of a language."""

GRAM: Final = 3
"""How many characters an n-gram has, the marks of a beginning and an end among them."""

MARKS: Final = str.maketrans("^$", "  ")
"""What the beginning and the end of a word, in its n-grams, are among words with blanks between them."""

_SIGNED: Final = {character: number for number, character in enumerate("^$0123456789" + ascii_lowercase)}
_FIRST_SIGN: Final = 0x100
"""There is room for all signs between this and what is no character (U+D800)."""

_SYMBOL: Final = "S"
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_PLAIN_WORD = re.compile(rf"([a-z0-9]{{1,{MAX_WORD}}})[a-z0-9]*")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DIGITS_INSIDE = re.compile(r"(?<=[a-z])([0-9]+)(?=[a-z])")

_QUESTION_WORDS: Final = """
a about all also am an and any anybody anyone anything are as at be been being but by can could did
do does doing each either else every everything for from get getting give gives had has have having
he help her here hers him his how i if in into is it its just kindly know let like
looking many may maybe me might more most much must my myself need needed needs no not of off on one
onto or other our ours out over perhaps please provide really shall she should show so some somebody
someone something still such suggest tell than thank thanks that the their theirs them then there
these they thing things this those through to too try trying under until up upon us use used using
very via want wants was way we were what whats when where whether which while who whom whose why
will with within without wonder would yes yet you your yours d ll m re s t ve aren couldn didn doesn
don hadn hasn haven isn shouldn wasn weren won wouldn
"""

QUESTION_WORDS: Final = frozenset(_QUESTION_WORDS.split())
"""What a sentence is made of, and not what it is about."""


GREETINGS: Final = frozenset({"hello", "hey", "hi"})
"""What a sentence may begin with; a tool may be called so."""


def words_of(text: str) -> list[str]:
    """The words of a text, in its order."""
    lowered = text.lower()
    if lowered.isascii():  # as most texts are, and those are read twice as fast
        return _PLAIN_WORD.findall(lowered)
    return [word[:MAX_WORD] for word in _WORD.findall(_without_accents(lowered))]


def name_parts(name: str) -> list[str]:
    """The words that a name is put together from: split at capitals, digits and what is no letter."""
    spaced = _HUMPS.sub(" ", name)
    return words_of(_DIGITS_INSIDE.sub(r" \1 ", spaced.lower()))


def name_words(name: str) -> list[str]:
    """The words of a name as it is written, and those it is put together from when these are others."""
    if name.islower() and name.isascii() and name.isalpha():
        return [name[:MAX_WORD]]  # there is nothing to split at
    written, parts = words_of(name), name_parts(name)
    return written if written == parts else written + parts


@lru_cache(maxsize=65_536)
def grams_of(word: str) -> tuple[str, ...]:
    """The n-grams of a word, each once, in any order; of a short one, all of it."""
    marked = f"^{word}$"
    grams = {marked[at : at + GRAM] for at in range(max(1, len(marked) - GRAM + 1))}
    return tuple(map(intern, grams))  # many words share few


@lru_cache(maxsize=65_536)
def sign_of(gram: str) -> str:
    """The one character that stands for an n-gram, and for no other one; nothing when it has none.

    Those of Latin letters and digits have one, as of most words.

    One character is found in a text several times as quickly as three.
    """
    numbers = [_SIGNED[character] for character in gram if character in _SIGNED]
    if len(numbers) != GRAM or len(gram) != GRAM:
        return ""
    first, second, third = numbers
    return chr(_FIRST_SIGN + (first * len(_SIGNED) + second) * len(_SIGNED) + third)


def _without_accents(text: str) -> str:
    # Who looks for a Tool™ may leave the sign out: it is not taken for the letters that it stands for.
    plain = "".join(" " if unicodedata.category(each)[0] == _SYMBOL else each for each in text)
    decomposed = unicodedata.normalize("NFKD", plain)
    # What stands for a capital, as a letter of mathematics does, has no small form until it has become one.
    return "".join(each for each in decomposed if not unicodedata.combining(each)).lower()
