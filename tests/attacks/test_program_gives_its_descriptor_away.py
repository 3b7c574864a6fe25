"""A program hands its descriptor to a daemon: the daemon ends with the program, and calls nothing then."""

from __future__ import annotations

import pytest

from tests.inside_world import DOOR, Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

DAEMON = (
    DOOR
    + """
import signal

def main():
    stream = door()
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(told, b"!")
        while True:
            stream.sendall(b'{"id": 1, "call": "demo/echo"}\\n')
            stream.recv(65536)
    os.read(ready, 1)
    return "left"
"""
)


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    return Programs(workshop)


async def test_a_daemon_that_was_given_the_descriptor_ends_with_the_program(programs: Programs) -> None:
    programs.add("demo/program", DAEMON, calls=["demo/echo"], limit=10_000)
    async with programs.workshop.served("auto") as client:
        result = await execute(client, "demo/program")
        assert result["data"] == "left"
        before = len(programs.log())
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}
    assert len(programs.log()) == before + 1
    assert not [row for row in programs.log() if row["status"] == "running"]
