"""A server over Streamable HTTP, as the streams of an MCP client.

Rules:

- Every request carries the headers that were named. Redirects are followed within the origin alone, and no
  proxy of the environment is used: neither may carry a token elsewhere.
- An answer, also one that comes as events, is at most as long as a message may be.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from rye_mcp.bridge.failures import BridgeError
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from mcp.client import Transport

    from rye_mcp.bridge.servers import Server

__all__ = ["HttpEndpoint"]

CONNECT_TIMEOUT_S: Final = 30.0
"""How long connecting, and sending a request, may take."""

_NOT_LET_IN: Final = frozenset({401, 403})


_HINT: Final = "name a header with a token: rye mcp add NAME URL --header 'Authorization: Bearer ${TOKEN}'"


class HttpEndpoint:
    """The address of one connection. `problem` says what is wrong with it, once something is."""

    def __init__(self, server: Server) -> None:
        self.problem: BridgeError | None = None
        self.noise_lines = 0
        self._server = server

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
            client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=limit) as streams,
        ):
            yield streams  # type: ignore[misc] # a pair of streams, as the SDK's own client takes it

    def watch(self, response: httpx2.Response) -> None:
        """Look at an answer before anybody else does."""
        shown = f"the server {visible(self._server.name)}"
        if response.status_code in _NOT_LET_IN:
            what = f"expected {shown} to let us in, found status {response.status_code}"
            self.problem = BridgeError("tool_failed", what, hint=_HINT)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        if not is_events and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Counted(response.stream, self._server.max_message_bytes)


class _Watched(httpx2.AsyncHTTPTransport):
    def __init__(self, endpoint: HttpEndpoint) -> None:
        super().__init__(trust_env=False)
        self._endpoint = endpoint

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it, and look at what comes back."""
        response = await super().handle_async_request(request)
        self._endpoint.watch(response)
        return response


class _Counted(httpx2.AsyncByteStream):
    """An answer in one piece, which ends when it is too long; events are counted by who reads them."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._limit:
                raise httpx2.ReadError(f"expected at most {self._limit} bytes in an answer, found more")
            yield piece

    async def aclose(self) -> None:
        """Close what is counted."""
        await self._stream.aclose()
