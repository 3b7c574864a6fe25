"""Text from outside as people and models may see it: nothing that a terminal obeys, nothing that hides.

A character hides if Unicode calls it Default_Ignorable or a format character (`unicode_tables`), if it is a
control, a separator of lines or half a surrogate pair, or if fonts draw nothing for it (`_BLANK`). Emoji stay
whole: one U+FE0F behind a base, U+200D between two of them. `find_hidden` is the same rule for signing.
A long text is read in pieces, between which other threads have their turn.

>>> visible("two\\nlines, \\x1b[2Jgone")
'two\\\\nlines, \\\\x1b[2Jgone'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from rye_mcp.unicode_tables import EMOJI, UNSEEN

__all__ = ["find_hidden", "visible", "visible_lines", "with_texts"]

_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_BLANK: Final = "\u2800\ufffc\U00016fe4\U0001d159"
"""Braille without dots, the place of an object, a filler and a note without a head."""

_PIECE_CHARACTERS: Final = 1 << 14
"""How long a piece of a text is, up to the end of an emoji."""

_LONGEST_EMOJI: Final = 64

_HIDING: Final = re.compile(f"[{_CONTROLS}{_BLANK}{UNSEEN}]")
_SKIN: Final = "\U0001f3fb-\U0001f3ff"
_TAGGED: Final = "\U0001f3f4\U000e0067\U000e0062(?:{})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(letter)) for letter in part) for part in ("eng", "sct", "wls"))
)
"""The flags of England, Scotland and Wales, the only emoji with tags in them."""


@cache
def _emoji_or_hiding() -> re.Pattern[str]:
    """A whole emoji, or as group 1 characters that hide; compiled only for a text that has one."""
    element = f"[{EMOJI}](?:\ufe0f|[{_SKIN}])?"
    joined = f"{element}(?:\u200d{element})*"
    return re.compile(f"{_TAGGED}|{joined}|[0-9#*]\ufe0f\u20e3|({_HIDING.pattern}+)")


@cache
def _between() -> re.Pattern[str]:
    """A place where no emoji goes on: not behind a joiner, and not before what belongs to an emoji."""
    return re.compile(f"(?<!\u200d)(?![\u200d\ufe0f\u20e3{_SKIN}\U000e0020-\U000e007f])")


def find_hidden(text: str) -> int | None:
    """The position of the first character that makes a text look other than it is, or None."""
    if _HIDING.search(text) is None:
        return None
    found = (each.start(1) for each in _emoji_or_hiding().finditer(text) if each[1])
    return next(found, None)


def visible(text: str) -> str:
    """The text as one line, with escapes for all that a terminal would obey or not show."""
    return visible_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_lines(text: str) -> str:
    """The same for the content of a file: its lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _seen(text) if len(text) <= _PIECE_CHARACTERS else "".join(map(_seen, _pieces(text)))


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = start + _PIECE_CHARACTERS
        between = _between().search(text, end, end + _LONGEST_EMOJI)
        end = between.start() if between else end + _LONGEST_EMOJI
        yield text[start:end]
        start = end


def _seen(text: str) -> str:
    return text if _HIDING.search(text) is None else _emoji_or_hiding().sub(_shown, text)


def with_texts(value: Any, text: Callable[[str], str]) -> Any:
    """A copy of data, with each text as `text` makes it."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {text(str(name)): with_texts(each, text) for name, each in value.items()}
    return [with_texts(each, text) for each in value] if isinstance(value, list | tuple) else value


def _shown(found: re.Match[str]) -> str:
    return _escape(found[1]) if found[1] else found[0]


def _escape(hiding: str) -> str:
    """Characters as Python writes them; but a carriage return has no letter of its own."""
    return hiding.encode("unicode_escape").decode("ascii").replace("\\r", "\\x0d")
