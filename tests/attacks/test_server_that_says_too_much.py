"""Another MCP server says more than anybody asked for, answers nothing, or sends its client elsewhere."""

from __future__ import annotations

import gzip
import json
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.bridge import connection, http, incoming, stdio
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.jobs import Watch
from rye_mcp.executor.results import ExecutionResult
from tests.bridge_world import RAW, Bridged
from tests.raw_mcp_server import UNASKED

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "attack")]
EVENTS = "text/event-stream"
CHANGED = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
UNKNOWN = b"event: whatever\ndata: 1\n\n"
METADATA = "http://169.254.169.254/latest/meta-data/"

Answers = Callable[["Scripted", Mapping[str, Any]], None]


class Scripted(BaseHTTPRequestHandler):
    """A server that answers as MCP has it, but for what `attack` and `listen` do."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    attack: Answers | None = None
    listen: Answers | None = None
    instead: Mapping[str, Answers] = {}
    asked: list[str]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = asked.get("method", "an answer")
        self.asked.append(method)
        if method in self.instead:
            self.instead[method](self, asked)
        elif method == "initialize":
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}}
            self.say(asked, {**about, "serverInfo": {"name": "scripted", "version": "1"}})
        elif method == "tools/list":
            self.say(asked, {"tools": TOOLS})
        elif method == "tools/call" and asked["params"]["name"] == "attack" and self.attack:
            type(self).__dict__["attack"](self, asked)
        elif method == "tools/call":
            self.say(asked, {"content": [{"type": "text", "text": "echo"}]})
        elif "id" in asked and "method" in asked:
            self.tell({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "none"}})
        else:
            self.answer(202)

    def do_GET(self) -> None:
        self.asked.append("GET")
        if self.listen:
            answer: Answers = vars(type(self))["listen"]
            answer(self, {})
        else:
            self.answer(405)

    def do_DELETE(self) -> None:
        self.asked.append("DELETE")
        if "DELETE" in self.instead:
            self.instead["DELETE"](self, {})
        else:
            self.answer(200)

    def say(self, asked: Mapping[str, Any], result: Mapping[str, Any], **more: Any) -> None:
        self.tell({"jsonrpc": "2.0", "id": asked["id"], "result": result, **more})

    def tell(self, message: Any, **headers: str) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.answer(200, body, Content_Type="application/json", Mcp_Session_Id="s", **headers)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.begin(status, Content_Length=str(len(body)), **headers)
        self.wfile.write(body)

    def begin(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def pour(self, piece: bytes, *, times: int = 1 << 40) -> None:
        """Events until the client goes away."""
        self.begin(200, Content_Type=EVENTS, Connection="close")
        for _ in range(times):
            self.wfile.write(piece)
        self.close_connection = True

    def wait(self) -> None:
        """Answer nothing, for longer than anybody waits here."""
        with suppress(OSError):
            self.connection.settimeout(30)
            self.connection.recv(1)
        self.close_connection = True

    def handle(self) -> None:
        with suppress(OSError):  # the client has gone
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Nothing: clients go away."""


@contextmanager
def scripted(
    *, attack: Answers | None = None, listen: Answers | None = None, **instead: Answers
) -> Iterator[tuple[str, list[str]]]:
    """The address of such a server, and what it was asked."""
    asked: list[str] = []
    named = {name.replace("_", "/"): does for name, does in instead.items()}
    parts = {"attack": attack, "listen": listen, "instead": named, "asked": asked}
    with Quiet(("127.0.0.1", 0), type("Handler", (Scripted,), parts)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def scene(tmp_path: Path) -> Bridged:
    return Bridged(tmp_path)


def at(url: str, **more: Any) -> dict[str, Any]:
    return {"transport": "http", "server": "raw", "url": url, "start_timeout": 10, **more}


async def attacked(scene: Bridged, config: Mapping[str, Any], *, timeout: float = 10) -> ExecutionResult:
    """What a call comes to, after which the next one works."""
    await scene.add(config, "echo", "attack")
    async with scene.serving():
        found = await scene.call("attack", timeout=timeout)
        assert (await scene.call("echo", timeout=5)).success
    return found


# --- what it packs ---


@pytest.mark.first_case
@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip", "deflate, br", "gzip, identity"])
async def test_no_encoding_but_one_that_is_counted_is_unpacked(scene: Bridged, coding: str) -> None:
    packed = gzip.compress(gzip.compress(b" " * (1 << 20)))
    with scripted(attack=lambda to, _: to.tell(packed, Content_Encoding=coding)) as (url, _):
        found = await attacked(scene, at(url))
    assert (found.success, found.code) == (False, "lost")
    assert "another encoding" in (found.error or "")


@pytest.mark.thorough
async def test_a_stream_that_answers_nothing_is_read_at_a_pace(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gigabyte a second of comments, in a thousandth of the bytes: they would keep the processor busy."""
    packer = zlib.compressobj(1, wbits=31)
    head = packer.compress(b": \n" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(b": \n" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)

    def listen(to: Scripted, _: Any) -> None:
        to.begin(200, Content_Type=EVENTS, Content_Encoding="gzip", Connection="close")
        to.wfile.write(head)
        while True:
            to.wfile.write(piece)

    read = counted(monkeypatch, http.HttpEndpoint, "pace", lambda _self, data, **_: len(data))
    with scripted(listen=listen) as (url, _):
        await scene.add(at(url, max_message_bytes=1 << 20), "echo")
        async with scene.serving():
            assert (await scene.call("echo")).success
            await anyio.sleep(0.5)
            assert (await scene.call("echo")).success
    assert 0 < sum(read) < 4 << 20


def counted(patch: pytest.MonkeyPatch, owner: Any, name: str, of: Callable[..., Any]) -> list[Any]:
    """What `of` makes of each call of this."""
    does, found = getattr(owner, name), []

    def count(*given: Any, **named: Any) -> Any:
        found.append(of(*given, **named))
        return does(*given, **named)

    patch.setattr(owner, name, count)
    return found


# --- what it says that nobody asked for ---


def slowed(patch: pytest.MonkeyPatch) -> None:
    """A pace that a test of a second can tell from none."""
    patch.setattr(incoming, "AT_ONCE", 200)
    patch.setattr(incoming, "PER_SECOND", 200)
    patch.setattr(http, "EVENTS", (200, 200))


async def test_a_flood_on_standard_error_is_read_at_a_pace(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program waits, and a call of it ends with its time."""
    monkeypatch.setattr(stdio, "STDERR_BYTES", (1 << 20, 1 << 19))
    await scene.add(scene.config(), "mutter", "echo")
    read = counted(monkeypatch, stdio.StdioProgram, "_hear", lambda _self, _stream, data, _: len(data))
    async with scene.serving():
        found = await scene.call("mutter", timeout=1)
    assert found.code == "timeout"
    assert 1 << 20 < sum(read) < 4 << 20


@pytest.mark.thorough
@pytest.mark.parametrize("tool", ["storm", "questions"])
async def test_a_flood_of_messages_is_heard_at_a_pace(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """Notifications, progress, questions: over standard output, the program waits."""
    slowed(monkeypatch)
    await scene.add(scene.config(), tool, "echo")
    heard = counted(monkeypatch, incoming.IncomingCheck, "look", lambda *_: 1)
    async with scene.serving():
        assert (await scene.call("echo", text="it is there")).success
        found = await scene.call(tool, timeout=1)
    assert found.code == "timeout"
    assert 100 < sum(heard) < 1200


@pytest.mark.parametrize("tool", ["answers", "chatter"])
async def test_what_answers_no_call_counts_whatever_it_is(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """Answers that nobody waits for; lines that are empty, no JSON, or the beginning of some."""
    await scene.add(scene.config(), tool)
    spent = counted(monkeypatch, incoming.Allowance, "spend", lambda _self, amount=1: amount)
    async with scene.serving():
        assert scene.text(await scene.call(tool)) == "mine"
    assert sum(spent) >= UNASKED


async def test_each_tool_is_looked_at_without_the_rest_of_its_page(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand tools beside 100,000 values are 100 million to look at."""
    page = {"tools": TOOLS, "_meta": {f"k{number}": number for number in range(5_000)}}
    looked_at = counted(monkeypatch, incoming, "_problem_of", lambda _tool, _number, page, _: len(str(page)))
    with scripted(tools_list=lambda to, asked: to.say(asked, page)) as (url, _):
        await scene.add(at(url), "echo")
        async with scene.serving():
            assert (await scene.call("echo")).success
    assert looked_at
    assert max(looked_at) < 1_000


async def test_progress_without_measure_is_passed_over(scene: Bridged) -> None:
    """A number that no float holds is more than the SDK can take: it would end the connection."""
    await scene.add(scene.config(), "progress", "echo")
    told: list[bytes] = []
    watch = Watch(on_output=lambda _stream, data, _skipped: told.append(data))
    async with scene.serving():
        found = await scene.call("progress", text="huge", timeout=5, watch=watch)
    assert (found.success, scene.text(found)) == (True, "done")
    assert sorted(told) == [b"1 of 2: part 1\n", b"2 of 2: part 2\n"]


@pytest.mark.thorough
@pytest.mark.parametrize("piece", [CHANGED, UNKNOWN], ids=["list_changed", "unknown events"])
async def test_a_storm_of_events_is_heard_at_a_pace(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch, piece: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    slowed(monkeypatch)
    heard = counted(monkeypatch, connection.Connection, "_hear", lambda *_: 1)
    with scripted(listen=lambda to, _: to.pour(piece * 100)) as (url, _):
        await scene.add(at(url), "echo")
        async with scene.serving():
            assert (await scene.call("echo")).success
            await anyio.sleep(1)
            assert (await scene.call("echo")).success
    assert sum(heard) < 6000
    assert len(caplog.records) < 6000


async def test_an_answer_of_events_without_end_is_cut(scene: Bridged) -> None:
    attack: Answers = lambda to, _: to.pour(b": wait\n" * 1000)  # noqa: E731 - one of a table
    with scripted(attack=attack) as (url, _):
        found = await attacked(scene, at(url, max_message_bytes=200_000))
    assert (found.success, found.code) == (False, "lost")


async def test_a_stream_that_ends_at_once_is_opened_at_a_pace(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`retry: 0` asks for another one immediately, and another one."""
    monkeypatch.setattr(http, "STREAMS", (3, 1))
    with scripted(listen=lambda to, _: to.pour(b"retry: 0\nid: 1\n\n", times=1)) as (url, asked):
        await scene.add(at(url), "echo")
        asked.clear()
        async with scene.serving():
            assert (await scene.call("echo")).success
            await anyio.sleep(1)
            assert (await scene.call("echo")).success
    assert 0 < asked.count("GET") < 8


# --- what it answers ---


async def test_an_answer_to_another_request_fails_its_call_at_once(scene: Bridged) -> None:
    attack: Answers = lambda to, asked: to.say({"id": asked["id"] + 1000}, {"content": []})  # noqa: E731
    with scripted(attack=attack) as (url, _):
        begun = time.monotonic()
        found = await attacked(scene, at(url), timeout=20)
    assert time.monotonic() - begun < 10
    assert (found.success, found.code) == (False, "tool_failed")
    assert "the id of another one" in (found.error or "")


async def test_an_error_without_an_id_is_that_of_its_request(scene: Bridged) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no idea"}}
    with scripted(attack=lambda to, _: to.tell(error)) as (url, _):
        found = await attacked(scene, at(url), timeout=20)
    assert (found.success, found.code) == (False, "tool_failed")
    assert "no idea" in (found.error or "")


async def test_what_answers_no_call_or_twice_reaches_nobody(scene: Bridged) -> None:
    await scene.add(scene.config(), "wrong_id", "echo")
    async with scene.serving():
        for _ in range(3):
            assert scene.text(await scene.call("wrong_id", timeout=5)) == "first"
            assert scene.text(await scene.call("echo", text="mine", timeout=5)) == "mine"


@pytest.mark.parametrize("how", ["half", "deep", "bytes"])
async def test_an_answer_over_http_that_cannot_be_read_fails_its_call_at_once(
    scene: Bridged, how: str
) -> None:
    text = {"half": b'"\\ud800"', "deep": b"[" * 300 + b"]" * 300, "bytes": b'"\xff"'}[how]

    def attack(to: Scripted, asked: Mapping[str, Any]) -> None:
        to.tell(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [], "a": %s}}' % (asked["id"], text))

    with scripted(attack=attack) as (url, _):
        begun = time.monotonic()
        found = await attacked(scene, at(url), timeout=20)
    assert time.monotonic() - begun < 10
    assert (found.success, found.code) == (False, "tool_failed")


# --- where it sends its client, and what it keeps waiting ---


def _redirected(to: Scripted, _: Mapping[str, Any], *, status: int, there: str) -> None:
    to.answer(status, Location=there)


@pytest.mark.first_case
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_another_host(scene: Bridged, status: int) -> None:
    with scripted() as (other, asked_there):
        for location in (other, METADATA, "//127.0.0.1:9/", "file:///etc/passwd"):
            redirect = partial(_redirected, status=status, there=location)
            with scripted(initialize=redirect, listen=redirect) as (url, _):
                with pytest.raises(RyeError) as refused:
                    await scene.offered(at(url))
                assert refused.value.code in ("lost", "tool_failed")
            with scripted(listen=redirect, attack=redirect, DELETE=redirect) as (url, _):
                assert (await attacked(Bridged(scene.place / f"{status}{len(location)}"), at(url))).code
        assert asked_there == []


@pytest.mark.parametrize("method", ["initialize", "tools_list"])
async def test_a_server_that_never_answers_is_given_up(scene: Bridged, method: str) -> None:
    begun = time.monotonic()
    with scripted(**{method: lambda to, _: to.wait()}) as (url, _), pytest.raises(RyeError) as refused:
        await scene.offered(at(url, start_timeout=0.5))
    assert refused.value.code == "timeout"
    assert time.monotonic() - begun < 8


async def test_nobody_waits_for_the_answer_to_a_farewell(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "UNASKED_LIMIT_S", 0.3)
    with scripted(DELETE=lambda to, _: to.wait()) as (url, asked):
        await scene.add(at(url), "echo")
        begun = time.monotonic()
        async with scene.serving():
            assert (await scene.call("echo")).success
    assert "DELETE" in asked
    assert time.monotonic() - begun < 4


async def test_nobody_waits_for_the_answer_to_a_refusal(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends one message after another; a server that lets one wait keeps no call waiting."""
    monkeypatch.setattr(http, "UNASKED_LIMIT_S", 0.3)
    question = b'data: {"jsonrpc":"2.0","id":"q","method":"roots/list"}\n\n'
    waits: Mapping[str, Answers] = {"an answer": lambda to, _: to.wait()}
    with scripted(listen=lambda to, _: to.pour(question, times=1), **waits) as (url, asked):
        await scene.add(at(url), "echo")
        async with scene.serving():
            assert (await scene.call("echo")).success
            await anyio.sleep(0.3)
            assert (await scene.call("echo", timeout=4)).success
    assert "an answer" in asked


async def test_a_list_that_never_comes_takes_no_longer_than_its_call(scene: Bridged) -> None:
    """A server that says that its tools have changed, and does not say how, keeps a call its own time."""
    lists = 0

    def listed(to: Scripted, asked: Mapping[str, Any]) -> None:
        nonlocal lists
        lists += 1
        to.say(asked, {"tools": TOOLS}) if lists < 3 else to.wait()

    with scripted(tools_list=listed, listen=lambda to, _: to.pour(CHANGED, times=1)) as (url, _):
        await scene.add(at(url), "echo")
        async with scene.serving():
            await scene.call("echo", timeout=1)
            begun = time.monotonic()
            await anyio.sleep(0.2)
            assert (await scene.call("echo", timeout=1)).code == "timeout"
    assert time.monotonic() - begun < 5


async def took(call: Awaitable[ExecutionResult]) -> tuple[str | None, float]:
    """The code of a call, and how many seconds it took."""
    begun = time.monotonic()
    found = await call
    return found.code, time.monotonic() - begun


async def test_callers_share_one_list_and_each_waits_for_its_own_time(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that never comes: three calls that were behind each other took as long as three lists."""
    stalled = threading.Event()

    def listed(to: Scripted, asked: Mapping[str, Any]) -> None:
        to.wait() if stalled.is_set() else to.say(asked, {"tools": TOOLS})

    found: list[tuple[str | None, float]] = []

    async def call() -> None:
        found.append(await took(scene.call("echo", timeout=1)))

    with scripted(tools_list=listed) as (url, asked):
        await scene.add(at(url), "echo")
        async with scene.serving():
            assert (await scene.call("echo")).success
            stalled.set()
            monkeypatch.setattr(connection, "LIST_AGE_S", -1.0)
            asked.clear()
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(call)
    assert asked.count("tools/list") == 1
    assert [code for code, _ in found] == ["timeout"] * 3
    assert max(seconds for _, seconds in found) < 3


@pytest.mark.parametrize("silent", ["stdio", "http"])
async def test_the_first_call_of_a_silent_server_ends_with_its_time(scene: Bridged, silent: str) -> None:
    server = scene.place / "server.py"
    server.write_text(RAW.read_text())
    stalled = threading.Event()

    def begun(to: Scripted, asked: Mapping[str, Any]) -> None:
        if stalled.is_set():
            to.wait()
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        to.say(asked, {**about, "serverInfo": {"name": "scripted", "version": "1"}})

    with scripted(initialize=begun) as (url, _):
        stdio = {**scene.config(), "args": [str(server), "good"]}
        await scene.add(stdio if silent == "stdio" else at(url), "echo")
        stalled.set()
        server.write_text("import time\ntime.sleep(60)\n")
        begun_at = time.monotonic()
        async with scene.serving():
            code, seconds = await took(scene.call("echo", timeout=1))
    assert (code, seconds < 3) == ("timeout", True)
    assert time.monotonic() - begun_at < 6


async def test_a_cancellation_that_nobody_answers_delays_no_later_call(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers it once the next call has come: who waited for the answer would call too late."""
    monkeypatch.setattr(http, "UNASKED_LIMIT_S", 8)
    called, came = threading.Event(), list[bool]()

    def cancelled(to: Scripted, _: Any) -> None:
        came.append(called.wait(6))
        to.answer(202)

    def call(to: Scripted, asked: Mapping[str, Any]) -> None:
        if asked["params"]["name"] == "attack":
            return to.wait()
        called.set()
        return to.say(asked, {"content": []})

    with scripted(tools_call=call, notifications_cancelled=cancelled) as (url, _):
        await scene.add(at(url), "echo", "attack")
        async with scene.serving():
            assert (await scene.call("attack", timeout=0.5)).code == "timeout"
            assert (await scene.call("echo", timeout=20)).success
    assert came == [True]


@pytest.mark.thorough
async def test_a_connection_that_does_not_end_keeps_no_later_call_waiting(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that says that a session is over, and never answers the farewell to it."""
    monkeypatch.setattr(http, "UNASKED_LIMIT_S", 30)
    over = {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Session terminated"}}
    attack: Answers = lambda to, asked: to.tell({**over, "id": asked["id"]})  # noqa: E731 - one of a table
    with scripted(attack=attack, DELETE=lambda to, _: to.wait()) as (url, _):
        await scene.add(at(url), "echo", "attack")
        async with scene.serving():
            assert (await scene.call("attack", timeout=5)).code == "lost"
            code, seconds = await took(scene.call("echo", timeout=10))
    assert (code, seconds < 4) == (None, True)


async def test_a_head_without_end_ends_its_connection_alone(scene: Bridged) -> None:
    def attack(to: Scripted, _: Any) -> None:
        to.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            to.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")

    with scripted(attack=attack) as (url, _):
        found = await attacked(scene, at(url))
    assert (found.success, found.code) == (False, "lost")


async def test_pages_without_end_are_not_asked_for(scene: Bridged) -> None:
    def pages(to: Scripted, asked: Mapping[str, Any]) -> None:
        to.say(asked, {"tools": [], "nextCursor": "again"})

    with scripted(tools_list=pages) as (url, asked), pytest.raises(RyeError) as refused:
        await scene.offered(at(url))
    assert refused.value.code == "lost"
    assert asked.count("tools/list") == connection.MAX_PAGES
    assert {"prompts/list", "resources/list"}.isdisjoint(asked)
