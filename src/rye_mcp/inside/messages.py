"""The messages of a program that asks for calls, and the answers: one JSON object a line.

Nothing here reads, writes or waits. A line that is no request is a RyeError `malformed_call`. The protocol is
described in docs/programs.md.

    >>> read_request(b'{"id": 1, "call": "demo/hello", "parameters": {"name": "Ada"}}')
    Request(id=1, kind='call', what='demo/hello', parameters={'name': 'Ada'}, options={})
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, Literal

from lilux import _json
from lilux._dataclasses import dataclass
from lilux._json import MAX_VALUES, ValueCount
from rye_mcp.errors import RyeError, kind

__all__ = [
    "MAX_LINE_BYTES",
    "MAX_READ_BYTES",
    "Kind",
    "Request",
    "answer_line",
    "failure_line",
    "read_request",
]

Kind = Literal["call", "search", "describe", "read", "channel"]

MAX_LINE_BYTES: Final = 4 << 20
"""How long one line may be."""

MAX_READ_BYTES: Final = 1 << 20
"""How many bytes of a result are read at once."""

_MAX_ID: Final = 2**53 - 1
_MAX_OFFSET: Final = 2**53 - 1
_MAX_TIMEOUT_S: Final = 1e9
_MAX_HITS: Final = 100


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a program.

    `what` is the id of a tool, the words to search for, or the handle to read; `options` is what else it may
    say, where it said it (see `_OPTIONS`).
    """

    id: int
    kind: Kind
    what: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def option(self, name: str, default: Any = None) -> Any:
        """What it said, or what holds without it."""
        return self.options.get(name, default)


def read_request(line: bytes) -> Request:
    """The request of a line, without its end; RyeError `malformed_call`, with the id where it has one."""
    if len(line) > MAX_VALUES and not ValueCount().feed(line):
        raise _malformed(f"expected at most {MAX_VALUES} values in a line, found more")
    try:
        value = _json.decode(line)
    except ValueError as exc:
        raise _malformed(f"expected one JSON object on a line, found none: {exc}") from exc
    if not isinstance(value, dict):
        raise _malformed(f"expected one JSON object on a line, found {kind(value)}")
    if value == {"channel": True}:
        return Request(0, "channel", "")
    number = value.get("id")
    if type(number) is not int or not 0 <= number <= _MAX_ID:
        raise _malformed(f"expected a whole number as id, found {kind(number)}")
    asked = [name for name in _OPTIONS if name in value]
    if len(asked) != 1:
        raise _malformed(f"expected one of {', '.join(_OPTIONS)}, found {', '.join(asked) or 'none'}", number)
    return _request(number, asked[0], value)


def _request(number: int, asked: Any, value: dict[str, Any]) -> Request:
    allowed = _OPTIONS[asked]
    options = {name: each for name, each in value.items() if name not in ("id", asked)}
    unknown = sorted(options.keys() - allowed)
    if unknown:
        raise _malformed(f"expected nothing else beside {asked}, found {', '.join(unknown)!a:.200}", number)
    if not isinstance(value[asked], str):
        raise _malformed(f"expected text as {asked}, found {kind(value[asked])}", number)
    for name, each in options.items():
        expected, is_right = _EXPECTED[name]
        if not is_right(each):
            raise _malformed(f"expected {expected} as {name}, found something else", number)
    parameters = options.pop("parameters", {})
    return Request(number, asked, value[asked], parameters, options)


def _is_number(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_time(value: object) -> bool:
    return (type(value) is int or type(value) is float) and 0 < value < _MAX_TIMEOUT_S


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "call": frozenset({"parameters", "words", "timeout", "as_handle"}),
        "search": frozenset({"limit"}),
        "describe": frozenset(),
        "read": frozenset({"offset", "length", "base64"}),
    }
)
"""The requests, and the keys of each besides its id."""

_EXPECTED: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = MappingProxyType(
    {
        "parameters": ("an object", lambda value: isinstance(value, dict)),
        "words": ("a list of texts", _are_words),
        "timeout": ("seconds, more than 0,", _is_time),
        "as_handle": ("true or false", lambda value: isinstance(value, bool)),
        "limit": (f"a number from 1 to {_MAX_HITS}", lambda value: _is_number(value, 1, _MAX_HITS)),
        "offset": ("a whole number", lambda value: _is_number(value, -_MAX_OFFSET, _MAX_OFFSET)),
        "length": (
            f"a number from 1 to {MAX_READ_BYTES}",
            lambda value: _is_number(value, 1, MAX_READ_BYTES),
        ),
        "base64": ("true or false", lambda value: isinstance(value, bool)),
    }
)
"""What each of it has to be, in words and as a check."""


def answer_line(number: int, result: Mapping[str, Any]) -> bytes:
    """The line that answers a request."""
    return _line({"id": number, "result": result})


def failure_line(number: int | None, error: Mapping[str, Any]) -> bytes:
    """The line that refuses a request; without a number it is about a line that has none."""
    return _line({"id": number, "error": error})


def _line(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _malformed(what: str, number: int | None = None) -> RyeError:
    known: dict[str, Any] = {} if number is None else {"id": number}
    return RyeError("malformed_call", what, **known)
