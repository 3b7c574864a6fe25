"""Whoever keeps a call that was sent to a worker cannot have it run again: not there, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lilux._frames import encode_frame
from rye_mcp.nodes.messages import message
from rye_mcp.runs.ids import new_run_id
from tests.worker_world import COUNTER, Pair, Wire, bash_tool, frames_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair.at(tmp_path.resolve())
    made.server.sign("demo/count.sh", bash_tool(COUNTER, schema="{properties: {word: {type: string}}}"))
    made.accept()
    made.trust()
    return made


async def sent(pair: Pair, wire: Wire, **options: Any) -> bytes:
    """All that went over the wire for a call that ran."""
    envelope, channel = await wire.sealed(**options)
    bundle = await pair.bundle("demo/count", {"word": "hello"})
    recorded = b"".join([encode_frame(envelope), *frames_of(channel, message({"op": "bundle"}, bundle))])
    wire.say(recorded)
    header, _ = await wire.answer(channel)
    assert header["op"] == "result"
    assert pair.counted == 1
    return recorded


async def test_to_the_same_worker(pair: Pair) -> None:
    async with pair.wired() as wire:
        recorded = await sent(pair, wire)
        wire.say(recorded)
        header, _ = await wire.frame()
    assert (header["op"], header["reason"]) == ("unopened", "replayed")
    assert pair.counted == 1


async def test_while_the_call_is_running_it_neither_ends_nor_answers_it(pair: Pair) -> None:
    async with pair.wired() as wire:
        envelope, channel = await wire.sealed()
        wire.say(encode_frame(envelope))
        wire.say(encode_frame(envelope))
        header, _ = await wire.frame()
        assert (header["op"], header["reason"]) == ("unopened", "replayed")
        bundle = await pair.bundle("demo/count", {"word": "hello"})
        for frame in frames_of(channel, message({"op": "bundle"}, bundle)):
            wire.say(frame)
            wire.say(frame)
        header, _ = await wire.answer(channel)
    assert header["op"] == "result"
    assert pair.counted == 1


async def test_to_another_worker_of_the_node_or_to_one_that_was_started_again(pair: Pair) -> None:
    async with pair.wired() as wire:
        recorded = await sent(pair, wire)
    async with pair.wired() as another:
        await another.hello()
        another.say(recorded)
        header, _ = await another.frame()
    assert (header["op"], header["reason"]) == ("unopened", "another_worker")
    assert pair.counted == 1


async def test_when_it_has_expired(pair: Pair) -> None:
    async with pair.wired() as wire:
        envelope, _ = await wire.sealed(expires_ms=5_000)
        wire.age_ms = 5_001
        wire.say(encode_frame(envelope))
        header, _ = await wire.frame()
    assert (header["op"], header["reason"]) == ("unopened", "expired")


async def test_the_same_run_in_another_envelope(pair: Pair) -> None:
    run_id = new_run_id()
    async with pair.wired() as wire:
        await sent(pair, wire, run_id=run_id)
        envelope, _ = await wire.sealed(run_id)
        wire.say(encode_frame(envelope))
        header, _ = await wire.frame()
    assert (header["op"], header["reason"]) == ("unopened", "replayed")
    assert pair.counted == 1


async def test_the_same_run_in_another_envelope_while_it_goes_on_for_longer_than_the_first_was_good(
    pair: Pair,
) -> None:
    run_id = new_run_id()
    async with pair.wired() as wire:
        first, opened = await wire.sealed(run_id, expires_ms=5_000)
        wire.say(b"".join([encode_frame(first), *frames_of(opened, message({"op": "ping"}))]))
        assert (await wire.frame())[0]["op"] == "sealed", "it is open, and waits for its bundle"
        wire.age_ms = 6_000
        second, channel = await wire.sealed(run_id)
        wire.say(encode_frame(second))
        header, _ = await wire.frame()
        for frame in frames_of(channel, message({"op": "bundle"}, await pair.bundle("demo/count"))):
            wire.say(frame)
        answer = await wire.frame()
    assert (header["op"], header["reason"]) == ("unopened", "replayed")
    assert answer[0]["op"] == "sealed", "the pieces of another channel end the first call"
    assert pair.counted == 0
