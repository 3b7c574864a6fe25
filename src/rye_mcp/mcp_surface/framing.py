"""Messages in lines: from the two streams of a client to those that the SDK serves.

Rules:

- A line is one message of JSON-RPC. One that is none is answered by an error of the protocol: by its id, when
  it is a request that has one, else by `null`. Blank lines are passed over, and so is a notification that is
  wrong: nobody waits for an answer to it.
- An answer that is none is never answered by its id: a request of the client may have the same one.
- A request whose id is that of one that still runs is refused: nobody could tell their answers apart. The SDK
  takes `7` and `"7"` for one id when a request is cancelled, and so they are one here.
- `MAX_RUNNING` requests run at once, and no more: one too many is refused.
- A client that takes no such refusal for `GIVE_UP_S` gets none. One that has closed its end, and does not
  read what it still gets, is given up after as long.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from rye_mcp.mcp_surface.stdio import Lines, Wire

    Incoming: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
    Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]

__all__ = ["GIVE_UP_S", "MAX_RUNNING", "framed", "refusal_of"]

GIVE_UP_S: Final = 3.0
"""How long the answer to a line that is no message waits for its client."""

MAX_RUNNING: Final = 4096
"""How many requests may run at once: each is held in memory, also where its client does not read."""

_BUSY: Final = -32000
_TOO_MANY: Final = f"expected at most {MAX_RUNNING} requests at once, found one more: call again later"
_ID_IN_USE: Final = "expected an id of its own for the request, found that of one that is still running"
_MAX_DIGITS: Final = 20
"""How many digits an id may have, with its sign."""

_NO_JSON: Final = "expected a message in JSON, on one line of at most 32 MiB, found something else"
_NO_REQUEST: Final = (
    "expected a request of JSON-RPC 2.0 with a text or an integer as id, in UTF-8 and not deeply nested, "
    "found something else"
)


class _RefusalError(JSONRPCError):
    """What is answered here, and not by the server behind."""


class _Frames:
    """Messages of one client."""

    def __init__(self, lines: Lines, wire: Wire) -> None:
        self._lines = lines
        self._wire = wire
        self._running: set[str | int] = set()

    async def read(self, taken: Incoming, outgoing: Outgoing) -> None:
        """Take lines until there are no more."""
        async with taken, outgoing:
            async for line in self._lines:
                message = self._message_in(line)
                if isinstance(message, _RefusalError):
                    with anyio.move_on_after(GIVE_UP_S):
                        await outgoing.send(SessionMessage(message))
                elif message is not None:
                    await taken.send(SessionMessage(message))

    async def write(self, given: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Give out messages until there are no more."""
        async with given:
            async for each in given:
                message = each.message
                if isinstance(message, JSONRPCResponse | JSONRPCError) and not isinstance(
                    message, _RefusalError
                ):
                    self._end(message.id)
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._wire.write(f"{text}\n")
                await self._wire.flush()

    def _message_in(self, line: str) -> JSONRPCMessage | None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return refusal_of(line)
        if isinstance(message, JSONRPCRequest):
            return self._begun(message)
        if isinstance(message, JSONRPCNotification) and '"id"' in line and "id" in json.loads(line):
            return refusal_of(line)  # the SDK passes over an id that can be none, as if nobody waited
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            number = (message.params or {}).get("requestId")
            self._end(number if isinstance(number, str | int) else None)
        return message

    def _begun(self, request: JSONRPCRequest) -> JSONRPCMessage:
        """The request, which runs from now on; or its refusal."""
        number = coerce_request_id(request.id)
        if number in self._running:
            return _refusal(request.id, INVALID_REQUEST, _ID_IN_USE)
        if len(self._running) >= MAX_RUNNING:
            return _refusal(request.id, _BUSY, _TOO_MANY)
        self._running.add(number)
        return request

    def _end(self, number: str | int | None) -> None:
        if number is not None:
            self._running.discard(coerce_request_id(number))


@asynccontextmanager
async def framed(
    lines: Lines, wire: Wire
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], Outgoing]]:
    """The messages that come in, and a place for those that go out, until the block ends."""
    taken, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, given = anyio.create_memory_object_stream[SessionMessage](0)
    frames = _Frames(lines, wire)
    is_over = anyio.Event()

    async def read() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody is served any more
            await frames.read(taken, outgoing.clone())
        with anyio.move_on_after(GIVE_UP_S):
            await is_over.wait()
            return
        group.cancel_scope.cancel()

    async def write() -> None:
        try:
            await frames.write(given)
        except (BrokenPipeError, ConnectionResetError):
            group.cancel_scope.cancel()  # nobody is there any more
        is_over.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        yield incoming, outgoing


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


def _number(digits: str) -> float:
    """A whole number; one of thousands of digits is none that Python reads, and no reason to read no more."""
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def _id_of(found: dict[str, Any]) -> str | int | None:
    number = found.get("id")
    if isinstance(number, str):
        return number if number.isprintable() else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _refusal(number: str | int | None, code: int, message: str) -> _RefusalError:
    return _RefusalError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))
