"""The messages of a program that asks for calls, and the answers: one JSON object a line.

Nothing here reads, writes or waits. A line that is no request is a RyeError `malformed_call`. The protocol is
described in docs/programs.md.

    >>> read_request(b'{"id": 1, "call": "demo/hello", "parameters": {"name": "Ada"}}')
    Request(id=1, kind='call', what='demo/hello', parameters={'name': 'Ada'}, timeout=None, limit=10)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, Literal

from lilux import _json
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, kind

__all__ = ["MAX_LINE_BYTES", "Kind", "Request", "answer_line", "failure_line", "read_request"]

Kind = Literal["call", "search", "describe", "channel"]

MAX_LINE_BYTES: Final = 4 << 20
"""How long one line may be."""

_MAX_ID: Final = 2**53 - 1
_KINDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "call": frozenset({"parameters", "timeout"}),
        "search": frozenset({"limit"}),
        "describe": frozenset(),
    }
)
"""The requests, and the keys of each besides its id."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a program. `what` is the id of a tool, or the words to search for."""

    id: int
    kind: Kind
    what: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    limit: int = 10


def read_request(line: bytes) -> Request:
    """The request of a line, without its end; RyeError `malformed_call`, with the id where it has one."""
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
    asked = [name for name in _KINDS if name in value]
    if len(asked) != 1:
        raise _malformed(f"expected one of {', '.join(_KINDS)}, found {', '.join(asked) or 'none'}", number)
    return _request(number, asked[0], value)


def _request(number: int, asked: Any, value: dict[str, Any]) -> Request:
    unknown = sorted(value.keys() - {"id", asked} - _KINDS[asked])
    if unknown:
        raise _malformed(f"expected nothing else beside {asked}, found {', '.join(unknown)!a:.200}", number)
    what, parameters = value[asked], value.get("parameters", {})
    timeout, limit = value.get("timeout"), value.get("limit", 10)
    if not isinstance(what, str):
        raise _malformed(f"expected text as {asked}, found {kind(what)}", number)
    if not isinstance(parameters, dict):
        raise _malformed(f"expected an object as parameters, found {kind(parameters)}", number)
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < 1e9):
        raise _malformed("expected seconds, more than 0, as timeout, found something else", number)
    if type(limit) is not int or not 1 <= limit <= 100:
        raise _malformed("expected a number from 1 to 100 as limit, found something else", number)
    return Request(number, asked, what, parameters, timeout, limit)


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
