"""A program that reads no answer, closes its descriptor or dies in the middle holds nobody up."""

from __future__ import annotations

import pytest

from tests.inside_world import DOOR, Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

LARGE = "def main():\n    return 'x' * 500_000"
NEVER_READS = (
    DOOR
    + """
def main():
    with door() as stream:
        for number in range(40):
            stream.sendall(json.dumps({"id": number, "call": "demo/large"}).encode() + b"\\n")
    return "asked"
"""
)
CLOSES = (
    DOOR
    + """
def main():
    stream = door()
    os.close(int(os.environ["RYE_CALL_FD"]))
    stream.sendall(b'{"id": 1, "call": "demo/echo"}\\n')
    stream.close()
    return "closed"
"""
)
DIES = (
    DOOR
    + """
def main():
    door().sendall(b'{"id": 1, "call": "demo/echo"}\\n{"id": 2, "call": "de')
    os.kill(os.getpid(), 9)
"""
)


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/large", LARGE)
    return found


async def test_answers_that_nobody_reads_keep_nobody_waiting(programs: Programs) -> None:
    programs.add("demo/program", NEVER_READS, calls=["demo/large"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/program"))["data"] == "asked"
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}


async def test_a_program_that_closes_its_descriptor_ends_as_it_wants(programs: Programs) -> None:
    programs.add("demo/program", CLOSES, calls=["demo/echo"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/program"))["data"] == "closed"
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}


async def test_a_program_that_dies_in_the_middle_leaves_nothing_running(programs: Programs) -> None:
    programs.add("demo/program", DIES, calls=["demo/echo"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/program"))["code"] == "tool_failed"
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}
    assert not [row for row in programs.log() if row["status"] == "running"]
