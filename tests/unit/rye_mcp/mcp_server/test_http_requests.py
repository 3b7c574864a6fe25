"""What each session has under way over HTTP, and what is left when an exchange is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from rye_mcp.mcp_server.framing import BUSY
from rye_mcp.mcp_server.http_gate import one_client
from rye_mcp.mcp_server.http_requests import (
    EXCHANGE_KEY,
    MAX_CALLS,
    MAX_HELD_BYTES,
    Exchange,
    Requests,
    Traffic,
    session_in,
)

pytestmark = pytest.mark.anyio

HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/messages/", f"session_id={HEX}"),
        ("/messages/more", f"session_id={HEX.upper()}"),
        ("/messages/", f"session_id=0&session_id={{{HEX[:8]}-{HEX[8:]}}}"),
        ("/messages/", f"session_id=urn:uuid:{HEX}"),
    ],
)
def test_a_session_is_one_however_it_is_spelt(path: str, query: str) -> None:
    scope = {"type": "http", "path": path, "query_string": query.encode(), "headers": []}
    assert session_in(scope) == f"/messages/ {HEX}"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.2", "::1%lo"])
def test_all_of_loopback_is_one_client(host: str) -> None:
    assert one_client((host, 1)) == one_client(("127.0.0.1", 2)) != one_client(("192.0.2.1", 1))


def test_the_bodies_of_a_session_have_a_bound() -> None:
    requests = Requests()
    assert requests.hold("a", MAX_HELD_BYTES) is None
    refused = requests.hold("a", 1)
    assert refused is not None
    assert refused[0] == BUSY
    assert requests.hold("b", 1) is None
    requests.let_go("a", MAX_HELD_BYTES)
    assert requests.hold("a", 1) is None


def test_a_call_counts_until_it_is_answered() -> None:
    requests = Requests(limit=1)
    for session in ("a", "b"):
        assert requests.begin(session, 1) is None
    assert requests.admit("a", 1)
    assert not requests.admit("b", 1)
    requests.end("a", "1")
    assert requests.admit("b", 1)
    requests.close("b")
    assert requests.begin("b", 1) is None
    assert requests.admit("b", 1)


async def test_what_an_exchange_asked_for_ends_with_it() -> None:
    traffic, exchange = Traffic(), Exchange(session="a")
    request = SimpleNamespace(scope={EXCHANGE_KEY: exchange})
    context = SimpleNamespace(request_id=1, method="tools/call", request=request)

    async def forever(_: Any) -> None:
        await anyio.sleep_forever()

    async def call() -> None:
        with pytest.raises(MCPError, match="its client is gone"):
            await traffic(context, forever)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            traffic.begin(exchange)
            assert traffic.ask(exchange, {"id": 1, "method": "tools/call"}, 10) is None
            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            exchange.is_answered = True
            traffic.end(exchange)
        await call()


def call_of(exchange: Exchange, method: str = "tools/call") -> SimpleNamespace:
    request = SimpleNamespace(scope={EXCHANGE_KEY: exchange})
    return SimpleNamespace(request_id=exchange.number, method=method, request=request)


async def answered(_: Any) -> str:
    return "answered"


async def test_of_many_sessions_no_more_calls_are_under_way_than_the_server_takes() -> None:
    traffic = Traffic()
    exchanges = [Exchange(session=str(number)) for number in range(MAX_CALLS + 1)]
    for exchange in exchanges:
        traffic.begin(exchange)
        assert traffic.ask(exchange, {"id": 1, "method": "tools/call"}, 10) is None
    for exchange in exchanges[:-1]:
        assert await traffic(call_of(exchange), answered) == "answered"
    with pytest.raises(MCPError, match=f"{MAX_CALLS} calls are under way") as caught:
        await traffic(call_of(exchanges[-1]), answered)
    assert caught.value.error.code == BUSY
    traffic.end(exchanges[0])
    assert await traffic(call_of(exchanges[-1]), answered) == "answered"


async def test_a_server_that_ends_begins_no_tool_and_still_answers() -> None:
    traffic, exchange = Traffic(), Exchange(session="a")
    traffic.begin(exchange)
    assert traffic.ask(exchange, {"id": 1, "method": "tools/call"}, 10) is None
    traffic.is_draining = True
    with pytest.raises(MCPError, match="the server is ending") as caught:
        await traffic(call_of(exchange), answered)
    assert caught.value.error.code == BUSY
    assert await traffic(call_of(exchange, "tools/list"), answered) == "answered"
