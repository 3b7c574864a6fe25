"""A program that sends what is no request: each line is refused by name, and the next one is carried out."""

from __future__ import annotations

import pytest

from tests.inside_world import DOOR, Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

LINES = {
    "no JSON": b"call demo/echo",
    "no UTF-8": b'{"id": 1, "call": "\\xff"}',
    "half an object": b'{"id": 1, "call": ',
    "a list": b"[1]",
    "no id": b'{"call": "demo/echo"}',
    "an id that is text": b'{"id": "1", "call": "demo/echo"}',
    "nothing that is asked for": b'{"id": 1}',
    "two at once": b'{"id": 1, "call": "demo/echo", "search": "x"}',
    "a key twice": b'{"id": 1, "id": 2, "call": "demo/echo"}',
    "a forged parent": b'{"id": 1, "call": "demo/echo", "parent": "01m7vftxb810x35mh1hwbvvhgk"}',
    "a forged caller": b'{"id": 1, "call": "demo/echo", "caller": "person"}',
    "parameters that are none": b'{"id": 1, "call": "demo/echo", "parameters": [1]}',
    "a timeout below zero": b'{"id": 1, "call": "demo/echo", "timeout": -1}',
    "a channel without a socket": b'{"channel": true}',
}
SAYS = (
    DOOR
    + """
def main(line):
    good = b'{"id": 7, "call": "demo/echo", "parameters": {"n": 1}}'
    found = {each["id"]: each for each in said(line.encode("latin-1") + b"\\n", good + b"\\n")}
    good = found.pop(7)["result"]["data"]
    [bad] = found.values()
    return [bad["error"]["code"], good]
"""
)
TOO_LONG = (
    DOOR
    + """
def main():
    [refused] = said(b"x" * (5 << 20))
    return refused["error"]["code"]
"""
)
HALF = (
    DOOR
    + """
def main():
    [refused] = said(b'{"id": 1, "call": "demo/')
    return refused["error"]["code"]
"""
)


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    return Programs(workshop)


@pytest.mark.thorough
async def test_what_is_no_request_is_refused_and_the_next_one_carried_out(programs: Programs) -> None:
    programs.add("demo/says", SAYS, calls=["demo/echo"])
    async with programs.workshop.served("auto") as client:
        found = {
            name: (await execute(client, "demo/says", line=line.decode("latin-1"))).get("data")
            for name, line in LINES.items()
        }
    assert found == {name: ["malformed_call", {"n": 1}] for name in LINES}


async def test_half_a_message_and_one_that_never_ends_are_refused(programs: Programs) -> None:
    programs.add("demo/half", HALF, calls=["demo/echo"])
    programs.add("demo/long", TOO_LONG, calls=["demo/echo"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/half"))["data"] == "malformed_call"
        assert (await execute(client, "demo/long"))["data"] == "malformed_call"
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}
