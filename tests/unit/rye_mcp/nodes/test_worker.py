"""What goes wrong inside of one call ends that call alone, and there are only so many at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux._frames import encode_frame
from rye_mcp.items import ItemFile
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.nodes.messages import message
from rye_mcp.nodes.outcomes import decode_refusal
from rye_mcp.nodes.seal import Instance
from rye_mcp.nodes.worker import MAX_CALLS, Worker
from tests.worker_world import Pair, Wire, bash_tool, frames_of

pytestmark = pytest.mark.anyio


class Broken:
    """An executor with a mistake in it."""

    async def run_bundle(self, bundle: object, **_: object) -> Any:
        raise LookupError("a secret")


async def test_a_mistake_of_ours_in_one_call_is_told_and_the_worker_goes_on(tmp_path: Path) -> None:
    pair = Pair.at(tmp_path)
    pair.server.sign("demo/any.sh", bash_tool("true"))
    pair.accept()
    bundle = await pair.bundle("demo/any")
    wire = Wire(pair.key_of(pair.server))
    instance = Instance.begin(pair.key_of(pair.node), pair.submitters.key, package="1")
    executor: Any = Broken()
    worker = Worker(instance, executor, pair.submitters, pair.workspaces(executor))
    async with anyio.create_task_group() as group:
        group.start_soon(wire.serve, worker)
        for _ in range(2):
            envelope, channel = await wire.sealed()
            for frame in (encode_frame(envelope), *frames_of(channel, message({"op": "bundle"}, bundle))):
                wire.say(frame)
            header, body = await wire.answer(channel)
            refusal = decode_refusal(body)
            assert (header["op"], refusal.code) == ("refused", "internal")
            assert "secret" not in refusal.message
        wire.say(b"")


async def test_a_tool_is_read_where_other_calls_do_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, threads = Pair.at(tmp_path), set[int]()
    pair.server.sign("demo/any.sh", bash_tool("true # read once more"))
    pair.accept()
    bundle = await pair.bundle("demo/any")

    def seen(file: ItemFile) -> ItemMetadata:
        threads.add(threading.get_ident())
        return parse_metadata(file)

    monkeypatch.setattr("rye_mcp.nodes.worker.parse_metadata", seen)
    wire = Wire(pair.key_of(pair.server))
    instance = Instance.begin(pair.key_of(pair.node), pair.submitters.key, package="1")
    executor: Any = Broken()
    worker = Worker(instance, executor, pair.submitters, pair.workspaces(executor))
    async with anyio.create_task_group() as group:
        group.start_soon(wire.serve, worker)
        envelope, channel = await wire.sealed()
        for frame in (encode_frame(envelope), *frames_of(channel, message({"op": "bundle"}, bundle))):
            wire.say(frame)
        await wire.answer(channel)
        wire.say(b"")
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_server_that_opens_more_calls_than_a_worker_does_has_them_refused(tmp_path: Path) -> None:
    pair = Pair.at(tmp_path)
    pair.accept()
    wire = Wire(pair.key_of(pair.server))
    instance = Instance.begin(pair.key_of(pair.node), pair.submitters.key, package="1")
    executor: Any = Broken()
    worker = Worker(instance, executor, pair.submitters, pair.workspaces(executor))
    async with anyio.create_task_group() as group:
        group.start_soon(wire.serve, worker)
        for _ in range(MAX_CALLS):  # each waits for its bundle
            envelope, _ = await wire.sealed()
            wire.say(encode_frame(envelope))
        envelope, channel = await wire.sealed()
        wire.say(encode_frame(envelope))
        header, body = await wire.answer(channel)
        assert (header["op"], decode_refusal(body).code) == ("refused", "node_refused")
        wire.say(b"")
