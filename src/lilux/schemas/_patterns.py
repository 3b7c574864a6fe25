"""Regular expressions of JSON Schema: those of JavaScript (ECMA-262), matched by `regex` within a time limit.

A pattern is translated for `regex`, so that it means what it means in JavaScript; its size is limited.
Matching backtracks, hence the time limit: RE2 would need none, but has no look-around.

    >>> matches(r"^\\d{3}$", "123", timeout_s=0.1), matches(r"^\\d{3}$", "123\\n", timeout_s=0.1)
    (True, False)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import regex

__all__ = ["PatternError", "compile_pattern", "matches", "translate"]

LENGTH_LIMIT: Final = 8192
"""Characters of a pattern."""

SIZE_LIMIT: Final = 10_000
"""Characters of a pattern after every repetition that must be there is written out."""

DIGITS_LIMIT: Final = 6
"""Digits of a number of repetitions."""

DEPTH_LIMIT: Final = 50
"""Groups inside each other."""

SPACES: Final = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
WORDS: Final = "0-9A-Z_a-z"
LAST: Final = "\\U0010ffff"

CLASSES: Final = {
    "d": "0-9",
    "D": f"\\x00-/:-{LAST}",
    "w": WORDS,
    "W": f"\\x00-/:-@\\[-\\^`{{-{LAST}",
    "s": SPACES,
    "S": (
        "\\x00-\\x08\\x0e-\\x1f!-\\x9f\\u00a1-\\u167f\\u1681-\\u1fff\\u200b-\\u2027\\u202a-\\u202e"
        f"\\u2030-\\u205e\\u2060-\\u2fff\\u3001-\\ufefe\\uff00-{LAST}"
    ),
}
"""The characters of each kind, as the inside of a set."""

CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}

AT_WORD_EDGE: Final = f"(?:(?<=[{WORDS}])(?![{WORDS}])|(?<![{WORDS}])(?=[{WORDS}]))"
IN_OR_OUT_OF_WORD: Final = f"(?:(?<=[{WORDS}])(?=[{WORDS}])|(?<![{WORDS}])(?![{WORDS}]))"
ASSERTIONS: Final = {"b": AT_WORD_EDGE, "B": IN_OR_OUT_OF_WORD}

_GROUP = re.compile(r"\((?:\?(?::|=|!|<=|<!|<([A-Za-z_][A-Za-z0-9_]*)>))?")
_QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(?:,(\d*))?\}", re.ASCII)
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|c([A-Za-z])")
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_PROPERTY = re.compile(r"[pP]\{[A-Za-z_]+(?:=[A-Za-z_]+)?\}")
_NUMBERED_REFERENCE = re.compile(r"[1-9]\d?", re.ASCII)
_NAMED_REFERENCE = re.compile(r"k<([A-Za-z_][A-Za-z0-9_]*)>")


class PatternError(ValueError):
    """Not a regular expression of JavaScript, or one that is too large."""


def matches(pattern: str, text: str, *, timeout_s: float) -> bool:
    """Whether a pattern is found anywhere in a text; TimeoutError when that takes too long to tell."""
    return compile_pattern(pattern).search(text, timeout=timeout_s) is not None


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """A compiled pattern; PatternError if it is invalid."""
    import regex

    translated = translate(pattern)
    try:
        return regex.compile(translated, regex.VERSION0, cache_pattern=False)
    except (regex.error, RecursionError, OverflowError) as exc:
        raise PatternError(f"expected a regular expression, found {pattern!r:.80}: {exc}") from exc


def translate(pattern: str) -> str:
    """The same for the `regex` package."""
    if len(pattern) > LENGTH_LIMIT:
        raise PatternError(f"expected a pattern of at most {LENGTH_LIMIT} characters, found {len(pattern)}")
    return _Translation(pattern).whole()


class _Translation:
    """One pattern on its way: `_at` is where reading goes on, `_out` what was written."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._sizes = [0]  # of the groups that are open, the outermost first
        self._last = 0  # the size of what a quantifier would repeat; 0 when there is nothing to repeat

    def whole(self) -> str:
        """The whole pattern, translated."""
        while self._at < len(self._pattern):
            self._next()
            if self._sizes[-1] > SIZE_LIMIT:
                raise self._wrong(f"at most {SIZE_LIMIT} characters with all repetitions written out")
        if len(self._sizes) > 1:
            raise self._wrong("a closing parenthesis")
        return "".join(self._out)

    def _next(self) -> None:
        char = self._pattern[self._at]
        quantifier = _QUANTIFIER.match(self._pattern, self._at)
        if quantifier is not None:
            self._quantifier(quantifier)
        elif char in _READERS:
            _READERS[char](self)
        else:
            self._at += 1
            self._atom(_escaped(char))

    def _atom(self, text: str, size: int = 1) -> None:
        """Write something that can be repeated."""
        self._out.append(text)
        self._sizes[-1] += size
        self._last = size

    def _mark(self, text: str) -> None:
        """Write something that cannot."""
        self._at += 1
        self._out.append(text)
        self._last = 0

    def _quantifier(self, found: re.Match[str]) -> None:
        if not self._last:
            raise self._wrong("something to repeat")
        if max(len(found[1] or ""), len(found[2] or "")) > DIGITS_LIMIT:
            raise self._wrong(f"numbers of at most {DIGITS_LIMIT} digits")
        least = int(found[1] or 0)
        if found[2] and int(found[2]) < least:
            raise self._wrong("repetitions in ascending order")
        self._sizes[-1] += self._last * max(0, least - 1)
        self._last = 0
        self._at = found.end()
        lazy = self._pattern.startswith("?", self._at)
        self._at += lazy
        self._out.append(found[0] + "?" * lazy)

    def _dot(self) -> None:
        self._at += 1
        self._atom("[^\\n\\r\\u2028\\u2029]")

    def _open(self) -> None:
        found = _GROUP.match(self._pattern, self._at)
        if found is None or self._pattern.startswith("?", found.end()):
            raise self._wrong("a group of JavaScript")
        if len(self._sizes) > DEPTH_LIMIT:
            raise self._wrong(f"at most {DEPTH_LIMIT} groups inside each other")
        self._at = found.end()
        self._out.append(found[0] if found[1] is None else f"(?P<{found[1]}>")
        self._sizes.append(1)
        self._last = 0

    def _close(self) -> None:
        if len(self._sizes) == 1:
            raise self._wrong("a group before its closing parenthesis")
        self._at += 1
        self._atom(")", self._sizes.pop())

    def _escape(self) -> None:
        self._at += 1
        letter = self._pattern[self._at : self._at + 1]
        numbered = _NUMBERED_REFERENCE.match(self._pattern, self._at)
        reference = numbered or _NAMED_REFERENCE.match(self._pattern, self._at)
        if letter in ASSERTIONS:
            self._mark(ASSERTIONS[letter])
        elif reference is not None:
            self._at = reference.end()
            self._atom(f"\\g<{reference[0] if numbered else reference[1]}>")
        else:
            kind = self._kind()
            self._atom(_escaped(self._character()) if kind is None else f"[{kind}]")

    def _kind(self) -> str | None:
        """The set that an escape (from behind its backslash) stands for, if it stands for one."""
        letter = self._pattern[self._at : self._at + 1]
        if letter in CLASSES:
            self._at += 1
            return CLASSES[letter]
        found = _PROPERTY.match(self._pattern, self._at)
        if found is None:
            return None
        self._at = found.end()
        return f"\\{found[0]}"

    def _character(self) -> str:
        """The one character that an escape (from behind its backslash) stands for."""
        found = _CODE.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
            return self._code(found)
        letter = self._pattern[self._at : self._at + 1]
        if letter in CONTROLS and letter:
            self._at += 1
            return CONTROLS[letter]
        if not letter or letter.isalnum():
            raise self._wrong("an escape of JavaScript")
        self._at += 1
        return letter

    def _code(self, found: re.Match[str]) -> str:
        if found[4] is not None:
            return chr(ord(found[4]) % 32)
        code = int(found[1] or found[2] or found[3], 16)
        low = _LOW_SURROGATE.match(self._pattern, self._at)
        if found[2] is not None and 0xD800 <= code < 0xDC00 and low is not None:
            self._at = low.end()
            code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        if code > 0x10FFFF:
            raise self._wrong("a code point of Unicode")
        return chr(code)

    def _set(self) -> None:
        negated = self._pattern.startswith("^", self._at + 1)
        self._at += 1 + negated
        inside: list[str] = []
        while not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise self._wrong("a closing bracket")
            inside.append(self._range())
        self._at += 1
        if inside:
            self._atom(f"[{'^' * negated}{''.join(inside)}]")
        else:
            self._atom(f"[\\x00-{LAST}]" if negated else "(?!)")

    def _range(self) -> str:
        first, kind = self._member()
        following = self._pattern[self._at : self._at + 2]
        if not following.startswith("-") or following in {"-]", "-"}:
            return kind or _escaped(first)
        self._at += 1
        last, other = self._member()
        if kind is not None or other is not None:  # a hyphen beside a kind of characters is only a hyphen
            return f"{kind or _escaped(first)}\\-{other or _escaped(last)}"
        if first > last:
            raise self._wrong("a range in ascending order")
        return f"{_escaped(first)}-{_escaped(last)}"

    def _member(self) -> tuple[str, str | None]:
        """A character of a set, or a kind of characters."""
        char = self._pattern[self._at]
        self._at += 1
        if char != "\\":
            return char, None
        if self._pattern.startswith("b", self._at):
            self._at += 1
            return "\b", None
        kind = self._kind()
        return ("", kind) if kind is not None else (self._character(), None)

    def _wrong(self, expected: str) -> PatternError:
        shown = self._pattern if len(self._pattern) <= 80 else f"{self._pattern[:80]}…"
        return PatternError(f"expected {expected} at character {self._at + 1} of the pattern {shown!r}")


def _escaped(char: str) -> str:
    """A character that stands for itself, inside a set and outside."""
    return char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}"


_READERS: Final[dict[str, Callable[[_Translation], None]]] = {
    "\\": _Translation._escape,
    "(": _Translation._open,
    ")": _Translation._close,
    "[": _Translation._set,
    ".": _Translation._dot,
    "^": lambda self: self._mark("\\A"),
    "$": lambda self: self._mark("\\Z"),
    "|": lambda self: self._mark("|"),
}
