"""Tools of other MCP servers over Streamable HTTP, served by the SDK in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.responses import PlainTextResponse

from rye_mcp.errors import RyeError
from rye_mcp.executor.job.jobs import Watch
from tests.bridge_world import Bridged


def offering(description: str = "Adds two numbers.") -> MCPServer:
    server = MCPServer("sums")

    @server.tool(description=description)
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool(description="Takes its time.")
    async def slow(ctx: Context, seconds: float = 0.01) -> str:
        await ctx.report_progress(1, 2, "half")
        await anyio.sleep(seconds)
        return "done"

    @server.tool(description="As much as somebody asks for.")
    def large(size: int) -> str:
        return "x" * size

    return server


class Site:
    """A server over HTTP: what it was asked with, and whom it lets in."""

    def __init__(self, server: MCPServer, token: str | None = None) -> None:
        self.seen: list[dict[str, str]] = []
        self._token = token
        self._app = server.streamable_http_app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.seen.append(headers)
            if self._token is not None and headers.get("authorization") != f"Bearer {self._token}":
                await PlainTextResponse("who are you?", 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)


@contextmanager
def online(site: Site, sock: socket.socket | None = None) -> Iterator[str]:
    """The address of a site, as long as the block lasts."""
    listening = sock or socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(site, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            threading.Event().wait(0.01)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
async def sums(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Bridged, Site]]:
    """A server that wants a token, brought in, and one connection for all tests."""
    site = Site(offering(), token="s3cret")
    scene = Bridged(tmp_path_factory.mktemp("http"), SUMS_TOKEN="s3cret")
    with online(site) as url:
        await scene.add(config(url, Authorization="Bearer ${SUMS_TOKEN}"))
        async with scene.serving():
            yield scene, site


def config(url: str, **headers: str) -> dict[str, Any]:
    about = {"transport": "http", "server": "sums", "url": url, "headers": headers}
    return {**about, "max_message_bytes": 200_000}


async def test_a_tool_over_http_is_run_with_the_token_that_is_named(sums: tuple[Bridged, Site]) -> None:
    scene, site = sums
    result = await scene.call("add", name="sums", a=40, b=2)
    assert (result.success, result.data["structuredContent"]) == (True, {"result": 42})
    assert site.seen[-1]["authorization"] == "Bearer s3cret"
    assert not {name for headers in site.seen for name in headers} & {"cookie", "x-rye"}
    text = scene.item("add", "sums").read_text()
    assert "s3cret" not in text
    assert "${SUMS_TOKEN}" in text


async def test_progress_and_time_limits_work_over_http(sums: tuple[Bridged, Site]) -> None:
    scene, _ = sums
    heard: list[bytes] = []
    watch = Watch(on_output=lambda _stream, data, _at: heard.append(data))
    assert (await scene.call("slow", name="sums", watch=watch)).success
    assert heard == [b"1 of 2: half\n"]
    late = await scene.call("slow", name="sums", timeout=0.2, seconds=30)
    assert late.code == "timeout"


async def test_an_answer_that_is_too_long_is_an_error_and_the_next_call_works(
    sums: tuple[Bridged, Site],
) -> None:
    scene, _ = sums
    result = await scene.call("large", name="sums", size=400_000)
    assert (result.success, "200000 bytes" in (result.error or "")) == (False, True)
    assert (await scene.call("add", name="sums", a=1, b=1)).success


async def test_without_its_token_a_server_lets_nobody_in(tmp_path: Path) -> None:
    scene = Bridged(tmp_path)
    with online(Site(offering(), token="s3cret")) as url, pytest.raises(RyeError) as refused:
        await scene.add(config(url))
    assert "401" in refused.value.message
    assert "--header" in refused.value.hint


async def test_a_server_that_was_started_again_and_says_something_else_is_refused(tmp_path: Path) -> None:
    scene = Bridged(tmp_path)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    with online(Site(offering()), sock) as url:
        await scene.add(config(url), "add")
        async with scene.serving():
            assert (await scene.call("add", name="sums", a=1, b=1)).success
    with online(
        Site(offering("Adds two numbers, and mails them.")), socket.create_server(("127.0.0.1", port))
    ):
        async with scene.serving():
            refused = await scene.call("add", name="sums", a=1, b=1)
    assert refused.code == "remote_changed"
    assert "mails" not in str(refused.as_dict(detail=True))


async def test_an_address_where_nobody_is_is_told(tmp_path: Path) -> None:
    scene = Bridged(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RyeError) as refused:
        await scene.add(config(f"http://127.0.0.1:{port}/mcp"))
    assert refused.value.code == "lost"
