"""Messages in lines: from the two streams of a client to those that the SDK serves.

A line that is no message is answered by an error of the protocol, with the id of a request that has one, else
with `null`; an invalid response never by its id. A request is refused if its id still runs, if answers could
not repeat its names, or if `MAX_RUNNING` requests run. No task stands between a client and the SDK.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from rye_mcp.mcp_server.greeting import Greeting

if TYPE_CHECKING:
    from rye_mcp.mcp_server.stdio import Lines, Wire

__all__ = [
    "BUSY",
    "GIVE_UP_S",
    "MAX_NAME_BYTES",
    "MAX_RUNNING",
    "Incoming",
    "Outgoing",
    "Problem",
    "Running",
    "cancelled_in",
    "content_of",
    "framed",
    "is_handshake",
    "one_line",
    "problem_in",
    "refusal_of",
    "request_in",
    "tool_in",
]

GIVE_UP_S: Final = 3.0
"""How long the answer to a line that is no message waits for its client."""

MAX_RUNNING: Final = 4096
"""How many requests may run at once: each is held in memory, also where its client does not read."""

MAX_NAME_BYTES: Final = 1024
"""How long the id of a request may be, and what else its answers repeat."""

BUSY: Final = -32000
"""The code of a refusal that does not last."""

Problem = tuple[int, str]
"""Why a request is refused: a code of JSON-RPC, and the reason."""

_MAX_INTEGER: Final = (1 << 53) - 1
"""The largest integer that every reader of JSON can hold."""

_NOBODY: Final = (BrokenPipeError, ConnectionResetError)
_TOO_MANY: Final = "expected at most {} requests at once, found one more: call again later"
_ID_IN_USE: Final = "expected an id of its own for the request, found that of one that is still running"
_MAX_DIGITS: Final = 20
"""How many digits an id may have, with its sign."""

_NO_JSON: Final = "expected a message in JSON, in UTF-8, on one line of at most 32 MiB, found something else"
_NO_ID: Final = (
    f"expected a text of at most {MAX_NAME_BYTES} bytes, or a whole number of at most {_MAX_INTEGER}, as id "
    "of a request, found something else"
)
_NO_NAME: Final = "expected at most {} bytes as {} of a request, found more"
_NO_BATCH: Final = "expected one message, found a batch, which no revision has that this server agrees on"
_REPEATED: Final = ("progressToken", "io.modelcontextprotocol/protocolVersion")
_NO_REQUEST: Final = (
    "expected a request of JSON-RPC 2.0 with a text or an integer as id, in UTF-8 and not deeply nested, "
    "found something else"
)


class _RefusalError(JSONRPCError):
    """An answer of this module, instead of one by the server behind it."""


class Running:
    """The requests of one client that run: which, and that they are not too many."""

    def __init__(self, limit: int = MAX_RUNNING) -> None:
        self._ids: set[str | int] = set()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._ids)

    def begin(self, number: str | int) -> Problem | None:
        """Count a request as running from now on; or say why it cannot run."""
        number = coerce_request_id(number)
        if number in self._ids:
            return INVALID_REQUEST, _ID_IN_USE
        if len(self._ids) >= self._limit:
            return BUSY, _TOO_MANY.format(self._limit)
        self._ids.add(number)
        return None

    def end(self, number: object) -> None:
        """It is answered, or nobody waits for it any more."""
        if isinstance(number, str | int):
            self._ids.discard(coerce_request_id(number))


class Incoming:
    """The messages of a client, read from its lines as the next one is asked for."""

    def __init__(self, lines: Lines, running: Running, outgoing: Outgoing) -> None:
        self.over = anyio.Event()
        self._lines = lines
        self._running = running
        self._outgoing = outgoing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self.over.is_set():
            try:
                line = await anext(self._lines)
            except StopAsyncIteration:
                break
            message = self._message_in(line)
            if message is not None and not isinstance(message, _RefusalError):
                return SessionMessage(message)
            if message is not None and not await self._refused(message):
                break
            await anyio.lowlevel.checkpoint()  # neither lines that are there nor answers let others go on
        self.over.set()
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage | Exception:
        """The next one; EndOfStream after the last."""
        try:
            return await anext(self)
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Read no more."""
        self.over.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _refused(self, refusal: _RefusalError) -> bool:
        """Whether there still is somebody to refuse anything to."""
        try:
            with anyio.move_on_after(GIVE_UP_S):
                await self._outgoing.send(SessionMessage(refusal))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    def _begun(self, message: JSONRPCRequest) -> JSONRPCMessage:
        problem = _problem_of(message.id, message.method, message.params)
        if problem is not None:
            return _refusal(_id_of({"id": message.id}), INVALID_REQUEST, problem)
        refused = self._running.begin(message.id)
        return message if refused is None else _refusal(message.id, *refused)

    def _message_in(self, line: str) -> JSONRPCMessage | None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return refusal_of(line)
        if isinstance(message, JSONRPCRequest):
            return self._begun(message)
        if isinstance(message, JSONRPCNotification) and _may_have_id(line) and "id" in json.loads(line):
            return refusal_of(line)  # the SDK passes over an id that can be none, as if nobody waited
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._running.end((message.params or {}).get("requestId"))
        return message


class Outgoing:
    """A place for the messages to a client, each a line.

    Each sender writes its own message, one after the other. `finish` writes what the client does not take at
    once: a sender that is cancelled leaves no half of a line behind.
    """

    def __init__(self, wire: Wire, running: Running, greeting: Greeting | None = None) -> None:
        self.over = anyio.Event()
        self.is_broken = False
        self._wire = wire
        self._running = running
        self._greeting = greeting or Greeting()
        self._turn = anyio.Lock(fast_acquire=True)
        self._rest = memoryview(b"")
        self._begun, self._finished = anyio.Event(), anyio.Event()
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Give out a message; BrokenResourceError when nobody is there any more."""
        message = item.message
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._turn:
            await self._rest_written()
            if self._is_closed:
                raise anyio.ClosedResourceError
            if isinstance(message, JSONRPCResponse | JSONRPCError) and not isinstance(message, _RefusalError):
                self._running.end(message.id)
                if self._greeting.is_repeated_by(text):
                    return
            try:
                self._rest = self._wire.take(memoryview(one_line(f"{text}\n".encode("utf-8", "replace"))))
            except _NOBODY:
                self._end()
                raise anyio.BrokenResourceError from None
            await self._rest_written()

    async def finish(self) -> None:
        """Write what was not taken at once, until the place is closed; then it is over."""
        while self._rest or not self._is_closed:
            if not self._rest:
                await self._begun.wait()
                self._begun = anyio.Event()
                continue
            try:
                await self._wire.wait()
                self._rest = self._wire.take(self._rest)
            except _NOBODY:
                self._end()
            if not self._rest:
                self._finished.set()
                self._finished = anyio.Event()
        self.over.set()

    async def aclose(self) -> None:
        """Take no more messages."""
        self._is_closed = True
        self._begun.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _rest_written(self) -> None:
        while self._rest:
            self._begun.set()
            await self._finished.wait()

    def _end(self) -> None:
        """Nobody is there: what is left reaches nobody, and nothing more is taken."""
        self._rest = memoryview(b"")
        self.is_broken = self._is_closed = True
        self._begun.set()


@asynccontextmanager
async def framed(
    lines: Lines, wire: Wire, greeting: Greeting | None = None
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """The messages that come in, and a place for those that go out, until the block ends."""
    running = Running()
    outgoing = Outgoing(wire, running, greeting)
    incoming = Incoming(lines, running, outgoing)

    async def give_up() -> None:
        await incoming.over.wait()
        with anyio.move_on_after(GIVE_UP_S):
            await outgoing.over.wait()
            return
        group.cancel_scope.cancel()

    async def finish() -> None:
        await outgoing.finish()
        if outgoing.is_broken:
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        group.start_soon(finish)
        yield incoming, outgoing
        await incoming.aclose()
        await outgoing.aclose()


def refusal_of(line: str) -> _RefusalError | None:
    """The answer to a line that is no message; None when nobody waits for one."""
    if not line.strip():
        return None
    try:
        found = json.loads(line, parse_int=_number)
    except (ValueError, RecursionError):
        return _refusal(None, PARSE_ERROR, _NO_JSON)
    if isinstance(found, dict) and "method" in found:
        if "id" not in found and isinstance(found["method"], str):
            return None
        return _refusal(_id_of(found), INVALID_REQUEST, _NO_REQUEST)
    return _refusal(None, INVALID_REQUEST, _NO_REQUEST)


def _may_have_id(line: str) -> bool:
    """Whether a look at the members is worth it; the name may be written with escapes."""
    return '"id"' in line or "\\u" in line


def _number(digits: str) -> float:
    """A whole number. Python refuses one of thousands of digits, which is no reason to stop reading."""
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def content_of(message: bytes) -> object:
    """Return the JSON content of a message; None for invalid JSON, which is no message for the SDK either."""
    try:
        return json.loads(message, parse_int=_number)
    except (ValueError, RecursionError):
        return None


def problem_in(found: object) -> str | None:
    """Find the problem of a batch, or of a request that answers cannot repeat or that the SDK passes over."""
    if isinstance(found, list):
        return _NO_BATCH
    if not isinstance(found, dict) or "method" not in found or "id" not in found:
        return None
    return _problem_of(found["id"], found["method"], found.get("params"))


def is_handshake(found: object) -> bool:
    """Whether this is a request for a session."""
    return isinstance(found, dict) and found.get("method") == "initialize"


def request_in(found: object) -> str | int | None:
    """The id of a request; None for every other message."""
    if not isinstance(found, dict) or "method" not in found or not _is_id(found.get("id")):
        return None
    number: str | int = found["id"]
    return number


def tool_in(found: object) -> str | None:
    """The tool that a request calls; None for every other message."""
    if not isinstance(found, dict) or found.get("method") != "tools/call":
        return None
    params = found.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def cancelled_in(found: object) -> object:
    """The id of the request that a notification cancels; None for every other message."""
    if not isinstance(found, dict) or found.get("method") != "notifications/cancelled" or "id" in found:
        return None
    params = found.get("params")
    return params.get("requestId") if isinstance(params, dict) else None


def _problem_of(number: object, method: object, params: object) -> str | None:
    if not _is_id(number):
        return _NO_ID
    meta = params.get("_meta") if isinstance(params, dict) else None
    names = {"method": method}
    if isinstance(meta, dict):
        names |= {name: meta.get(name) for name in _REPEATED}
    wrong = (name for name, value in names.items() if not _is_short(value))
    return next((_NO_NAME.format(MAX_NAME_BYTES, name) for name in wrong), None)


def _is_short(value: object) -> bool:
    """Whether answers may repeat a value, if it is a text or an integer."""
    if isinstance(value, str):
        return len(value) <= MAX_NAME_BYTES and len(value.encode("utf-8", "replace")) <= MAX_NAME_BYTES
    return not isinstance(value, int) or abs(value) <= _MAX_INTEGER


def _is_id(value: object) -> bool:
    """Whether a value can be the id of a request: a text or a whole number, and short."""
    return isinstance(value, str | int) and not isinstance(value, bool) and _is_short(value)


def _id_of(found: dict[str, Any]) -> str | int | None:
    number: str | int | None = found["id"] if _is_id(found.get("id")) else None
    return None if isinstance(number, str) and not number.isprintable() else number


def _refusal(number: str | int | None, code: int, message: str) -> _RefusalError:
    return _RefusalError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))


_LINE_ENDS: Final = re.compile(b"\xc2\x85|\xe2\x80[\xa8\xa9]")
"""NEL, U+2028 and U+2029 in UTF-8: some clients end a line there, such as the readline of Node.js."""


def one_line(message: bytes) -> bytes:
    """JSON in UTF-8 with escapes for these characters."""
    return message if message.isascii() else _LINE_ENDS.sub(_escape, message)


def _escape(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()
