"""A browser that comes before the server gets the entrance; everything else waits, unread, for the server."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing

import anyio
import pytest
from anyio import to_thread

from rye_mcp.known_names import KnownNames
from rye_mcp.ui.documents import HEADERS
from rye_mcp.ui.early import EarlyEntrance, entrance, is_plain, names_of
from rye_mcp.ui.entrance import Entrance
from rye_mcp.ui.guard import Guard
from rye_mcp.ui.serving import serve
from rye_mcp.ui.session import Session
from tests.users import ADA, two_users

NAMES = names_of("127.1.2.3", 4567)
PLAIN = b"GET / HTTP/1.1\r\nHost: 127.1.2.3:4567\r\n\r\n"


def head(*lines: str, first: str = "GET / HTTP/1.1", host: str = "127.1.2.3:4567") -> bytes:
    return "\r\n".join([first, f"Host: {host}", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "request_head",
    [
        PLAIN,
        head("Connection: keep-alive", "Upgrade-Insecure-Requests: 1", "accept:text/html,*/*;q=0.8"),
        head(host="localhost:4567"),
        head("Origin: http://127.1.2.3:4567"),
        head("Cookie: another=1", "Empty:"),
    ],
)
def test_a_plain_request_for_the_entrance(request_head: bytes) -> None:
    assert is_plain(request_head, NAMES)


@pytest.mark.parametrize(
    "request_head",
    [
        b"",
        b"\r\n\r\n",
        PLAIN[:-1],
        PLAIN[:-2],
        PLAIN + b"x",
        PLAIN + PLAIN,
        b"GET / HTTP/1.1\r\n\r\n",
        head(first="POST /session HTTP/1.1"),
        head(first="GET /runs HTTP/1.1"),
        head(first="GET / HTTP/1.0"),
        head(first="HEAD / HTTP/1.1"),
        head(first="GET http://127.1.2.3:4567/ HTTP/1.1"),
        head(host="evil.example"),
        head(host="127.1.2.3"),
        head("Host: 127.1.2.3:4567"),
        head("Origin: http://evil.example"),
        head("Origin: null"),
        head("Content-Length: 1"),
        head("Transfer-Encoding: chunked"),
        head("Expect: 100-continue"),
        head("Upgrade: websocket"),
        head("Connection: close"),
        head(" folded"),
        head("No colon"),
        head("Space before : the colon"),
        head("Hidden: \x00"),
        head("Letters: \u00fc"),
        PLAIN.replace(b"\r\n", b"\n"),
    ],
)
def test_anything_else_is_left_to_the_server(request_head: bytes) -> None:
    assert not is_plain(request_head, NAMES)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def names(listening: socket.socket) -> KnownNames:
    return names_of("127.0.0.1", listening.getsockname()[1])


def request(listening: socket.socket, first: str = "GET / HTTP/1.1") -> bytes:
    return head(first=first, host=f"127.0.0.1:{listening.getsockname()[1]}")


def answer_on(connection: socket.socket) -> tuple[dict[str, str], bytes]:
    """The headers and the body of an answer with a length."""
    connection.settimeout(20)
    with connection.makefile("rb") as lines:
        assert lines.readline() == b"HTTP/1.1 200 OK\r\n"
        fields = iter(lambda: lines.readline().decode().strip(), "")
        headers = dict(each.split(": ", 1) for each in fields)
        return headers, lines.read(int(headers["content-length"]))


def test_the_entrance_is_there_before_the_server(listening: socket.socket) -> None:
    with EarlyEntrance(listening, names(listening)) as early:
        for _ in range(2):
            with socket.create_connection(listening.getsockname()) as browser:
                browser.sendall(request(listening))
                headers, body = answer_on(browser)
                expected, document = entrance()
                assert headers == expected | HEADERS
                assert body == document
        for each in early.leave():
            with closing(each):
                assert each.recv(1) == b"", "what was answered was read"


def test_what_is_not_plain_stays_unread(listening: socket.socket) -> None:
    """The third one is answered after a look at the others: there is one thread, which takes them in turn."""
    others = [b"", request(listening, "GET /runs HTTP/1.1"), request(listening)]
    with EarlyEntrance(listening, names(listening)) as early:
        browsers = [socket.create_connection(listening.getsockname()) for _ in others]
        for browser, sent in zip(browsers, others, strict=True):
            browser.sendall(sent)
        answer_on(browsers[-1])
        taken = early.leave()
        left = {each.getpeername(): each for each in taken}
        silent, unread, _ = (left[browser.getsockname()] for browser in browsers)
        assert unread.recv(1 << 16) == others[1]
        with pytest.raises(BlockingIOError):
            silent.recv(1)
        for each in (*browsers, *taken):
            each.close()


async def test_the_server_goes_on_with_the_same_connections(listening: socket.socket) -> None:
    """What it answers on a connection that was answered early is the same, to the byte."""
    session = Session()
    page = Entrance(lambda: None)  # type: ignore[arg-type, return-value]
    guard = Guard(page, session=session, names=names(listening), cookie="rye")
    with (
        EarlyEntrance(listening, names(listening)) as early,
        socket.create_connection(listening.getsockname()) as answered,
        socket.create_connection(listening.getsockname()) as waiting,
    ):
        waiting.sendall(request(listening, "HEAD / HTTP/1.1"))
        answered.sendall(request(listening))
        first = await to_thread.run_sync(answer_on, answered)
        async with anyio.create_task_group() as group:
            group.start_soon(serve, guard, listening, early.leave())
            answered.sendall(request(listening))
            assert await to_thread.run_sync(answer_on, answered) == first
            waiting.settimeout(20)
            found = await to_thread.run_sync(waiting.recv, 1 << 16)
            assert found.startswith(b"HTTP/1.1 200")
            group.cancel_scope.cancel()


@two_users
def test_another_user_gets_nothing(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    sent = request(listening).decode().replace("\r\n", "\\r\\n")
    script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf '{sent}' >&3; timeout 20 cat <&3"
    with EarlyEntrance(listening, names(listening)) as early:
        done = subprocess.run(["bash", "-c", script], user=ADA, group=ADA, cwd="/", capture_output=True)
        assert done.stdout == b""
        assert early.leave() == []
