"""Checks what a server says before the client of the SDK reads it.

An answer belongs to the request that it came back for. A tool that MCP would refuse is left out of its list
alone. Messages that answer nothing are read at a pace. `answered_request` finds out which call a line answers
that nobody can read. The rules are in docs/architecture/bridge.md.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from itertools import islice
from typing import Any, Final, Self

import anyio
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp.types.methods import validate_server_result

from lilux._dataclasses import dataclass
from lilux._json import find_issues, is_finite
from rye_mcp.apart import apart_if_large
from rye_mcp.bridge.servers import BridgeError
from rye_mcp.visible import visible

__all__ = [
    "MAX_TOOLS",
    "Allowance",
    "IncomingCheck",
    "LeftOutTool",
    "Noise",
    "answered_request",
    "asks_something",
    "first_line",
    "unreadable",
]

AT_ONCE: Final = 5_000
"""How many messages that answer nothing are heard at once."""

PER_SECOND: Final = 500
"""How many of them are heard in each second after that."""

MAX_FAULTS: Final = 100
"""From how many faults on a message is only said to have many: to list them takes seconds, and gigabytes."""

MAX_TOOLS: Final = 1000
"""How many tools a server may offer."""

_LISTING: Final = "tools/list"
_CANCELLED: Final = "notifications/cancelled"
_SHOWN_CHARACTERS: Final = 500
_NAME_CHARACTERS: Final = 80
_FEW_CHARACTERS: Final = 80
"""How long a text of a page may be that each of its tools is looked at with."""

_asked: ContextVar[str | int | None] = ContextVar("asked", default=None)
"""The id of the request for which a task of the SDK waits; its messages carry the context of that task."""


def asks_something() -> bool:
    """Whether what is being sent is a request, for whose answer somebody waits."""
    return _asked.get() is not None


class Allowance:
    """Allows a burst, then so much a second; a reader that takes more waits."""

    def __init__(self, at_once: float, per_second: float) -> None:
        self._at_once = self._left = at_once
        self._per_second = per_second
        self._since = time.monotonic()

    async def spend(self, amount: float = 1) -> None:
        """Take so much, and wait for as long as it is owed."""
        now = time.monotonic()
        grown = self._left + (now - self._since) * self._per_second
        self._left, self._since = min(self._at_once, grown) - amount, now
        if self._left < 0:
            await anyio.sleep(-self._left / self._per_second)


@dataclass(frozen=True, slots=True)
class LeftOutTool:
    """A tool that no list can hold: what it is called, why, and how many bytes it had."""

    name: str
    problem: str
    size: int


@dataclass(frozen=True, slots=True)
class Noise:
    """Lines that are no messages, which came between two of them."""

    lines: int


class IncomingCheck:
    """Checks the messages of one connection. `left_out` are the tools that the last page of a list lost."""

    def __init__(self, name: str) -> None:
        self.version = ""
        self.left_out: tuple[LeftOutTool, ...] = ()
        self._shown = f"the server {visible(name)}"
        self._listings: set[str] = set()
        self._awaited: set[str] = set()
        self._allowance = Allowance(AT_ONCE, PER_SECOND)

    @asynccontextmanager
    async def over(self, streams: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """The streams of a transport, with this between them and the client."""
        async with streams as (received, sent):
            yield _IncomingMessages(received, self), _OutgoingMessages(sent, self)

    def note(self, message: Any) -> None:
        """Remember which requests are waited for, and which of them ask for tools."""
        if isinstance(message, JSONRPCRequest):
            self._awaited.add(str(message.id))
            if message.method == _LISTING:
                self._listings.add(str(message.id))
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._awaited.discard(str((message.params or {}).get("requestId")))

    async def look(self, item: Any, asked: str | int | None) -> Any:
        """The item, or what is heard in its place; None for what is not heard at all."""
        if isinstance(item, Noise):
            await self._allowance.spend(item.lines)
            return None
        message = getattr(item, "message", None)
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            await self._allowance.spend()
            return item if _is_measured(message) else ValueError("expected progress in the range of float")
        if asked is not None and str(message.id) != str(asked):
            item = SessionMessage(message := self._of_another(message, asked))
        number = str(message.id)
        if number not in self._awaited:
            await self._allowance.spend()
        self._awaited.discard(number)
        if isinstance(message, JSONRPCResponse) and number in self._listings:
            self._listings.discard(number)
            result = message.result
            kept, self.left_out = await apart_if_large(result, partial(_sifted, result, self.version))
            return SessionMessage(message.model_copy(update={"result": kept}))
        return item

    def _of_another(self, message: JSONRPCResponse | JSONRPCError, asked: str | int) -> JSONRPCError:
        if isinstance(message, JSONRPCError) and message.id is None:
            return JSONRPCError(jsonrpc="2.0", id=asked, error=message.error)
        what = f"expected {self._shown} to answer the request that it got, found the id of another one"
        return unreadable(asked, BridgeError("tool_failed", what))


def unreadable(request: str | int, why: BridgeError) -> JSONRPCError:
    """The failure of a call whose answer cannot be taken; nothing on the wire can look like its `data`."""
    error = ErrorData(code=PARSE_ERROR, message=why.message, data=why)
    return JSONRPCError(jsonrpc="2.0", id=request, error=error)


def first_line(error: BaseException) -> str:
    """Return an error's message as one line; for a message of the wrong shape, where it is wrong.

    Of what the libraries below MCP raise, only the name: they quote what they were sending.
    """
    listed, count = getattr(error, "errors", None), getattr(error, "error_count", None)
    if callable(count) and count() > MAX_FAULTS:
        return f"a message with {count()} faults"
    if callable(listed):
        wrong = [(".".join(map(str, each["loc"])), each["msg"]) for each in listed()]
        text = "; ".join(f"{place}: {what}" for place, what in wrong)
    elif isinstance(error, MCPError | BridgeError):
        text = str(error).strip().partition("\n")[0]
    else:
        text = type(error).__name__
    return visible(text[:_SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS] or type(error).__name__


def _is_measured(message: Any) -> bool:
    """Whether progress is a number that the SDK can take: any other one would end the connection."""
    params = message.params if isinstance(message, JSONRPCNotification) else None
    return all(_is_number_of_float((params or {}).get(name)) for name in ("progress", "total"))


def _is_number_of_float(value: Any) -> bool:
    try:
        return not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:
        return False


def _sifted(result: Mapping[str, Any], version: str) -> tuple[dict[str, Any], tuple[LeftOutTool, ...]]:
    """A page of tools without those that would spoil it."""
    tools = result.get("tools")
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        return dict(result), ()  # the page is refused as a whole
    kept, left_out = [], []
    rest = {name: value for name, value in result.items() if _is_short(value)}
    for number, tool in enumerate(tools):
        problem = _problem_of(tool, number, rest, version)
        if problem is None:
            kept.append(tool)
        else:
            left_out.append(LeftOutTool(_name_of(tool, number), problem, len(json.dumps(tool))))
    return {**result, "tools": kept}, tuple(left_out)


def _is_short(value: Any) -> bool:
    """Whether a value can be looked at again with each tool; nothing that a page needs is longer."""
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _FEW_CHARACTERS)


def _problem_of(tool: Any, number: int, page: Mapping[str, Any], version: str) -> str | None:
    if not is_finite(tool):
        return f"tools.{number}: {visible(str(find_issues(tool)[0]))}"
    try:
        validate_server_result(_LISTING, version, {**page, "tools": [tool]})
    except KeyError:
        return None  # a revision that has no rules for it here
    except ValueError as exc:
        return first_line(exc).replace("tools.0", f"tools.{number}")
    return None


def _name_of(tool: Any, number: int) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name[:_NAME_CHARACTERS] if isinstance(name, str) and name else f"tools.{number}"


class _Messages:
    """A stream of messages of one connection, with what the connection checks."""

    def __init__(self, inner: Any, check: IncomingCheck) -> None:
        self._inner = inner
        self._check = check

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _IncomingMessages(_Messages):
    """The messages to the client."""

    last_context: Any = None

    async def receive(self) -> Any:
        """The next message."""
        passed = None
        while passed is None:
            item = await self._inner.receive()
            self.last_context = context = getattr(self._inner, "last_context", None)
            passed = await self._check.look(item, None if context is None else context.get(_asked))
        return passed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _OutgoingMessages(_Messages):
    """The messages from the client; what it sends carries the id of its request along."""

    async def send(self, item: Any) -> None:
        """Pass a message on."""
        self._check.note(item.message)
        is_request = isinstance(item.message, JSONRPCRequest)
        token = _asked.set(item.message.id if is_request else None)
        try:
            await self._inner.send(item)
        finally:
            _asked.reset(token)


MAX_TOKENS: Final = 100_000
"""How many tokens of a line are looked at: for 0.3 s at most, and mostly a dozen, as the id comes first."""

_TOKEN: Final = re.compile(rb"[\[{]++|[\]}]++|[:,]|[^\[\]{}:,\s]++")
_RESULTS: Final = frozenset({b'"result', b'"error'})
_BRACKETS: Final = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
_NUMBER: Final = re.compile(rb"-?[0-9]{1,18}")
_TEXT: Final = re.compile(rb'"[ -!#-\[\]-~]{1,64}')


def answered_request(line: bytes) -> int | str | None:
    """The id of the call that a line answers, or None."""
    found = _outermost(line) if line.lstrip().startswith(b"{") else {}
    is_answer = b'"method' not in found and not _RESULTS.isdisjoint(found)
    return _id_of(found.get(b'"id', b"")) if is_answer else None


def _id_of(value: bytes) -> int | str | None:
    if _TEXT.fullmatch(value):
        return value[1:].decode("ascii")
    return int(value) if _NUMBER.fullmatch(value) else None


def _outermost(line: bytes) -> dict[bytes, bytes]:
    """The keys of the outermost object with their values; a text begins with its quote, and has no other."""
    found: dict[bytes, bytes] = {}
    depth, last, key = 0, b"", b""
    for token in islice(_tokens(line), MAX_TOKENS):
        brackets = token[:1] in _BRACKETS
        depth += len(token) * _BRACKETS[token[:1]] if brackets else 0
        if depth <= 0 or (found.get(b'"id') and not _RESULTS.isdisjoint(found)):
            break
        if depth == 1 and token == b":":
            key, found[last] = last, b""
        elif depth == 1 and not brackets and token != b",":
            found |= {key: token} if key else {}
            last = token
        else:
            key = b""
    return found


def _tokens(line: bytes) -> Iterator[bytes]:
    """Texts with their opening quote, and what stands between them; escaped quotes are gone."""
    parts = line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', MAX_TOKENS)
    for number, part in enumerate(parts[:MAX_TOKENS]):
        if number % 2:
            yield b'"' + part
        else:
            yield from (each[0] for each in _TOKEN.finditer(part))
