"""Another MCP server answers with more than one message may be: packed, in events, or in many pages."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.mcp_server.answers import answer
from tests.bridge_world import Bridged

LIMIT = 200_000
"""How long a message may be here."""

UNPACKED_MB = 400


def bomb(begins: bytes) -> bytes:
    """What `deflate` unpacks to so many megabytes, in a thousandth of the bytes."""
    packer = zlib.compressobj(1)
    head = packer.compress(begins) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(b" " * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + piece * UNPACKED_MB


class Bombing(BaseHTTPRequestHandler):
    """A server that packs what it offers, as one answer or as events."""

    protocol_version = "HTTP/1.1"
    kind = "application/json"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("method") == "initialize":
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            result = {**about, "serverInfo": {"name": "bombing", "version": "1"}}
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
            self._answer(200, body, {"Content-Type": "application/json"})
        elif asked.get("method") == "tools/list":
            self._bomb()
        elif "id" in asked:
            error = {"code": -32601, "message": "no such method"}
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
            self._answer(200, body, {"Content-Type": "application/json"})
        else:
            self._answer(202, b"", {})

    def do_GET(self) -> None:
        self._answer(405, b"", {})

    def _bomb(self) -> None:
        body = bomb(b": wait\n" if self.kind == "text/event-stream" else b"")
        self._answer(200, body, {"Content-Type": self.kind, "Content-Encoding": "deflate"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def handle(self) -> None:
        with suppress(OSError):  # the client has gone
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def bombing(kind: str) -> Iterator[str]:
    """The address of such a server, as long as the block lasts."""
    handler = type("Handler", (Bombing,), {"kind": kind})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"], ids=["json", "events"])
async def test_what_is_packed_counts_as_what_it_unpacks_to(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, unpacked = Bridged(tmp_path), Unpacking()
    unpacked.watch(monkeypatch)
    begun = time.process_time()
    config = {"transport": "http", "server": "bombing", "max_message_bytes": LIMIT}
    with bombing(kind) as url, pytest.raises(RyeError) as refused:
        await scene.offered({**config, "url": url})
    assert refused.value.code == "lost"
    assert f"{LIMIT} bytes" in refused.value.message
    assert unpacked.size < 4 * LIMIT
    assert time.process_time() - begun < 1.5


class Unpacking:
    """Counts what `zlib` has made of what was sent."""

    def __init__(self) -> None:
        self.size = 0

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        make, told = zlib.decompressobj, self

        class Counted:
            def __init__(self, *given: Any) -> None:
                self._made = make(*given)

            def decompress(self, *given: Any) -> bytes:
                data: bytes = self._made.decompress(*given)
                told.size += len(data)
                return data

            def __getattr__(self, name: str) -> Any:
                return getattr(self._made, name)

        patch.setattr(zlib, "decompressobj", Counted)


async def test_all_pages_of_a_list_are_one_message(tmp_path: Path) -> None:
    scene = Bridged(tmp_path)
    with pytest.raises(RyeError) as refused:
        await scene.offered(scene.config("heavy", max_message_bytes=LIMIT))
    assert refused.value.code == "lost"
    assert "in all its pages" in refused.value.message
    assert len(await scene.offered(scene.config("heavy", max_message_bytes=20 * LIMIT))) == 91


async def test_two_bytes_for_a_value_are_not_read(tmp_path: Path) -> None:
    """Eight megabytes that a reader needs seconds for, in which nobody else is answered."""
    found, took = await answered(tmp_path, "values")
    assert (found.success, found.code) == (False, "lost")
    assert "100000 values" in (found.error or "")
    assert took < 1


@pytest.mark.thorough
async def test_a_message_with_many_faults_is_not_told_fault_by_fault(tmp_path: Path) -> None:
    """A list of them takes seconds, and gigabytes."""
    found, took = await answered(tmp_path, "faults")
    assert (found.success, found.code) == (False, "tool_failed")
    assert "475000 faults" in (found.error or "")
    assert took < 2


async def test_what_nobody_sees_is_not_written_out_before_it_is_cut(tmp_path: Path) -> None:
    """Each character becomes four or more: 15 MiB of them took ten seconds, and a gigabyte."""
    scene = Bridged(tmp_path)
    await scene.add(scene.config(), "hide")
    async with scene.serving():
        found = await scene.call("hide", text="2000000")
    for facts in (found.as_dict(), {"status": "success", "data": {"said": found.data}}):
        begun = time.process_time()
        shown = answer(facts)
        took = time.process_time() - begun
        [block] = shown.model_dump()["content"]
        assert block["text"].endswith("characters in all: the structured content has them")
        assert len(block["text"]) < 5000
        assert took < 0.5
    assert found.data["content"][0]["text"] == "\x7f" * 2_000_000


async def answered(place: Path, tool: str) -> tuple[ExecutionResult, float]:
    """What a call comes to, after which the next call works, and for how long the processor works."""
    scene = Bridged(place)
    await scene.add(scene.config(), tool, "echo")
    async with scene.serving():
        await scene.call("echo", text="it is there")
        begun = time.process_time()
        found = await scene.call(tool)
        took = time.process_time() - begun
        assert (await scene.call("echo", text="the next call works")).success
    return found, took
