"""HTTP+SSE, the transport of clients before 2025: a stream of events, and a path for messages of its client.

Rules:

- A request that came by a message counts until the stream has taken its answer (`http_requests`).
- For a client that does not read its stream, answers of `MAX_WAITING_BYTES` are kept. An answer beyond that
  is dropped, and an error takes its place.
"""

from __future__ import annotations

from typing import Any, Final, Self

from mcp.server import MCPServer
from mcp.server.sse import SseServerTransport
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from rye_mcp.mcp_server.framing import BUSY
from rye_mcp.mcp_server.http_requests import MESSAGES_PATH, Requests, stream_of
from rye_mcp.mcp_server.http_traffic import EXCHANGE_KEY, Exchange

__all__ = ["MAX_WAITING_BYTES", "Events"]

MAX_WAITING_BYTES: Final = 16 << 20
"""How long the answers may be together that wait for one client."""

_TOO_MUCH: Final = (
    f"expected a client that reads its answers, found {MAX_WAITING_BYTES} bytes of them waiting: call again"
)


class Events(SseServerTransport):
    """The SDK's transport, whose answers are counted."""

    def __init__(self, server: MCPServer[Any], requests: Requests, **options: Any) -> None:
        super().__init__(MESSAGES_PATH, **options)
        self._server = server._lowlevel_server
        self._requests = requests

    def routes(self) -> list[BaseRoute]:
        """Where clients listen, and where they send."""
        return [
            Route("/sse", endpoint=_Listening(self), methods=["GET"]),
            Mount(MESSAGES_PATH, app=self.handle_post_message),
        ]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client as long as it listens."""
        async with self.connect_sse(scope, receive, send) as (incoming, outgoing):
            session = stream_of(next(reversed(self._read_stream_writers)))  # nobody else had a turn meanwhile
            exchange: Exchange | None = scope.get(EXCHANGE_KEY)
            if exchange is not None:
                exchange.session = session
            options = self._server.create_initialization_options()
            self._requests.open(session)
            try:
                await self._server.run(incoming, _Counted(outgoing, self._requests, session), options)
            finally:
                self._requests.close(session)


class _Listening:
    """The application of the path where clients listen."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._events.serve(scope, receive, send)


class _Counted:
    """A place for the messages to a client; a request is over when its answer was taken."""

    def __init__(self, outgoing: Any, requests: Requests, session: str) -> None:
        self._outgoing = outgoing
        self._requests = requests
        self._session = session
        self._waiting = self._bytes = 0
        self._refusals: list[SessionMessage] = []

    async def send(self, item: SessionMessage) -> None:
        """Give out a message, when those before are on their way; an answer that is too much is refused."""
        size = _length(item) if self._waiting else 0
        if self._bytes + size > MAX_WAITING_BYTES and isinstance(item.message, JSONRPCResponse):
            self._refusals.append(_refusal(item.message.id))
            return
        self._waiting += 1
        self._bytes += size
        try:
            await self._give(item)
        finally:
            self._waiting -= 1
            self._bytes -= size
        while self._refusals:
            await self._give(self._refusals.pop())

    async def _give(self, item: SessionMessage) -> None:
        await self._outgoing.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._requests.end(self._session, item.message.id)

    async def aclose(self) -> None:
        """Take no more messages."""
        await self._outgoing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _length(item: SessionMessage) -> int:
    return len(item.message.model_dump_json(by_alias=True, exclude_unset=True))


def _refusal(number: str | int) -> SessionMessage:
    error = ErrorData(code=BUSY, message=_TOO_MUCH)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))
