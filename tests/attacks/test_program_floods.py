"""A program that asks for more than it may, all at once: what is too much is refused, others are served."""

from __future__ import annotations

import os
import socket
from collections import Counter
from pathlib import Path

import anyio
import pytest

from rye_mcp.inside.messages import Request
from rye_mcp.inside.service import serving
from tests.inside_world import DOOR, Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

FLOOD = (
    DOOR
    + """
def main(count, item_id):
    lines = [json.dumps({"id": n, "call": item_id}).encode() + b"\\n" for n in range(count)]
    return [each.get("error", {}).get("code") or each["result"]["code"] for each in said(*lines)]
"""
)
CHANNELS = """
import os, socket
from rye import CallError, call
def main():
    door = socket.socket(fileno=int(os.environ["RYE_CALL_FD"]))
    door.settimeout(30)
    pairs = [socket.socketpair() for _ in range(164)]
    for _, theirs in pairs:
        socket.send_fds(door, [b'{"channel":true}\\n'], [theirs.fileno()])
    found = b""
    while found.count(b"\\n") < 36:
        found += door.recv(65536)
    return found.count(b"too_many_calls_at_once")
"""


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    return Programs(workshop)


async def test_a_flood_of_calls_is_refused_beyond_the_limit(programs: Programs) -> None:
    programs.add("demo/floods", FLOOD, calls=["demo/echo"], limit=10_000)
    async with programs.workshop.served("auto") as client:
        found = (await execute(client, "demo/floods", count=1000, item_id="demo/none"))["data"]
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}
    codes = Counter(found)
    assert codes.keys() == {"call_not_allowed", "too_many_calls_at_once"}
    assert codes.total() == 1000
    assert codes["too_many_calls_at_once"] > 0


async def test_a_program_opens_no_more_channels_than_it_may(programs: Programs) -> None:
    programs.add("demo/opens", CHANNELS, calls=["demo/echo"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/opens"))["data"] == 36
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}


def open_descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.parametrize("between", [b" ", b"\n"], ids=["one line", "empty lines"])
async def test_descriptors_that_no_line_names_do_not_fill_the_table_of_the_server(between: bytes) -> None:
    async def answer(request: Request) -> dict[str, str]:
        return {"what": request.what}

    def ask(door: socket.socket) -> bytes:
        for _ in range(300):
            socket.send_fds(door, [between], [0] * 4)
        door.sendall(b'\n{"id": 1, "call": "demo/echo"}\n')
        return door.recv(65536)

    async with serving(answer, lambda _: None) as descriptor:
        with socket.socket(fileno=os.dup(descriptor)) as door:
            before = open_descriptors()
            assert b"demo/echo" in await anyio.to_thread.run_sync(ask, door)
            assert open_descriptors() <= before + 4
