"""Whoever reaches the server over HTTP: without its token, from a page in a browser, or with no request.

After each attack the next call of an honest client works.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.http_world import TOKEN, HttpServer, http_server, post
from tests.people import Person

VERSION = "2026-07-28"
PATHS = [
    *((method, "/mcp") for method in ("POST", "GET", "DELETE", "OPTIONS")),
    *(("GET", path) for path in ("/sse", "/", "/nothing", "/HEALTHZ", "//healthz", "/healthz/")),
    ("POST", "/messages/"),
]

META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    ada = Person("ada", tmp_path_factory.mktemp("ada"))
    project = ada.place / "project"
    project.mkdir()
    ada.rye("init", cwd=project)
    with http_server(ada, project) as found:
        yield found


@pytest.fixture(autouse=True)
def the_next_call_works(server: HttpServer) -> Iterator[None]:
    yield
    found = call(server)
    assert found.status_code == 200, found.text
    assert found.json()["result"]["structuredContent"]["total"] >= 0


def message(arguments: Any = None) -> dict[str, Any]:
    parameters = {"name": "search", "arguments": arguments or {"limit": 1}, "_meta": META}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}


def call(server: HttpServer, **headers: str) -> httpx.Response:
    names = {"Mcp-Method": "tools/call", "Mcp-Name": "search", "MCP-Protocol-Version": VERSION}
    return post(server, message(), **{**names, **headers})


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        f"Basic {TOKEN}",
        TOKEN,
    ],
)
def test_without_the_token_no_path_is_open(
    server: HttpServer, method: str, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    with httpx.Client(trust_env=False) as client:
        url = httpx.URL(server.base, raw_path=path.encode())
        found = client.request(method, f"{url}?token={TOKEN}", headers=headers)
    assert found.status_code == 401
    assert found.headers["WWW-Authenticate"] == "Bearer"
    assert TOKEN not in found.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example:1",
        "192.0.2.1",
        "[::2]",
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/?session_id=0", "/nothing"])
def test_a_name_that_was_led_to_this_machine_opens_nothing(server: HttpServer, host: str, path: str) -> None:
    assert post(server, message(), path, Host=host).status_code == 421


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "http://localhost.evil.example:1",
        "file://",
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/?session_id=0", "/nothing"])
def test_a_page_of_somebody_else_opens_nothing(server: HttpServer, origin: str, path: str) -> None:
    found = post(server, message(), path, Origin=origin)
    assert found.status_code == 403
    assert "access-control-allow-origin" not in found.headers


def test_a_page_of_this_machine_and_a_name_of_it_are_fine(server: HttpServer) -> None:
    assert call(server, Host="localhost:1", Origin=f"http://localhost:{server.port}").status_code == 200


LEGACY = {"MCP-Protocol-Version": "2025-11-25"}
MODERN = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "search"}


@pytest.mark.parametrize("headers", [LEGACY, MODERN, {}], ids=["2025", "2026", "none"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b"null",
        b"[]",
        b'"text"',
        b"1e999999",
        b"9" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * 500 + b"]" * 500 + b"}",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"no/such/method"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_no_request_is_refused(server: HttpServer, body: bytes, headers: dict[str, str]) -> None:
    found = post(server, body, **headers)
    assert 400 <= found.status_code < 500, found.text
    assert "Traceback" not in found.text


@pytest.mark.parametrize("depth", [50, 150, 600])
def test_arguments_that_are_deep_are_answered(server: HttpServer, depth: int) -> None:
    deep: Any = "end"
    for _ in range(depth):
        deep = {"a": deep}
    found = post(server, message({"filters": deep}), **MODERN)
    assert found.status_code in (200, 400), found.text
    if found.status_code == 200:
        result = found.json()
        assert "error" in result or result["result"]["isError"] is True


def test_a_body_that_says_it_is_too_long_is_not_waited_for(server: HttpServer) -> None:
    begun = time.monotonic()
    with server.connection() as connection:
        connection.sendall(head(server, f"Content-Length: {1 << 40}") + b"{")
        assert_refused(connection, b"413")
        assert time.monotonic() - begun < 5


def test_a_body_in_pieces_without_end_is_not_taken(server: HttpServer) -> None:
    piece = b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
    with server.connection() as connection:
        connection.sendall(head(server, "Transfer-Encoding: chunked"))
        with pytest.raises(ConnectionError):
            connection.sendall(piece * 64)


def test_who_has_no_token_does_not_get_as_far_as_a_body(server: HttpServer) -> None:
    with server.connection() as connection:
        connection.sendall(head(server, f"Content-Length: {1 << 20}").replace(TOKEN.encode(), b"another"))
        assert_refused(connection, b"401")


def test_who_sends_slowly_is_not_waited_for(server: HttpServer) -> None:
    slow = {
        "nothing at all": b"",
        "a head without end": b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: ",
        "a second head": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /",
        "a body without end": head(server, "Content-Length: 100") + b"{",
    }
    with ThreadPoolExecutor(len(slow)) as pool:
        took = dict(zip(slow, pool.map(lambda sent: _held_open_s(server, sent), slow.values()), strict=True))
    assert all(5 < seconds < 40 for seconds in took.values()), took


def test_a_head_that_is_too_long_is_refused(server: HttpServer) -> None:
    with server.connection() as connection:
        connection.sendall(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20))
        found = b""
        try:
            found = connection.recv(65536)
        except ConnectionError:
            return
    assert found.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"GET /mcp HTTP/1.1\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(server: HttpServer, sent: bytes) -> None:
    with server.connection() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        found = connection.recv(65536)
    assert not found or found.split()[1] in (b"400", b"401", b"421")


def test_connections_that_say_nothing_keep_nobody_else_out_for_long(server: HttpServer) -> None:
    held = [server.connection() for _ in range(300)]
    try:
        assert call(server).status_code == 200
    finally:
        for connection in held:
            connection.close()


def _held_open_s(server: HttpServer, sent: bytes) -> float:
    """How long a connection stays open that sends this, and then a byte now and then."""
    begun = time.monotonic()
    with server.connection() as connection:
        connection.settimeout(1)
        connection.sendall(sent)
        while time.monotonic() - begun < 50:
            try:
                if not connection.recv(65536):
                    break
            except TimeoutError:
                with suppress(ConnectionError):  # told when reading
                    connection.sendall(b"x" if sent else b"")
            except ConnectionError:
                break
    return time.monotonic() - begun


def head(server: HttpServer, *more: str) -> bytes:
    """The head of a request that a body would follow."""
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def assert_refused(connection: socket.socket, *statuses: bytes) -> None:
    """The server says so, and closes the connection."""
    found = b""
    while part := connection.recv(65536):
        found += part
    assert found.split()[1] in statuses, found
    error = json.loads(found.partition(b"\r\n\r\n")[2])["error"]
    assert error["message"].startswith("expected ")
