"""Connections: kept, limited, closed, and never left behind by a request that was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from lilux.primitives.http_client import HttpClientPrimitive, HttpResult
from tests.http_server import Connection, Request, greet, hang, serve, wait_until


def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[httpx.AsyncClient, dict[str, Any]]]:
    """Every client of httpx that is made from now on, and its settings."""
    seen: list[tuple[httpx.AsyncClient, dict[str, Any]]] = []
    initialise = httpx.AsyncClient.__init__

    def remember(self: httpx.AsyncClient, **settings: Any) -> None:
        seen.append((self, settings))
        initialise(self, **settings)

    monkeypatch.setattr(httpx.AsyncClient, "__init__", remember)
    return seen


async def test_the_client_is_lazily_initialized_and_reused_with_the_specified_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = made(monkeypatch)
    async with serve(greet) as server, HttpClientPrimitive() as http:
        assert clients == []
        for _ in range(3):
            await http.execute({"url": server.url}, {})
    ((_, settings),) = clients
    assert settings["limits"] == httpx.Limits(max_keepalive_connections=10, max_connections=20)
    assert settings["timeout"] == httpx.Timeout(30.0)
    assert settings["trust_env"] is False
    assert [request.connection for request in server.requests] == [1, 1, 1]


async def test_at_most_20_connections_are_open_and_10_are_kept() -> None:
    arrived, go_on = 0, anyio.Event()

    async def wait(connection: Connection, request: Request) -> None:
        nonlocal arrived
        arrived += 1
        if arrived == 20:
            go_on.set()
        await go_on.wait()
        await connection.reply(body=b"hello")

    results: list[HttpResult] = []

    async with serve(wait) as server, HttpClientPrimitive() as http:

        async def ask() -> None:
            results.append(await http.execute({"url": server.url, "timeout": 20}, {}))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(ask)
        assert len([result for result in results if result.body == "hello"]) == 50
        assert server.connections <= 50
        await wait_until(lambda: server.open <= 10)


async def test_close_closes_and_the_next_request_opens_again() -> None:
    async with serve(greet) as server:
        http = HttpClientPrimitive()
        await http.execute({"url": server.url}, {})
        assert server.open == 1
        await http.close()
        await server.all_closed.wait()
        await http.close()
        assert (await http.execute({"url": server.url}, {})).body == "hello"
        await http.close()
        await server.all_closed.wait()
    assert server.connections == 2


async def test_async_with_closes() -> None:
    async with serve(greet) as server:
        async with HttpClientPrimitive() as http:
            await http.execute({"url": server.url}, {})
        await server.all_closed.wait()


async def test_closing_during_a_request_makes_it_a_result() -> None:
    async with serve(hang) as server, HttpClientPrimitive() as http:
        results: list[HttpResult] = []

        async def ask() -> None:
            results.append(await http.execute({"url": server.url, "timeout": 20}, {}))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await wait_until(lambda: server.requests)
            await http.close()
    assert [result.success for result in results] == [False]
    assert results[0].error_code in {"connection_lost", "connect_failed"}


async def test_nothing_of_one_answer_is_kept_for_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = made(monkeypatch)

    async def bake(connection: Connection, request: Request) -> None:
        await connection.reply(headers={"Set-Cookie": "id=1; Path=/"})

    async with serve(bake) as server, HttpClientPrimitive() as http:
        for _ in range(2):
            result = await http.execute({"url": server.url}, {})
            assert result.headers["set-cookie"] == "id=1; Path=/"
    assert not [request for request in server.requests if "cookie" in request.headers]
    assert not [client for client, _ in clients if client.cookies]


# --- cancelling -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["sync", "stream"])
async def test_cancelling_closes_the_connection(mode: str) -> None:
    async def begin(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await hang(connection, request)

    async with serve(begin) as server, HttpClientPrimitive() as http:
        async with anyio.create_task_group() as group:
            group.start_soon(http.execute, {"url": server.url, "mode": mode}, {})
            await wait_until(lambda: server.requests)
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.all_closed.wait()


async def test_cancelling_in_a_sink_goes_on_and_closes_the_connection() -> None:
    def everybody_entered(sinks: Sequence[Hangs]) -> bool:
        return all(sink.entered for sink in sinks)

    class Hangs:
        entered = closed = False

        async def write(self, event: str) -> None:
            self.entered = True
            await anyio.sleep_forever()

        async def close(self) -> None:
            await anyio.lowlevel.checkpoint()
            self.closed = True

    async def endless(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            await connection.send(b"data: 1\n\n")

    for count in (1, 2):
        sinks = tuple(Hangs() for _ in range(count))
        async with serve(endless) as server, HttpClientPrimitive() as http:
            config = {"url": server.url, "mode": "stream", "sinks": sinks}
            async with anyio.create_task_group() as group:
                group.start_soon(http.execute, config, {})
                await wait_until(partial(everybody_entered, sinks))
                group.cancel_scope.cancel()
            with anyio.fail_after(5):
                await server.all_closed.wait()
        assert all(sink.closed for sink in sinks)


def test_a_cancelled_task_of_asyncio_ends_cancelled() -> None:
    async def main() -> None:
        entered = asyncio.Event()

        class Hangs:
            async def write(self, event: str) -> None:
                entered.set()
                await asyncio.sleep(60)

            async def close(self) -> None: ...

        async def begin(connection: Connection, request: Request) -> None:
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            await hang(connection, request)

        async with serve(begin) as server, HttpClientPrimitive() as http:
            config = {"url": server.url, "mode": "stream", "sinks": [Hangs()]}
            task = asyncio.create_task(http.execute(config, {}))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


@pytest.mark.thorough
async def test_cancelled_requests_leave_no_connection_behind_and_take_no_place(rounds: int) -> None:
    """However many are cancelled, at whatever moment: 20 more find room at once."""

    async def slowly(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
        await anyio.lowlevel.checkpoint()
        await connection.send(b"llo")
        if len(server.requests) % 2:
            await connection.close()

    async with serve(slowly) as server, HttpClientPrimitive() as http:
        config = {"url": server.url, "timeout": 20}
        results: list[HttpResult] = []

        async def give_up(after: float) -> None:
            with anyio.move_on_after(after):
                await http.execute(config, {})

        async def ask() -> None:
            results.append(await http.execute(config, {}))

        for _ in range(rounds):
            async with anyio.create_task_group() as group:
                for number in range(60):
                    group.start_soon(give_up, number * 0.001)
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
        assert [result.body for result in results] == ["hello"] * 20
        await http.close()
        with anyio.fail_after(5):
            await server.all_closed.wait()


async def test_a_client_is_not_used_again_after_a_request_was_cancelled_before_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the pool of httpcore such a request may keep its place for ever. Other requests go on."""
    clients, go_on = made(monkeypatch), anyio.Event()

    async def wait(connection: Connection, request: Request) -> None:
        await go_on.wait()
        await connection.reply(body=b"hello")

    async with serve(wait) as server, HttpClientPrimitive() as http:
        results: list[HttpResult] = []

        async def ask() -> None:
            results.append(await http.execute({"url": server.url}, {}))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await wait_until(lambda: server.requests)
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(ask)
                await wait_until(lambda: len(server.requests) == 2)
                cancelled.cancel_scope.cancel()
            group.start_soon(ask)
            await wait_until(lambda: len(server.requests) == 3)
            go_on.set()
        assert [result.body for result in results] == ["hello", "hello"]
        assert [client.is_closed for client, _ in clients] == [True, False]


async def test_a_request_that_is_cancelled_while_it_waits_for_a_place_changes_nothing() -> None:
    async with serve(hang) as server, HttpClientPrimitive() as http:

        async def ask() -> None:
            await http.execute({"url": server.url}, {})

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
            await wait_until(lambda: len(server.requests) == 20)
            for _ in range(3):
                with anyio.move_on_after(0.02):
                    await ask()
            assert (len(server.requests), server.connections) == (20, 20)
            group.cancel_scope.cancel()


async def test_requests_that_run_out_of_time_leave_no_connection_behind(rounds: int) -> None:
    async with serve(hang) as server, HttpClientPrimitive() as http:
        for number in range(rounds * 10):
            result = await http.execute({"url": server.url, "timeout": 0.0005 * (1 + number % 10)}, {})
            assert result.error_code == "timeout"
        with anyio.fail_after(5):
            await server.all_closed.wait()
