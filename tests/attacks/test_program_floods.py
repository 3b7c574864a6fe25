"""A program that asks for more than it may, all at once: what is too much is refused, others are served."""

from __future__ import annotations

from collections import Counter

import pytest

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
