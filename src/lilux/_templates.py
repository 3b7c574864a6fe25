"""Templates: `${VAR:-default}` from the environment and `{param}` from parameters, filled in one pass.

Rules:

- The text is taken apart once, into literal text, references to the environment and parameters; then the
  values are put in. A value is never looked at again, so that nothing in it is ever a placeholder.
- `${VAR}` of an unset variable is empty. `${VAR:-default}` is the default when the variable is unset or
  empty, as in `sh`. A default goes to its own closing brace (braces balance) and is template text itself.
- Names of variables are `[A-Za-z_][A-Za-z0-9_]*`; names of parameters may hold `.` and `-` too (and are
  looked up as they stand: no path into a structure). Whatever else stands in braces, and a `{name}` without a
  parameter, stays as it is: JSON, `awk` and `${var%suffix}` need no escape.
- `str` goes in as it is, `None` as nothing, every other value as compact JSON.
- In a shell command (`render_shell`) each value is one quoted word. Quoting protects only where the shell
  expects a word, so a placeholder elsewhere, inside quotes say, is refused by `lilux._shell`.

    >>> render("${GREETING:-Hello}, {name}", {}, {"name": "{GREETING} ${HOME}"})
    'Hello, {GREETING} ${HOME}'
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from lilux import _shell
from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError

__all__ = [
    "EnvironmentReference",
    "Parameter",
    "Placeholder",
    "Template",
    "parse",
    "placeholders",
    "render",
    "render_shell",
    "render_tree",
]

MAX_DEFAULT_DEPTH = 16
"""How many defaults may stand inside each other."""

MAX_FILLED_CHARACTERS = 64 << 20
"""How long a text may become by its values: what is small and names a large one many times becomes huge."""

CACHED_TEMPLATE_CHARACTERS = 4096
"""Longer texts are parsed again each time, so that the cache stays small."""

_OPENING = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(:-|\}))?|\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_BRACES = re.compile(r"[{}]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

Environment = Mapping[str, str]
Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A `{name}` in a template."""

    name: str

    @property
    def source(self) -> str:
        """The placeholder as it stands in the text."""
        return "{" + self.name + "}"

    def value(self, env: Environment, params: Parameters) -> str | None:
        """The value for this place; None when there is no such parameter."""
        if self.name not in params:
            return None
        return _text_of(params[self.name], self.source)


@dataclass(frozen=True, slots=True)
class EnvironmentReference:
    """A `${NAME}` or `${NAME:-default}` in a template."""

    name: str
    default: Template | None

    @property
    def source(self) -> str:
        """The placeholder in short, without its default."""
        return "${" + self.name + "}"

    def value(self, env: Environment, params: Parameters) -> str:
        """The variable, else the default, else nothing."""
        default = self.used_default(env)
        return env.get(self.name, "") if default is None else default.render(env, params)

    def used_default(self, env: Environment) -> Template | None:
        """The default, when there is one and the variable is unset or empty."""
        return None if env.get(self.name) else self.default


Placeholder = Parameter | EnvironmentReference
Segment = str | Placeholder


@dataclass(frozen=True, slots=True)
class Template:
    """A text that was taken apart."""

    segments: tuple[Segment, ...]

    def render(self, env: Environment, params: Parameters) -> str:
        """The text with its values put in as they are."""
        return "".join(text for text, _ in self._filled(env, params))

    def render_shell(self, env: Environment, params: Parameters) -> str:
        """The text with its values put in as quoted words; ConfigurationError where that is unsafe."""
        scanner = _shell.Scanner()
        pieces: list[str] = []
        for text, placeholder in self._filled(env, params):
            if placeholder is None:
                scanner.feed(text)
                pieces.append(text)
            else:
                scanner.check_word(placeholder.source)
                pieces.append(shlex.quote(text))
        return "".join(pieces)

    def pieces(self, env: Environment, params: Parameters) -> Iterator[tuple[str, Placeholder | None]]:
        """Text of the template, and each value with the placeholder that it stands for.

        For who treats a value by where it lands. A default is text of the template; values in it are values.
        """
        for text, placeholder in self._filled(env, params):
            default = placeholder.used_default(env) if isinstance(placeholder, EnvironmentReference) else None
            if default is None:
                yield text, placeholder
            else:
                yield from default.pieces(env, params)

    def _filled(self, env: Environment, params: Parameters) -> Iterator[tuple[str, Placeholder | None]]:
        """The same, but a default that is used is a value as a whole."""
        room = MAX_FILLED_CHARACTERS
        for segment in self.segments:
            if isinstance(segment, str):
                yield segment, None
                continue
            value = segment.value(env, params)
            room -= len(value or "")
            if room < 0:
                raise _too_long()
            yield (segment.source, None) if value is None else (value, segment)


def render(text: str, env: Environment, params: Parameters) -> str:
    """Fill `text` once."""
    return parse(text).render(env, params) if "{" in text else text


def render_shell(text: str, env: Environment, params: Parameters) -> str:
    """Fill a shell command once, every value as one quoted word."""
    return parse(text).render_shell(env, params) if "{" in text else text


def render_tree(value: Any, env: Environment, params: Parameters) -> Any:
    """Fill every string in a structure; one that is nothing but a known `{param}` keeps its value's type."""
    return _Tree(env, params).filled(value)


@dataclass(slots=True)
class _Tree:
    """The values for a structure, and how much longer its texts may become together."""

    env: Environment
    params: Parameters
    room: int = MAX_FILLED_CHARACTERS

    def filled(self, value: Any) -> Any:
        """A structure, or a part of one."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {key: self.filled(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.filled(item) for item in value]
        return value

    def _text(self, text: str) -> Any:
        match parse(text).segments:
            case (Parameter(name),) if name in self.params:
                return self.params[name]
        filled = render(text, self.env, self.params)
        self.room -= len(filled) - len(text)
        if self.room < 0:
            raise _too_long()
        return filled


def _too_long() -> ConfigurationError:
    return ConfigurationError(f"expected at most {MAX_FILLED_CHARACTERS} characters of values, found more")


def placeholders(text: str) -> frozenset[Placeholder]:
    """Every placeholder of a text, those in defaults too."""
    if "{" not in text:
        return frozenset()
    found: set[Placeholder] = set()
    pending = [parse(text)]
    while pending:
        for segment in pending.pop().segments:
            if isinstance(segment, str):
                continue
            found.add(segment)
            if isinstance(segment, EnvironmentReference) and segment.default is not None:
                pending.append(segment.default)
    return frozenset(found)


def parse(text: str) -> Template:
    """Take a text apart."""
    return _parse_cached(text) if len(text) <= CACHED_TEMPLATE_CHARACTERS else _parse(text)


def _parse(text: str) -> Template:
    return Template(tuple(_segments(text, 0, len(text), _closing_braces(text), 0)))


_parse_cached = lru_cache(maxsize=1024)(_parse)


def _closing_braces(text: str) -> dict[int, int]:
    """The closing brace of each opening one, found in one walk whatever the nesting."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACES.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            pairs[opened.pop()] = brace.start()
    return pairs


def _segments(text: str, start: int, end: int, closing: Mapping[int, int], depth: int) -> Iterator[Segment]:
    if depth > MAX_DEFAULT_DEPTH:
        raise ConfigurationError(f"expected at most {MAX_DEFAULT_DEPTH} defaults inside each other")
    literal = position = start
    while (found := _OPENING.search(text, position, end)) is not None:
        position = found.end()
        placeholder, after = _placeholder(text, found, closing, depth)
        if placeholder is None:
            continue
        if literal < found.start():
            yield text[literal : found.start()]
        yield placeholder
        literal = position = after
    if literal < end:
        yield text[literal:end]


def _placeholder(
    text: str, found: re.Match[str], closing: Mapping[int, int], depth: int
) -> tuple[Segment | None, int]:
    """The placeholder that begins here and where the text goes on; None when it is only text after all."""
    variable, mark, parameter = found.groups()
    if parameter is not None:
        return Parameter(parameter), found.end()
    if mark == "}":
        return EnvironmentReference(variable, None), found.end()
    close = closing.get(found.start() + 1)
    if mark is None or close is None:
        return None, found.end()
    default = Template(tuple(_segments(text, found.end(), close, closing, depth + 1)))
    return EnvironmentReference(variable, default), close + 1


def _text_of(value: Any, source: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return str(value) if type(value) is int else _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ConfigurationError(
            f"expected a value that JSON can hold for {source}, found {type(value).__name__}: {exc}",
            field=source,
        ) from exc
