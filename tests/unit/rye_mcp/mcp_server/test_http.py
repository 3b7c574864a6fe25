"""How long sessions last, and which of them makes room for a new one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx
import pytest
from mcp.server import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp

from rye_mcp.mcp_server.http import Sessions

SHORT_S: Final = 0.1
HEADERS: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
BEGINNING: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}

pytestmark = pytest.mark.anyio


class Asking:
    """Clients of a server, each with a session."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def begin(self) -> str:
        """A new session."""
        found = await self._post({"id": 1, "method": "initialize", "params": BEGINNING})
        assert found.status_code == 200, found.text
        return found.headers["mcp-session-id"]

    async def say(self, session: str, method: str, number: int | None = 2) -> int:
        """What the server says to a message of a session."""
        more: dict[str, Any] = {} if number is None else {"id": number}
        return (await self._post({"method": method, **more}, session)).status_code

    async def _post(self, message: dict[str, Any], session: str | None = None) -> httpx.Response:
        more = {} if session is None else {"Mcp-Session-Id": session}
        return await self._client.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=HEADERS | more)


@asynccontextmanager
async def asking(*, most: int = 100) -> AsyncIterator[Asking]:
    server = MCPServer("tests")
    sessions = Sessions(server._lowlevel_server, uncalled_idle_s=SHORT_S, max_sessions=most)
    server._lowlevel_server.middleware.append(sessions)
    transport = httpx.ASGITransport(app=StreamableHTTPASGIApp(sessions))
    async with sessions.run(), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield Asking(client)


@pytest.mark.parametrize("said", [(), (("notifications/initialized", None),), (("ping", 2),)])
async def test_a_session_that_asks_for_nothing_ends_soon(said: tuple[tuple[str, int | None], ...]) -> None:
    async with asking() as client:
        silent, calling = await client.begin(), await client.begin()
        assert await client.say(calling, "tools/list") == 200
        for method, number in said:
            assert await client.say(silent, method, number) in (200, 202)
        await anyio.sleep(4 * SHORT_S)
        assert await client.say(silent, "tools/list") == 404
        assert await client.say(calling, "tools/list") == 200


async def test_the_session_that_would_end_first_makes_room() -> None:
    async with asking(most=3) as client:
        first, second, silent = [await client.begin() for _ in range(3)]
        for session in (first, second, first):
            assert await client.say(session, "tools/list") == 200
        for gone in (silent, second):
            newest = await client.begin()
            assert await client.say(newest, "tools/list") == 200
            assert await client.say(gone, "tools/list") == 404
            assert await client.say(first, "tools/list") == 200
