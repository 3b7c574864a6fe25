"""Whoever reaches the server over HTTP: without its token, from a page in a browser, or with no request.

After each attack the next call of an honest client works.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

from rye_mcp.mcp_server.http import MAX_SESSIONS
from rye_mcp.mcp_server.http_connections import STRANGER_GRACE_S
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
    ada.begin(project)
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


@pytest.mark.each_once
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


@pytest.mark.each_once
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example:1",
        "192.0.2.1",
        "[::2]",
        "127.0.0.1:1@evil.example",
        "localhost:1.evil.example",
        "localhost:80:90",
        "localhost:",
        "localhost:x",
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/?session_id=0", "/nothing"])
def test_a_name_that_was_led_to_this_machine_opens_nothing(server: HttpServer, host: str, path: str) -> None:
    assert post(server, message(), path, Host=host).status_code == 421


@pytest.mark.each_once
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "http://localhost.evil.example:1",
        "file://",
        "http://127.0.0.1:1@evil.example",
        "http://localhost:1.evil.example",
        "http://localhost:1/evil",
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages/?session_id=0", "/nothing"])
def test_a_page_of_somebody_else_opens_nothing(server: HttpServer, origin: str, path: str) -> None:
    found = post(server, message(), path, Origin=origin)
    assert found.status_code == 403
    assert "access-control-allow-origin" not in found.headers


def test_a_page_of_this_machine_and_a_name_of_it_are_fine(server: HttpServer) -> None:
    assert call(server, Host="localhost:1", Origin=f"http://localhost:{server.port}").status_code == 200
    assert call(server, Host="LocalHost", Origin="HTTP://[::1]").status_code == 200


LEGACY = {"MCP-Protocol-Version": "2025-11-25"}
MODERN = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "search"}


@pytest.mark.each_once
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


IDS = [
    "1.0",
    "1e0",
    "null",
    "true",
    "[1]",
    "{}",
    "9" * 5000,
    f"{1 << 53}",
    f'"{"x" * 1025}"',
    f'"{"x" * 3_000_000}"',
]
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}


def test_an_invalid_id_is_refused_on_every_transport(server: HttpServer) -> None:
    session = {**LEGACY, "Mcp-Session-Id": post(server, INITIALIZE).headers["mcp-session-id"]}
    with server.connection() as events:
        events.sendall(head(server).replace(b"POST /mcp", b"GET /sse"))
        path = _endpoint(events)
        for number in IDS:
            for name, more in (("id", ""), ("\\u0069d", ""), ("id", ',"params":{"a":NaN}')):
                sent = f'{{"jsonrpc":"2.0","{name}":{number},"method":"ping"{more}}}'.encode()
                for found in (post(server, sent, path), post(server, sent, **session)):
                    assert (found.status_code, found.json()["error"]["code"]) == (400, -32600), sent[:99]
                    assert found.json()["id"] is None
        assert post(server, b'{"jsonrpc":"2.0","method":"notifications/x"}', path).status_code == 202
    assert post(server, b'{"jsonrpc":"2.0","id":"1","method":"ping"}', **session).status_code == 200


def _endpoint(events: socket.socket) -> str:
    """Where the messages of a connection of events go."""
    found = b""
    while b"data: " not in found or not found.endswith(b"\n"):
        found += events.recv(65536)
    return found.partition(b"data: ")[2].split()[0].decode()


def test_the_revision_that_needs_batches_is_not_agreed_on_here_either(server: HttpServer) -> None:
    wanted = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-03-26"}}
    found = post(server, wanted)
    assert '"protocolVersion":"2024-11-05"' in found.text
    session = {"MCP-Protocol-Version": "2024-11-05", "Mcp-Session-Id": found.headers["mcp-session-id"]}
    assert post(server, b'{"jsonrpc":"2.0","id":"1","method":"ping"}', **session).status_code == 200


@pytest.mark.parametrize("era", [LEGACY, MODERN], ids=["2025", "2026"])
def test_media_types_count_in_any_case(server: HttpServer, era: dict[str, str]) -> None:
    types = {
        "Content-Type": "Application/JSON; Charset=UTF-8",
        "Accept": "APPLICATION/JSON, Text/Event-Stream",
    }
    if era is LEGACY:
        assert post(server, INITIALIZE, **era, **types).status_code == 200
    else:
        assert post(server, message(), **era, **types).status_code == 200


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


@pytest.mark.parametrize(("token", "status"), [(TOKEN, b"413"), ("another", b"401")])
def test_a_client_that_sends_all_of_a_large_body_first_reads_why_it_is_refused(
    server: HttpServer, token: str, status: bytes
) -> None:
    body = b" " * (6 << 20)
    with server.connection() as connection:
        sent = head(server, f"Content-Length: {len(body)}").replace(TOKEN.encode(), token.encode())
        connection.sendall(sent + body)
        assert_refused(connection, status)


def test_without_a_token_no_body_is_read(server: HttpServer) -> None:
    with server.connection() as connection:
        connection.sendall(head(server, f"Content-Length: {1 << 20}").replace(TOKEN.encode(), b"another"))
        assert_refused(connection, b"401")


def test_a_session_keeps_no_handshake_that_is_long(server: HttpServer) -> None:
    """A session keeps what its client says of itself, and there may be a thousand sessions."""
    about = {"clientInfo": {"name": "a" * 100_000, "version": "1"}, "protocolVersion": "2025-11-25"}
    handshake = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**about, "capabilities": {}}}
    assert post(server, handshake).status_code == 413


@pytest.mark.thorough
def test_a_slow_sender_is_not_waited_for(server: HttpServer) -> None:
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


@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
def test_a_long_head_that_arrives_at_once_is_refused_too(server: HttpServer, path: str) -> None:
    with server.connection() as connection:
        line = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {'x' * (40 << 10)}\r\n\r\n"
        connection.sendall(line.encode())
        assert connection.recv(65536).split()[1] in (b"400", b"431")


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


def test_holding_every_connection_without_the_token_keeps_nobody_out(server: HttpServer) -> None:
    with httpx.Client(trust_env=False, headers=server.headers) as client, _strangers(server, 600):
        begun = time.monotonic()
        assert call(server).status_code == 200
        assert client.get(f"{server.base}/readyz").status_code == 200
        assert time.monotonic() - begun < 5


def test_a_connection_that_has_called_is_not_closed_for_strangers(server: HttpServer) -> None:
    with server.connection() as known:
        for _ in range(2):
            body = json.dumps(INITIALIZE).encode()
            known.sendall(head(server, f"Content-Length: {len(body)}") + body)
            found = b""
            while b"0\r\n\r\n" not in found:
                piece = known.recv(65536)
                assert piece, found
                found += piece
            assert found.startswith(b"HTTP/1.1 200")
            with _strangers(server, 600):
                assert call(server).status_code == 200


def test_one_client_has_few_connections_without_the_token(server: HttpServer) -> None:
    with _strangers(server, 100) as earlier:
        assert call(server).status_code == 200  # so the server has taken each of them
        time.sleep(STRANGER_GRACE_S + 0.2)
        with _strangers(server, 60):
            assert call(server).status_code == 200
            assert sum(map(_is_open, earlier)) <= 100 - 60


@contextmanager
def _strangers(server: HttpServer, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(server.connection()) for _ in range(count)]


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


SMUGGLED = ["Transfer-Encoding: chunked", "Content-Length: 5"]


@pytest.mark.parametrize("more", [SMUGGLED, SMUGGLED[::-1]], ids=["chunked first", "length first"])
def test_a_head_that_says_twice_where_the_body_ends_is_refused(server: HttpServer, more: list[str]) -> None:
    """A proxy before the server may believe the other one, and take a part of the body for a request."""
    with server.connection() as connection:
        connection.sendall(head(server, *more) + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert_refused(connection, b"400")


@pytest.mark.parametrize("first", ["Bearer another", f"Bearer {TOKEN}"])
def test_two_tokens_count_as_none(server: HttpServer, first: str) -> None:
    with server.connection() as connection:
        sent = head(server, f"Authorization: Bearer {TOKEN}").replace(TOKEN.encode(), first[7:].encode(), 1)
        connection.sendall(sent)
        assert_refused(connection, b"401")


BATCHES: dict[str, Any] = {
    "empty": [],
    "one": [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
    "a notification": [{"jsonrpc": "2.0", "method": "notifications/initialized"}],
    "an answer": [{"jsonrpc": "2.0", "id": 1, "result": {}}],
    "a handshake": [INITIALIZE],
    "nested": [[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]],
    "many": [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(20_000)],
}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", VERSION])
def test_a_batch_is_refused_in_every_revision(server: HttpServer, revision: str) -> None:
    session = {"MCP-Protocol-Version": revision, "Mcp-Session-Id": _session(server)}
    for name, batch in BATCHES.items():
        found = post(server, json.dumps(batch).encode(), **session)
        assert (found.status_code, found.json()["error"]["code"]) == (400, -32600), name
        assert "found a batch" in found.text


HELD = {
    "idle": (b"GET /nothing HTTP/1.1", b""),
    "in the middle of a body": (b"POST /mcp HTTP/1.1\r\nContent-Length: 100\r\nExpect: 100-continue", b"{"),
    "with a stream": (b"GET /sse HTTP/1.1", b""),
}


@pytest.mark.thorough
@pytest.mark.parametrize("how", HELD)
def test_holding_every_connection_with_the_token_keeps_nobody_out(server: HttpServer, how: str) -> None:
    first, rest = HELD[how]
    sent = first + f"\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode() + rest
    with ExitStack() as stack:
        for _ in range(600 // 50):
            held = [stack.enter_context(server.connection()) for _ in range(50)]
            for connection in held:
                connection.sendall(sent)
            for connection in held:
                assert connection.recv(1) == b"H"  # so it was let through
        for _ in range(3):
            assert call(server).status_code == 200
            assert post(server, INITIALIZE).status_code == 200


@pytest.mark.thorough
def test_clients_that_go_without_a_word_keep_nobody_out(server: HttpServer) -> None:
    """More sessions than there may be: the ones that are idle for longest make room."""
    ours = {**LEGACY, "Mcp-Session-Id": _session(server)}
    ping = b'{"jsonrpc":"2.0","id":"1","method":"tools/list"}'
    assert post(server, ping, **ours).status_code == 200
    headers = {**server.headers, "Accept": "application/json, text/event-stream"}
    with httpx.Client(trust_env=False, headers=headers, timeout=30) as client:
        found = {client.post(server.url, json=INITIALIZE).status_code for _ in range(MAX_SESSIONS + 10)}
    assert found == {200}
    assert post(server, ping, **ours).status_code == 200


def _session(server: HttpServer) -> str:
    return post(server, INITIALIZE).headers["mcp-session-id"]


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
