"""A server over Streamable HTTP, as the streams of an MCP client.

Redirects are followed within the origin alone, and no proxy of the environment is used: neither may carry a
token elsewhere. An answer is unpacked here, and is at most as long as a message may be. Events, and streams
that are opened again, have a pace. Nobody waits long for the answer to what is no request.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NoReturn, cast

import anyio
import anyio.lowlevel
import httpx2
from mcp.client.streamable_http import streamable_http_client

from lilux._http.body import BrokenBodyError, TooLargeError, Unpacker
from lilux._json import ValueCount
from rye_mcp.bridge.incoming import Allowance, asks_something
from rye_mcp.bridge.servers import MAX_MESSAGE_VALUES, BridgeError
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp.client import Transport

    from lilux.primitives.subprocess import Enforced
    from rye_mcp.bridge.servers import Server
    from rye_mcp.permissions.denials import Denial

__all__ = ["HttpEndpoint"]

CONNECT_TIMEOUT_S: Final = 30.0
"""How long connecting, and sending a request, may take."""

UNASKED_LIMIT_S: Final = 2.0
"""How long sending what is no request may take, with the head of the answer."""

UNASKED_WAIT_S: Final = 0.25
"""How long the messages behind it wait for that; the first and the last of a session, as long as it takes."""

MAX_UNASKED: Final = 32
"""How many of them may be on their way at once; one more is dropped."""

EVENTS: Final = (5_000, 500)
"""How many events are read at once, and how many in each second after that."""

STREAMS: Final = (5, 0.5)
"""How often a stream is opened: at once, and in each second after that."""

REFILL_S: Final = 60.0
"""After how long the stream that answers no request may be as long as a message again."""

_END_OF_EVENT: Final = re.compile(rb"(?:\r\n|\r|\n){2}")
_INITIALIZED: Final = b'"notifications/initialized"'
_NOT_LET_IN: Final = frozenset({401, 403})
_CODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})

_HINT: Final = "name a header with a token: rye mcp add NAME URL --header 'Authorization: Bearer ${TOKEN}'"


class HttpEndpoint:
    """The address of one connection. `problem` says what is wrong with it, once something is."""

    def __init__(self, server: Server) -> None:
        self.problem: BridgeError | None = None
        self.noise_lines = 0
        self.enforced: Enforced | None = None
        self.last_words = ""
        self.beside: TaskGroup | None = None
        self.streams_opened = Allowance(*STREAMS)
        self._server = server
        self._events = Allowance(*EVENTS)
        self._bytes = Allowance(server.max_message_bytes, server.max_message_bytes / REFILL_S)

    def denied(self, said: str) -> Denial | None:
        """Nothing: a server that is reached over HTTP is not confined by us."""
        return None

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Transport]:
        """Reach it, until the block ends."""
        server = self._server
        client = httpx2.AsyncClient(
            headers=dict(server.headers),
            timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=None),  # a call has a time limit of its own
            transport=_Watched(self),
            trust_env=False,
        )
        limit = server.max_message_bytes
        async with (
            anyio.create_task_group() as self.beside,
            client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=limit) as streams,
        ):
            try:
                yield streams  # type: ignore[misc] # a pair of streams, as the SDK's own client takes it
            finally:
                self.beside.cancel_scope.deadline = anyio.current_time() + UNASKED_LIMIT_S + UNASKED_WAIT_S

    def watch(self, request: httpx2.Request, response: httpx2.Response) -> None:
        """Look at an answer before anybody else does."""
        shown = f"the server {visible(self._server.name)}"
        if response.status_code in _NOT_LET_IN:
            what = f"expected {shown} to let us in, found status {response.status_code}"
            self.problem = BridgeError("tool_failed", what, hint=_HINT)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Unpacked(response, self._limit_of(request, response), self)

    async def pace(self, data: bytes, *, is_endless: bool) -> None:
        """Read on when it is time to, so that no server says more than there is time for."""
        await self._events.spend(sum(1 for _ in _END_OF_EVENT.finditer(data)))
        if is_endless:
            await self._bytes.spend(len(data))

    def fail(self, what: str) -> NoReturn:
        """End an answer; the SDK tells nobody why its events have ended."""
        self.problem = BridgeError("lost", f"the server {visible(self._server.name)}: {what}")
        raise httpx2.ReadError(self.problem.message)

    def _limit_of(self, request: httpx2.Request, response: httpx2.Response) -> int | None:
        """How long an answer may be; None for the events that answer no request."""
        kind = response.headers.get("content-type", "").strip().lower()
        if request.method == "GET" and kind.startswith("text/event-stream"):
            return None
        return self._server.max_message_bytes


class _Watched(httpx2.AsyncHTTPTransport):
    def __init__(self, endpoint: HttpEndpoint) -> None:
        super().__init__(trust_env=False)
        self._endpoint = endpoint
        self._unasked = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and look at what comes back."""
        if request.method == "DELETE" or (request.method == "POST" and not asks_something()):
            return await self._send_only(request)
        if request.method == "GET":
            await self._endpoint.streams_opened.spend()
        response = await super().handle_async_request(request)
        self._endpoint.watch(request, response)
        return response

    async def _send_only(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and look at nothing but the status, if that comes soon."""
        sending = _Sending(super().handle_async_request, request)
        beside = self._endpoint.beside
        if beside is None or self._unasked >= MAX_UNASKED:
            return httpx2.Response(202)
        self._unasked += 1
        beside.start_soon(self._finish, sending)
        is_patient = request.method == "DELETE" or _INITIALIZED in request.content
        with anyio.move_on_after(UNASKED_LIMIT_S if is_patient else UNASKED_WAIT_S):
            await sending.done.wait()
        if sending.problem is not None:
            raise sending.problem
        return sending.response

    async def _finish(self, sending: _Sending) -> None:
        try:
            with anyio.move_on_after(UNASKED_LIMIT_S):
                await sending.send()
        finally:
            self._unasked -= 1
            sending.done.set()


class _Sending:
    """A message that is on its way without being a request; its answer is a 202."""

    def __init__(self, send: Callable[[httpx2.Request], Awaitable[httpx2.Response]], request: httpx2.Request):
        self.done = anyio.Event()
        self.response = httpx2.Response(202)
        self.problem: httpx2.HTTPError | None = None
        self._send = send
        self._request = request

    async def send(self) -> None:
        """Send it."""
        try:
            response = await self._send(self._request)
            await response.aclose()
            self.response = httpx2.Response(response.status_code, headers=_location_of(response))
        except httpx2.HTTPError as exc:
            self.problem = exc


def _location_of(response: httpx2.Response) -> dict[str, str]:
    """Where a message has to be sent again, which the SDK does within the origin."""
    return {name: value for name, value in response.headers.items() if name == "location"}


class _Unpacked(httpx2.AsyncByteStream):
    """The bytes of an answer, which end when they are too many. Nobody else unpacks them any more."""

    def __init__(self, response: httpx2.Response, limit: int | None, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._fail = endpoint.fail
        self._values = ValueCount(MAX_MESSAGE_VALUES)
        self._stream = cast("httpx2.AsyncByteStream", response.stream)
        self._limit = limit
        self._is_events = "event-stream" in response.headers.get("content-type", "").lower()
        self._coding = response.headers.pop("content-encoding", "").strip().lower()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._coding not in _CODINGS:
            self._fail("expected an answer in gzip, deflate or as it is, found another encoding")
        unpacker = Unpacker(self._coding, sys.maxsize if self._limit is None else self._limit)
        try:
            async for chunk in self._stream:
                for piece in unpacker.feed(chunk):
                    self._count(piece)
                    yield piece
                    await anyio.lowlevel.checkpoint()  # a chunk may become a thousand pieces
                    if self._is_events:
                        await self._endpoint.pace(piece, is_endless=self._limit is None)
            unpacker.finish()
        except TooLargeError:
            self._fail(f"expected at most {self._limit} bytes in an answer, found more")
        except BrokenBodyError:
            self._fail("expected an answer that can be unpacked, found another one")

    def _count(self, piece: bytes) -> None:
        """Count a piece; a stream without a request has no end, so each of its events is counted alone."""
        if self._limit is None and (ends := list(_END_OF_EVENT.finditer(piece))):
            self._values, piece = ValueCount(MAX_MESSAGE_VALUES), piece[ends[-1].end() :]
        if not self._values.feed(piece):
            self._fail(f"expected at most {MAX_MESSAGE_VALUES} values in an answer, found more")

    async def aclose(self) -> None:
        """Close what is unpacked."""
        await self._stream.aclose()
