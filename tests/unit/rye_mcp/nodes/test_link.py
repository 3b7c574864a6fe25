"""A link to a worker whose part a test plays: what is sent, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from lilux._frames import FrameDecoder, decode_header, encode_frame
from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.workspace import ProjectTree, TreeFile
from rye_mcp.nodes.lines import Sink
from rye_mcp.nodes.link import Link
from rye_mcp.nodes.messages import Incoming, message
from rye_mcp.nodes.outcomes import encode_refusal
from rye_mcp.nodes.seal import Channel, Instance
from rye_mcp.runs.ids import new_run_id
from tests.worker_world import Pair, frames_of

pytestmark = pytest.mark.anyio

FILE = bytes(4 << 20)
UNDER_WAY = 1 << 20


class Worker:
    """A worker that asks for the first file of a list, and answers pings only when the test says so."""

    said = ""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.got = self.pings = 0
        self.hear: Callable[[bytes], None]
        self._channel: Channel
        self._frames = FrameDecoder()
        self._incoming = Incoming(limit=1 << 26)
        self._ended = anyio.Event()

    async def carry(self, hear: Callable[[bytes], None], begin: Callable[[Sink], None]) -> str:
        self.hear = hear
        begin(self)
        hear(encode_frame(self.instance.hello()))
        await self._ended.wait()
        return "that it ended"

    def end_input(self) -> None:
        self._ended.set()

    def tell(self, data: bytes) -> None:
        for raw, payload in self._frames.feed(data):
            header = decode_header(raw)
            if header["op"] == "call":
                _, self._channel = self.instance.open(header)
                continue
            for heard, body in self._incoming.feed(self._channel.open(header["n"], payload)):
                self.got += len(body) if heard["op"] == "blobs" else 0
                self.pings += heard["op"] == "ping"
                if heard["op"] == "tree":
                    self.say(message({"op": "wants"}, b"[0]"))

    def say(self, data: bytes) -> None:
        for frame in frames_of(self._channel, data):
            self.hear(frame)

    def pong(self) -> None:
        """Answer all pings that have come."""
        pings, self.pings = self.pings, 0
        for _ in range(pings):
            self.say(message({"op": "pong"}))


async def test_files_are_sent_no_faster_than_they_arrive(tmp_path: Path) -> None:
    """Otherwise, on a slow line, nobody hears for long that somebody waits: all calls would be given up."""
    pair = Pair.at(tmp_path)
    pair.accept()
    worker = Worker(Instance.begin(pair.key_of(pair.node), pair.submitters.key, package="1"))
    nodes = [pair.key_of(pair.node).public.key_id]
    link, tree = (
        Link("gpu1", worker, nodes, pair.key_of(pair.server)),
        ProjectTree((TreeFile("a", FILE, False),)),
    )
    refused: list[str] = []

    async def call() -> None:
        with pytest.raises(RyeError) as caught:
            await link.run(b"a bundle", new_run_id(), Watch(), limit_s=60, tree=tree)
        refused.append(caught.value.code)
        link.close()

    async with anyio.create_task_group() as group:
        group.start_soon(link.serve)
        group.start_soon(call)
        with anyio.fail_after(30):
            while worker.got < len(FILE):
                before = worker.got
                while worker.got == before:  # noqa: ASYNC110 - a thread lists the files first
                    await anyio.sleep(0.01)
                await anyio.wait_all_tasks_blocked()
                assert 0 < worker.got - before <= UNDER_WAY
                worker.pong()
        worker.say(message({"op": "refused"}, encode_refusal(RyeError("node_refused", "expected another"))))
    assert refused == ["node_refused"]
