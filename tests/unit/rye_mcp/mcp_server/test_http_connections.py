"""Which connection makes room for the next one where there are too many."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

LIMIT = 64

SERVER = """
import sys
from pathlib import Path

import anyio

from rye_mcp.mcp_server.http_connections import connection_limit, listen, serve
from rye_mcp.mcp_server.http_gate import STANDING_KEY
from rye_mcp.mcp_server.http_requests import Exchange, Traffic
from rye_mcp.mcp_server.options import Address


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})
        return
    exchange = Exchange()
    scope["state"][STANDING_KEY].exchange = exchange
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
    path = scope["path"]
    body = b"x" * (4 << 20 if path == "/much" else 1)
    await send({"type": "http.response.body", "body": body, "more_body": path in ("/works", "/leaves")})
    if path == "/leaves":
        exchange.leave()
    if path in ("/works", "/leaves"):
        await anyio.sleep_forever()


listening = listen(Address("127.0.0.1", 0), is_open=True)
print(listening.getsockname()[1], connection_limit(), flush=True)
anyio.run(lambda: serve(application, listening, Traffic(), drain_s=0))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A server that takes `LIMIT` connections; paths say what it does with one."""
    command = ["sh", "-c", f'ulimit -n {2 * LIMIT} && exec "$0" -c "$1"', sys.executable, SERVER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found, limit = map(int, process.stdout.readline().split())
        assert limit == LIMIT
        yield found
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def connection(stack: ExitStack, port: int, path: str | None = None) -> socket.socket:
    """A connection whose request for a path has begun to be answered; without a path it says nothing."""
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(30)
    made.connect(("127.0.0.1", port))
    if path is not None:
        assert asked(made, path) == b"HTTP/1.1 200"
    return made


def asked(connection: socket.socket, path: str) -> bytes:
    """What comes first when a path is asked for; nothing if the connection was closed."""
    try:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection.recv(12)
    except ConnectionError:
        return b""


@pytest.mark.first_case
@pytest.mark.parametrize("path", ["/leaves", "/much"])
def test_an_answer_that_ends_makes_room(stack: ExitStack, port: int, path: str) -> None:
    """Its client reads nothing, or the application takes its time to end it."""
    for _ in range(LIMIT):
        connection(stack, port, path)
    assert asked(connection(stack, port), "/") == b"HTTP/1.1 200"


@pytest.mark.thorough
def test_an_answer_that_goes_on_is_not_closed_for_a_newcomer(stack: ExitStack, port: int) -> None:
    held = [connection(stack, port, "/works") for _ in range(LIMIT)]
    assert asked(connection(stack, port), "/") == b""
    assert all(map(is_open, held))


@pytest.mark.thorough
def test_a_few_newcomers_do_not_close_each_other(stack: ExitStack, port: int) -> None:
    """The head of each may be on its way."""
    for _ in range(LIMIT):
        connection(stack, port, "/leaves")
    newcomers = [connection(stack, port) for _ in range(LIMIT // 8)]
    assert [asked(each, "/") for each in newcomers] == [b"HTTP/1.1 200"] * len(newcomers)


def test_strangers_that_hold_every_place_make_room(stack: ExitStack, port: int) -> None:
    """The oldest is closed, so another one that comes soon does not close the newest."""
    held = [connection(stack, port) for _ in range(LIMIT)]
    newest, another = connection(stack, port), connection(stack, port)
    assert [asked(each, "/") for each in (newest, another)] == [b"HTTP/1.1 200"] * 2
    assert [is_open(each) for each in held[:3]] == [False, False, True]


@pytest.mark.thorough
def test_many_newcomers_close_the_oldest_of_them(stack: ExitStack, port: int) -> None:
    """They get no more than an eighth of the places."""
    known = [connection(stack, port, "/leaves") for _ in range(LIMIT)]
    newcomers = [connection(stack, port) for _ in range(LIMIT)]
    assert asked(connection(stack, port), "/") == b"HTTP/1.1 200"
    assert sum(map(is_open, newcomers)) <= LIMIT // 8 + 1
    assert sum(map(is_open, known)) >= LIMIT - LIMIT // 8 - 2


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False
