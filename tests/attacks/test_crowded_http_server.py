"""Clients with the token that want the server for themselves: by ids in use, by going, by not reading.

Each attack is made by raw connections, since no client of an SDK would do it. Meanwhile others are served.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.mcp_server.http import MAX_WAITING_BYTES
from rye_mcp.mcp_server.http_connections import MAX_CONNECTIONS, READ_LIMIT_S
from rye_mcp.mcp_server.http_requests import MAX_EACH, MAX_LISTENING, MAX_STREAMS
from tests.http_world import TOKEN, HttpServer, http_server, is_alive, post
from tests.people import Person

WAITING = '''\
"""Says who it is, and waits."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"

import os
import time


def main(pipe):
    with open(pipe, "w") as file:
        file.write(f"{os.getpid()}")
    time.sleep(600)
'''

ASKING = """\
name: {name}
version: "1.0.0"
description: Asks a server.
executor_id: http_runtime
tool_type: http
config:
  url: {url}
  timeout: {timeout}
"""

HELD = "# A page\n\n" + "long text\n" * 60_000
"""What a client reads as a resource: half a megabyte."""

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def slow_place() -> Iterator[str]:
    """A server whose `/slow` never answers."""
    over = threading.Event()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/slow":
                over.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    over.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person("ada", tmp_path_factory.mktemp("ada"))


@pytest.fixture(scope="module")
def project(ada: Person, slow_place: str) -> Path:
    project = ada.place / "project"
    ada.begin(project)
    tools, knowledge = project / ".ai/tools/demo", project / ".ai/knowledge/demo"
    for place in (tools, knowledge):
        place.mkdir(parents=True)
    (tools / "wait.py").write_text(WAITING)
    for name, timeout in (("slow", 60), ("fast", 5), ("late", 1)):
        url = f"{slow_place}/{'fast' if name == 'fast' else 'slow'}"
        (tools / f"{name}.yaml").write_text(ASKING.format(name=name, url=url, timeout=timeout))
    (knowledge / "held.md").write_text(f"---\nversion: 1.0.0\ntitle: Held\n---\n{HELD}")
    ada.rye("sign", "demo/*", cwd=project)
    ada.rye("sign", "demo/held", "--type", "knowledge", cwd=project)
    return project


@pytest.fixture
def server(ada: Person, project: Path) -> Iterator[HttpServer]:
    with http_server(ada, project) as found:
        yield found
        assert answered(found).status == 200


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    return pipe


def message(method: str, number: Any = 1, **parameters: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


def execute(item_id: str, number: Any = 1, **more: Any) -> dict[str, Any]:
    return message("tools/call", number, name="execute", arguments={"item_id": item_id, **more})


def waiting(pipe: Path, number: Any = 1) -> dict[str, Any]:
    return execute("demo/wait", number, parameters={"pipe": str(pipe)})


INITIALIZE = message(
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "tests", "version": "1"},
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def sent(sender: HttpServer, content: dict[str, Any], path: str = "/mcp", **headers: str) -> bytes:
    """A request in bytes."""
    body = json.dumps(content).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def listening(path: str, **headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}"]
    lines += [
        "Accept: text/event-stream",
        *(f"{name.replace('_', '-')}: {each}" for name, each in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def session_of(server: HttpServer) -> dict[str, str]:
    """A session of 2025: the headers of its requests."""
    found = post(server, INITIALIZE)
    session = {"Mcp_Session_Id": found.headers["mcp-session-id"], "MCP_Protocol_Version": "2025-11-25"}
    assert post(server, INITIALIZED, **session).status_code == 202
    return session


def modern(method: str, name: str = "") -> dict[str, str]:
    return {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, **({"Mcp_Name": name} if name else {})}


def answered(server: HttpServer, item_id: str = "") -> http.client.HTTPResponse:
    """What an honest client of 2026 gets, within a bound."""
    call = execute(item_id) if item_id else message("tools/call", name="search", arguments={"limit": 1})
    call["params"]["_meta"] = META
    headers = modern("tools/call", call["params"]["name"])
    with server.connection() as connection:
        connection.sendall(sent(server, call, **headers))
        found = http.client.HTTPResponse(connection)
        found.begin()
        found.read_now = found.read()  # type: ignore[attr-defined]
        assert b'"result"' in found.read_now, found.read_now  # type: ignore[attr-defined]
        return found


def read_until(connection: socket.socket, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        piece = connection.recv(65536)
        assert piece, found
        found += piece
    return found


def endpoint(connection: socket.socket) -> str:
    """Where the messages of a connection of events go."""
    found = read_until(connection, b"session_id=")
    while not found.rstrip(b" ").endswith(b"\n"):
        found += connection.recv(65536)
    return found.partition(b"data: ")[2].split()[0].decode()


def events(server: HttpServer, *, buffer: int | None = None) -> tuple[socket.socket, str]:
    """A connection of events, of a client that has begun its session, and where its messages go."""
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(listening("/sse"))
    path = endpoint(connection)
    assert post(server, INITIALIZE, path).status_code == 202
    read_until(connection, b'"serverInfo"')
    assert post(server, INITIALIZED, path).status_code == 202
    return connection, path


def pid_from(pipe: Path) -> int:
    """Who the waiting tool is, once it runs."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([descriptor], [], [], 30)[0]
        while not (found := os.read(descriptor, 100)):
            time.sleep(0.01)
        return int(found)
    finally:
        os.close(descriptor)


def ends_within(pid: int, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


# --- ids in use -----------------------------------------------------------------


@pytest.mark.parametrize("second", [5, "5", " 5"])
def test_the_id_of_a_running_call_is_no_id_for_another(server: HttpServer, pipe: Path, second: Any) -> None:
    """The SDK would forget the running one: nobody could end it any more."""
    session = session_of(server)
    with server.connection() as connection:
        connection.sendall(sent(server, waiting(pipe, 5), **session))
        pid = pid_from(pipe)
        refused = post(server, message("ping", second), **session)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
        assert is_alive(pid)
    assert ends_within(pid, 3)
    assert post(server, message("ping", 5), **session).status_code == 200


def test_the_id_of_a_running_call_is_no_id_for_another_with_events_either(
    server: HttpServer, pipe: Path
) -> None:
    connection, path = events(server)
    with connection:
        assert post(server, waiting(pipe, 5), path).status_code == 202
        pid = pid_from(pipe)
        for spelling in (path, f"{path}&x=1", path.replace("/messages/", "/messages/more")):
            assert post(server, message("ping", "5"), spelling).status_code == 400, spelling
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert post(server, cancel, path).status_code == 202
        assert ends_within(pid, 3)
        assert post(server, message("ping", 5), path).status_code == 202
        read_until(connection, b'"id":5')


def test_the_name_of_a_stream_is_no_id(server: HttpServer, pipe: Path) -> None:
    session = session_of(server)
    with server.connection() as stream:
        stream.sendall(listening("/mcp", **session))
        read_until(stream, b"\r\n\r\n")
        with server.connection() as connection:
            connection.sendall(sent(server, waiting(pipe, "_GET_stream"), **session))
            assert connection.recv(65536).startswith(b"HTTP/1.1 400")


def test_what_an_exchange_leaves_behind_ends_with_it(server: HttpServer, pipe: Path) -> None:
    """A session that ends answers its calls with an end, and no tool goes on."""
    session = session_of(server)
    with server.connection() as connection:
        connection.sendall(sent(server, waiting(pipe), **session))
        pid = pid_from(pipe)
        with server.connection() as other:
            other.sendall(listening("/mcp", **session).replace(b"GET", b"DELETE", 1))
            read_until(other, b"\r\n\r\n")
        assert ends_within(pid, 3)


# --- going without being noticed ------------------------------------------------


WAYS = ["2025", "2026", "events"]


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_sends_ahead_and_goes_is_noticed(server: HttpServer, pipe: Path, way: str) -> None:
    call = waiting(pipe)
    with ExitStack() as stack:
        if way == "events":
            connection, path = events(server)
            stack.enter_context(connection)
            assert post(server, call, path).status_code == 202
        else:
            connection = stack.enter_context(server.connection())
            headers = session_of(server) if way == "2025" else modern("tools/call", "execute")
            call["params"]["_meta"] = META if way == "2026" else {}
            connection.sendall(sent(server, call, **headers))
        pid = pid_from(pipe)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        time.sleep(0.3)
        assert is_alive(pid)
    assert ends_within(pid, 3)


def test_a_client_that_sends_ahead_without_end_is_closed(server: HttpServer, pipe: Path) -> None:
    with server.connection() as connection:
        connection.sendall(sent(server, waiting(pipe), **session_of(server)))
        pid = pid_from(pipe)
        with pytest.raises(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000_000)
    assert ends_within(pid, 3)


def test_requests_that_were_sent_ahead_are_answered(server: HttpServer) -> None:
    with server.connection() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
        found = b""
        while found.count(b'{"status":"ok"}') < 4:
            found += connection.recv(65536)


# --- not reading ----------------------------------------------------------------


HOLD = message("resources/read", uri="rye://item/knowledge/demo/held")


def deaf(server: HttpServer, count: int, *, buffer: int | None = 2048) -> tuple[socket.socket, str]:
    """A client of events that asks for much, and reads nothing; where its messages go."""
    connection, path = events(server, buffer=buffer)
    with posting(server, path) as post_here:
        for number in range(count):
            if post_here({**HOLD, "id": f"deaf {number}"}) != 202:
                break
    return connection, path


@contextmanager
def posting(server: HttpServer, path: str, **headers: str) -> Iterator[Callable[[dict[str, Any]], int]]:
    """Posts messages by one connection, and says with which status they were answered."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as client:

        def post_here(content: dict[str, Any]) -> int:
            head, _, body = sent(server, content, path, **headers).partition(b"\r\n\r\n")
            lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
            client.request("POST", path, body, {name: value for name, _, value in lines})
            found = client.getresponse()
            found.read()
            return found.status

        yield post_here


def test_a_client_that_does_not_read_keeps_nobody_from_being_told(
    ada: Person, project: Path, server: HttpServer
) -> None:
    with ExitStack() as stack:
        clients = []
        for is_deaf in (True, False):
            connection, path = events(server, buffer=2048 if is_deaf else None)
            clients.append((stack.enter_context(connection), path))
            assert post(server, message("resources/list", 7), path).status_code == 202
            read_until(connection, b'"id":7')
        with posting(server, clients[0][1]) as post_here:
            for number in range(30):
                assert post_here({**HOLD, "id": f"deaf {number}"}) == 202
        for name in ("one", "two", "three"):
            begun = time.monotonic()
            ada.rye("new", "--type", "knowledge", f"told/{name}", "--sign", cwd=project)
            read_until(clients[1][0], b"notifications/resources/list_changed")
            assert time.monotonic() - begun < 8


@pytest.mark.thorough
def test_answers_for_a_client_that_does_not_read_are_not_kept_without_end(ada: Person, project: Path) -> None:
    with http_server(ada, project, installed=True) as server:
        assert answered(server).status == 200
        before = _memory(server)
        with deaf(server, 1200)[0]:
            time.sleep(1)
            grown = _memory(server) - before
            assert grown < 16 * MAX_WAITING_BYTES, f"{grown >> 20} MiB"
            assert answered(server).status == 200


@pytest.mark.thorough
def test_answers_beyond_what_is_kept_become_errors(server: HttpServer) -> None:
    connection, _ = deaf(server, 60, buffer=None)
    pieces = []
    with connection, suppress(TimeoutError):
        time.sleep(4)
        connection.settimeout(2)
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    found = b"".join(pieces)
    assert (found.count(b'"jsonrpc"'), found.count(b"reads its answers") > 10) == (60, True)
    assert len(found) < 2 * MAX_WAITING_BYTES


@pytest.mark.thorough
def test_one_session_cannot_have_every_call(server: HttpServer) -> None:
    with deaf(server, MAX_EACH + 50)[0]:
        time.sleep(0.5)
        for _ in range(3):
            assert answered(server).status == 200


@pytest.mark.thorough
def test_a_client_that_reads_nothing_is_closed(server: HttpServer) -> None:
    begun = time.monotonic()
    connection, path = deaf(server, 40)
    with connection:
        while post(server, INITIALIZED, path).status_code == 202:
            assert time.monotonic() - begun < 1.6 * READ_LIMIT_S
            time.sleep(0.5)


def _memory(server: HttpServer) -> int:
    """How much the server holds, in bytes."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError


# --- one session for all --------------------------------------------------------


def test_a_session_begins_once(server: HttpServer) -> None:
    session = session_of(server)
    refused = post(server, {**INITIALIZE, "id": 2}, **session)
    assert '"code":-32600' in refused.text
    connection, path = events(server)
    with connection:
        assert post(server, {**INITIALIZE, "id": 2}, path).status_code == 202
        assert b'"code":-32600' in read_until(connection, b'"id":2')


@pytest.mark.thorough
def test_one_session_keeps_no_other_from_being_told(ada: Person, project: Path, server: HttpServer) -> None:
    honest, path = events(server)
    with honest:
        assert post(server, message("resources/list", 7), path).status_code == 202
        read_until(honest, b'"id":7')
        session = session_of(server)
        with posting(server, "/mcp", **session) as post_here:
            for number in range(300):
                assert post_here({**INITIALIZE, "id": number}) == 200
                assert post_here(INITIALIZED) == 202
        ada.rye("new", "--type", "knowledge", "told/others", "--sign", cwd=project)
        read_until(honest, b"notifications/resources/list_changed")


@pytest.mark.thorough
def test_slow_requests_of_one_session_keep_no_other_from_asking(server: HttpServer) -> None:
    session = session_of(server)
    with ExitStack() as stack:
        for number in range(25):
            connection = stack.enter_context(server.connection())
            connection.sendall(sent(server, execute("demo/slow", number), **session))
        time.sleep(2)
        begun = time.monotonic()
        found = json.loads(answered(server, "demo/fast").read_now)["result"]  # type: ignore[attr-defined]
        assert found["structuredContent"]["status"] == "success", found
        assert time.monotonic() - begun < 4
        late = post(server, execute("demo/late", "late"), **session).text
        assert "for a place" in late


# --- connections and streams ----------------------------------------------------


@pytest.mark.thorough
def test_strangers_from_many_addresses_of_loopback_are_one_client(server: HttpServer) -> None:
    with _strangers(server, MAX_CONNECTIONS + 88):
        for _ in range(6):
            with server.connection() as honest, _strangers(server, 300):
                honest.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert honest.recv(65536).startswith(b"HTTP/1.1 200")


@contextmanager
def _strangers(server: HttpServer, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing, each from another address of this machine."""
    with ExitStack() as stack:
        held = []
        for number in range(count):
            made = stack.enter_context(socket.socket())
            made.bind((f"127.{1 + os.urandom(1)[0] % 250}.{number >> 8}.{1 + number % 250}", 0))
            made.connect(("127.0.0.1", server.port))
            held.append(made)
        yield held


@pytest.mark.thorough
@pytest.mark.first_case
@pytest.mark.parametrize("path", ["/sse", "/mcp"])
def test_nobody_holds_every_stream(server: HttpServer, path: str) -> None:
    honest, messages = events(server)
    with honest, ExitStack() as stack:
        assert post(server, message("tools/list", 7), messages).status_code == 202
        read_until(honest, b'"id":7')
        for _ in range(MAX_STREAMS + 20):
            connection = stack.enter_context(server.connection())
            session = session_of(server) if path == "/mcp" else {}
            connection.sendall(listening(path, **session))
            read_until(connection, b"\r\n\r\n")
        late, late_path = events(server)
        with late:
            assert post(server, message("tools/list", 8), late_path).status_code == 202
            read_until(late, b'"id":8')
        assert post(server, message("ping", 9), messages).status_code == 202
        read_until(honest, b'"id":9')


def test_a_stream_that_is_resumed_after_an_event_begins_again(server: HttpServer) -> None:
    """Clients ask so after a broken connection; there is nothing that could be repeated."""
    with server.connection() as connection:
        connection.sendall(listening("/mcp", Last_Event_ID="7", **session_of(server)))
        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_nobody_holds_every_subscription_by_one_stream(server: HttpServer) -> None:
    """The SDK takes 1,024 of them, of all clients together."""
    with server.connection() as connection:
        connection.sendall(listening("/sse"))
        path = endpoint(connection)
        wanted = {"notifications": {"toolsListChanged": True}, "_meta": META}
        for number in range(MAX_LISTENING):
            assert post(server, message("subscriptions/listen", number, **wanted), path).status_code == 202
            read_until(connection, b"subscriptions/acknowledged")
        assert post(server, message("subscriptions/listen", "more", **wanted), path).status_code == 202
        assert b'"code":-32000' in read_until(connection, b'"id":"more"')
