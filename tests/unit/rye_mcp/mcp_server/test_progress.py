"""What a tool says on standard error, as messages: line by line, visibly, in order, and never too much."""

from __future__ import annotations

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.progress import MAX_LINES, reporting, sending

pytestmark = pytest.mark.anyio


async def sent(*pieces: tuple[str, bytes, int]) -> list[str]:
    """What a client is sent of these pieces of output."""
    found: list[str] = []

    async def send(text: str) -> None:
        await anyio.lowlevel.checkpoint()
        found.append(text)

    async with sending(send) as messages:
        for piece in pieces:
            messages.on_output(*piece)
    return found


@pytest.mark.parametrize(
    ("pieces", "messages"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne", b"\ntwo"], ["one", "two"]),
        ([b"one\r\n\n   \ntwo  \n"], ["one", "two"]),
        ([b"\x1b[2J\xff\n"], ["\\x1b[2J\ufffd"]),
        ([b"x" * 5000 + b"\n"], ["x" * 999 + "…"]),
        ([b"x" * 5000, b"y\n", b"z\n"], ["x" * 999 + "…", "z"]),
        ([b""], []),
        ([], []),
    ],
    ids=["lines", "in pieces", "blank", "visible", "long", "long in pieces", "nothing", "silence"],
)
async def test_each_line_is_one_message(pieces: list[bytes], messages: list[str]) -> None:
    assert await sent(*(("stderr", piece, 0) for piece in pieces)) == messages


async def test_other_streams_are_not_told() -> None:
    assert await sent(("stdout", b"one\n", 0), ("result", b"two\n", 0)) == []


async def test_what_was_left_out_is_told_where_it_was() -> None:
    told = await sent(("stderr", b"one\nhalf of", 0), ("stderr", b"of another\nlast\n", 70))
    assert told == ["one", "half of", "70 bytes are left out", "of another", "last"]


async def test_of_many_lines_the_last_are_told() -> None:
    lines = b"".join(b"%d\n" % number for number in range(MAX_LINES + 50))
    told = await sent(("stderr", lines, 0))
    assert told == ["50 lines are left out", *map(str, range(50, MAX_LINES + 50))]


async def test_what_is_being_sent_when_the_tool_ends_is_sent_to_the_end() -> None:
    """A client that takes its time gets all of it, once, before the answer."""
    found: list[str] = []
    begun, go_on = anyio.Event(), anyio.Event()

    async def send(text: str) -> None:
        begun.set()
        await go_on.wait()
        found.append(text)

    async def release() -> None:
        await begun.wait()
        await anyio.lowlevel.checkpoint()
        go_on.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(release)
            async with sending(send) as messages:
                messages.on_output("stderr", b"one\ntwo\n", 0)
                await begun.wait()
                messages.on_output("stderr", b"three\n", 0)
    assert found == ["one", "two", "three"]


async def test_a_refusal_stays_what_it_is() -> None:
    async def send(text: str) -> None:
        raise AssertionError(text)

    with pytest.raises(RyeError, match="expected"):
        async with sending(send):
            raise RyeError("unsigned", "expected a signature, found none")


async def test_where_a_call_waits_and_runs_is_progress() -> None:
    told: list[str] = []
    heard = anyio.Event()

    async def tell(_passed: float, line: str) -> None:
        told.append(line)
        heard.set()

    async with reporting(tell) as reporter:
        for news in ("queued, 3 ahead", "on gpu1"):
            reporter.on_placing(news)
            await heard.wait()
            heard = anyio.Event()
    assert told == ["queued, 3 ahead", "on gpu1"]
