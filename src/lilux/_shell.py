"""Where in a shell command a quoted value stands for itself: a scanner that would rather refuse than guess.

A value in single quotes is one inert word only where the shell reads words. The scanner follows the text of a
template and knows five states: plain text, single quotes, double quotes, a comment, and *lost*: after a
construct whose end it does not look for (a here-document, arithmetic, a substitution inside double quotes …)
it trusts nothing that follows. It reads only what the author of the template wrote, never a value.

Some shells evaluate array subscripts and numbers of `[[ … ]]` even when they are quoted, so these count as
constructs too.

What a word then means to the command that gets it is the author's affair. `eval {p}`, `sh -c {p}` and
`trap {p} EXIT` run it and, in bash, `let {p}`, `declare -i x={p}` and `printf -v {p}` evaluate it, quoted or
not: hand such values over as data, or not at all.
"""

from __future__ import annotations

from lilux.primitives.errors import ConfigurationError

__all__ = ["Scanner"]

PLAIN, SINGLE, DOUBLE, COMMENT, LOST = "plain", "single quotes", "double quotes", "a comment", "lost"

_WORD_BEGINS_AFTER = frozenset(["", " ", "\t", "\n", ";", "&", "|", "("])
_IN_WORD = "'"
"""Stands for whatever was just read and can be no part of an operator: something quoted, or a value."""

_LOSING_IN_PLAIN = {
    "`": "a backquote",
    "<<": "a here-document",
    "((": "arithmetic",
    "$[": "arithmetic",
    "=(": "an array",
    "[[": "[[",
    "$'": "$'…'",
    "${": "${…}",
    ")#": "a # that may begin a comment",
    "<#": "a # that may begin a comment",
    ">#": "a # that may begin a comment",
}
_LOSING_IN_DOUBLE = {
    "`": "a backquote",
    "$(": "a substitution inside double quotes",
    "${": "${…} inside double quotes",
}

_UNQUOTE = "remove the quotes, the value is quoted for you"
_HAND_OVER = 'put it before that, or hand the value over in args and write "$1"'


class Scanner:
    """Follows a shell command piece by piece: `feed` the author's text, `check_word` where a value goes."""

    def __init__(self) -> None:
        self._state = PLAIN
        self._escaped = False
        self._last = ""
        self._lost_after = ""

    def feed(self, text: str) -> None:
        """Go on over text that the author wrote."""
        for char in text:
            if self._escaped:
                self._after_backslash(char)
            else:
                _STEPS[self._state](self, char)

    def check_word(self, placeholder: str) -> None:
        """Go on after a quoted value; ConfigurationError when quoting would not protect it here."""
        problem = self._problem()
        if problem is not None:
            where, remedy = problem
            raise ConfigurationError(
                f"{placeholder} stands {where} in a shell command: {remedy}", field="command"
            )
        self._last = _IN_WORD

    def _problem(self) -> tuple[str, str] | None:
        if self._state == LOST:
            return f"after {self._lost_after}", _HAND_OVER
        if self._escaped:
            return "after a backslash", "remove it, the value is quoted for you"
        if self._state == COMMENT:
            return "inside a comment", "remove it"
        if self._state != PLAIN:
            return f"inside {self._state}", _UNQUOTE
        if self._last == "$":
            return "after a dollar sign", "remove the dollar sign"
        return None

    def _after_backslash(self, char: str) -> None:
        self._escaped = False
        if char != "\n":  # which the shell removes together with the backslash
            self._last = _IN_WORD

    def _plain(self, char: str) -> None:
        losing = _LOSING_IN_PLAIN.get(char) or _LOSING_IN_PLAIN.get(self._last + char)
        if losing is not None:
            self._lose(losing)
        elif char == "[" and (self._last.isalnum() or self._last == "_"):
            self._lose("a subscript")
        elif char == "\\":
            self._escaped = True
        elif char == "#" and self._last in _WORD_BEGINS_AFTER:
            self._state = COMMENT
        elif char in _QUOTES:
            self._state, self._last = _QUOTES[char], _IN_WORD
        else:
            self._last = char

    def _single(self, char: str) -> None:
        if char == "'":
            self._state = PLAIN

    def _double(self, char: str) -> None:
        losing = _LOSING_IN_DOUBLE.get(char) or _LOSING_IN_DOUBLE.get(self._last + char)
        if losing is not None:
            self._lose(losing)
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._state, self._last = PLAIN, _IN_WORD
        else:
            self._last = char

    def _comment(self, char: str) -> None:
        if char == "\n":
            self._state, self._last = PLAIN, char

    def _lose(self, construct: str) -> None:
        self._state, self._lost_after = LOST, construct

    def _lost(self, char: str) -> None:
        """Whatever comes, it is not understood any more."""


_QUOTES = {"'": SINGLE, '"': DOUBLE}
_STEPS = {
    PLAIN: Scanner._plain,
    SINGLE: Scanner._single,
    DOUBLE: Scanner._double,
    COMMENT: Scanner._comment,
    LOST: Scanner._lost,
}
