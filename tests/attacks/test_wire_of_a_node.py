"""Whoever is on the way between a server and a node reads nothing, and changes nothing unnoticed."""

from __future__ import annotations

import base64
import json
import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from lilux._frames import encode_frame
from rye_mcp.apart import HANDS, apart, on_behalf_of
from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.nodes.link import Link
from rye_mcp.nodes.messages import CREDIT_BYTES, HEADER_BYTES, Incoming, message
from rye_mcp.nodes.outcomes import SMALL_BYTES, Remote, decode_refusal
from rye_mcp.nodes.seal import Channel
from rye_mcp.runs.log import RunLog
from tests.worker_world import COUNTER, Pair, Wire, bash_tool, frames_of

pytestmark = pytest.mark.anyio

CANARY = "canary-5f1d9c0b7a"
SCHEMA = "{properties: {word: {type: string}}}"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair.at(tmp_path.resolve())
    made.server.sign("demo/count.sh", bash_tool(f"# {CANARY}\n{COUNTER}; echo {CANARY} >&2", schema=SCHEMA))
    made.accept()
    made.trust()
    return made


async def frames(pair: Pair, wire: Wire) -> tuple[bytes, list[bytes], Channel]:
    """The envelope and the pieces of a call, and its channel."""
    envelope, channel = await wire.sealed()
    bundle = await pair.bundle("demo/count", {"word": CANARY})
    return encode_frame(envelope), frames_of(channel, message({"op": "bundle"}, bundle)), channel


async def test_nothing_of_a_call_can_be_read(pair: Pair) -> None:
    async with pair.wired() as wire:
        envelope, pieces, channel = await frames(pair, wire)
        heard = b"".join([envelope, *pieces])
        wire.say(heard)
        header, body = await wire.answer(channel)
        heard += bytes(wire.written)
    assert (header["op"], json.loads(body)["data"]) == ("result", {"word": CANARY})
    for form in (CANARY.encode(), base64.b64encode(CANARY.encode()), b"demo/count", b"echo run"):
        assert form not in heard


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pieces: pieces[1:],
        lambda pieces: [pieces[1], pieces[0], *pieces[2:]],
        lambda pieces: [pieces[0][:-1] + bytes([pieces[0][-1] ^ 1]), *pieces[1:]],
    ],
    ids=["dropped", "reordered", "flipped"],
)
async def test_what_is_lost_moved_or_changed_ends_the_call(
    pair: Pair, spoil: Callable[[list[bytes]], list[bytes]]
) -> None:
    async with pair.wired() as wire:
        envelope, channel = await wire.sealed()
        bundle = await pair.bundle("demo/count", {"word": CANARY})
        stream = message({"op": "bundle"}, bundle)
        pieces = [*frames_of(channel, stream[:99]), *frames_of(channel, stream[99:])]
        wire.say(encode_frame(envelope))
        for piece in spoil(pieces):
            wire.say(piece)
        header, body = await wire.answer(channel)
    assert header["op"] == "refused"
    assert decode_refusal(body).code == "lost"
    assert pair.counted == 0


async def test_a_whole_message_that_is_held_back_is_missed(pair: Pair) -> None:
    async with pair.wired() as wire:
        envelope, channel = await wire.sealed()
        wire.say(encode_frame(envelope))
        frames_of(channel, message({"op": "cancel"}))  # it never arrives
        for frame in frames_of(channel, message({"op": "ping"})):
            wire.say(frame)
        header, payload = await wire.frame()
    [(answer, body)] = Incoming(limit=1 << 20).feed(channel.open(header["n"], payload))
    assert answer["op"] == "refused"
    assert decode_refusal(body).code == "lost"


async def test_a_stream_that_is_cut_ends_what_runs(pair: Pair) -> None:
    pair.server.sign("demo/wait.sh", bash_tool("echo $$; sleep 600 & wait"))
    bundle, pids = await pair.bundle("demo/wait"), bytearray()
    async with pair.linked() as link:

        def heard(_stream: str, data: bytes, _skipped: int) -> None:
            pids.extend(data)
            link.close()  # the worker's streams end

        with pytest.raises(RyeError) as caught:
            await pair.call(link, bundle, Watch(on_output=heard))
    assert caught.value.code == "lost"
    assert caught.value.details["sent"] is True
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids), 0)


async def test_a_worker_that_hears_nothing_of_a_call_ends_it(pair: Pair) -> None:
    async with pair.wired(silence_s=0.2) as wire:
        envelope, channel = await wire.sealed()
        wire.say(encode_frame(envelope))
        with anyio.move_on_after(5):
            header, _ = await wire.answer(channel)
            assert header["op"] == "ended"
            return
    pytest.fail("expected the worker to end the call")


async def test_a_server_that_reads_nothing_and_says_nothing_more_has_its_call_ended(pair: Pair) -> None:
    gone = pair.node.world.root / "gone"
    pair.server.sign("demo/flood.sh", bash_tool(f"trap 'touch {gone}' EXIT; yes & wait"))
    async with pair.wired(silence_s=0.5) as wire:
        await wire.hello()
        wire.is_read = False
        envelope, channel = await wire.sealed()
        bundle = await pair.bundle("demo/flood")
        for frame in (encode_frame(envelope), *frames_of(channel, message({"op": "bundle"}, bundle))):
            wire.say(frame)
        with RunLog(pair.node.world.state) as log:
            while not [row for row in log.list() if row.code == "cancelled"]:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.02)
        wire.read_again()
        header, _ = await wire.answer(channel)
    assert header["op"] == "ended"
    assert len(wire.written) < 2 * CREDIT_BYTES, "no more than there is credit for"


async def test_bytes_that_are_no_frames_end_the_worker(pair: Pair) -> None:
    async with pair.wired() as wire:
        await wire.hello()
        wire.say(b"\xff" * 100)
        assert (await wire.failure()).code == "lost"


async def test_a_man_in_the_middle_cannot_have_calls_sealed_to_his_own_key(
    pair: Pair, tmp_path: Path
) -> None:
    async with pair.wired() as wire:
        hello, _ = await wire.frame()
    own = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    place = tmp_path / "hello"
    place.write_bytes(encode_frame({**hello, "share": own}))
    async with pair.linked(command=["/bin/cat", str(place)]) as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, await pair.bundle("demo/count", {"word": CANARY}))
    assert caught.value.code == "engine_unreachable"
    assert "signed" in caught.value.message


LONG = encode_frame({"op": "pong", "more": [[]] * HEADER_BYTES})
"""A frame whose header is longer than any that they send each other."""


async def test_a_long_header_is_not_read_by_the_server(pair: Pair, tmp_path: Path) -> None:
    async with pair.wired() as wire:
        hello, _ = await wire.frame()
    place = tmp_path / "hello"
    place.write_bytes(LONG + encode_frame(hello))
    async with pair.linked(command=["/bin/cat", str(place)]) as link:
        with pytest.raises(RyeError) as caught:
            await link.ready()
    assert f"expected a header of at most {HEADER_BYTES}" in caught.value.message


async def test_a_long_header_is_not_read_by_the_worker(pair: Pair) -> None:
    async with pair.wired() as wire:
        await wire.hello()
        wire.say(LONG)
        with anyio.fail_after(20):
            assert (await wire.failure()).code == "lost"


def test_a_long_header_is_not_read_inside_of_a_call() -> None:
    with pytest.raises(RyeError) as caught:
        Incoming(limit=1 << 26).feed(LONG)
    assert caught.value.code == "lost"


async def test_the_event_loop_does_not_read_the_result_of_a_node(pair: Pair) -> None:
    """A long one is read where it waits for its turn; while others have all turns, all else goes on."""
    word = "x" * SMALL_BYTES
    bundle, found, free = await pair.bundle("demo/count", {"word": word}), list[Remote](), threading.Event()

    async def call(link: Link) -> None:
        found.append(await pair.call(link, bundle))

    async def hold(whose: str) -> None:
        with on_behalf_of(whose):
            await apart(free.wait)

    async with pair.linked() as link:
        await link.ready()
        async with anyio.create_task_group() as group:
            for number in range(HANDS):
                group.start_soon(hold, f"session {number}")
            group.start_soon(call, link)
            try:
                await anyio.wait_all_tasks_blocked()  # the call is under way, or its result has come
                while link.is_busy:  # noqa: ASYNC110 - nobody tells when the result has come
                    await anyio.sleep(0.01)
                await anyio.wait_all_tasks_blocked()
                assert not found
            finally:
                free.set()
    assert [each.outcome.data for each in found] == [{"word": word}]


RELAY = """\
import os, subprocess, sys, threading
from lilux._frames import FrameDecoder, decode_header, encode_frame

twice = sys.argv[1] == "twice"
worker = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

def up():
    frames = FrameDecoder()
    while data := os.read(worker.stdout.fileno(), 65536):
        for raw, payload in frames.feed(data):
            header = decode_header(raw)
            if header["op"] == "sealed":  # the call is open there: its server is not told so
                if twice:
                    continue
                header |= {"op": "unopened", "reason": "expired", "signature": "00" * 64}
                payload = b""
            os.write(1, encode_frame(header, payload))

threading.Thread(target=up, daemon=True).start()
frames = FrameDecoder()
while data := os.read(0, 65536):
    for raw, payload in frames.feed(data):
        frame = encode_frame(decode_header(raw), payload)
        worker.stdin.write(frame * 2 if twice and b'"call"' in raw else frame)
worker.stdin.close()
worker.wait()
"""
"""Stands on the way: a call runs, and its server is told that the worker has not opened it."""


@pytest.mark.parametrize("way", ["forged", "twice"])
async def test_nobody_on_the_way_has_a_call_run_and_pass_for_one_that_was_refused(
    pair: Pair, tmp_path: Path, way: str
) -> None:
    relay = tmp_path / "relay.py"
    relay.write_text(RELAY)
    rye = str(Path(sysconfig.get_path("scripts"), "rye"))
    command = [sys.executable, "-P", str(relay), way, rye, "worker"]
    bundle = await pair.bundle("demo/count", {"word": "x"})
    async with pair.linked(command=command, give_up_s=3, ping_s=0.1) as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, bundle)
    assert (caught.value.code, caught.value.details["sent"]) == ("lost", True)
    if way == "forged":
        assert pair.counted == 1
