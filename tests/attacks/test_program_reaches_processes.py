"""A program that may do nothing ends, or reads, processes with more rights that somebody else has started."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inside_world import Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

REACHES = """
from rye import CallError, call
def main(action, id):
    try:
        return call("rye/process/" + action, id=id)
    except CallError as error:
        return error.code
"""

OWN = """
from rye import call
def main():
    started = call("rye/process/spawn", command="sh", args=["-c", "echo mine; exec sleep 1000"])
    listed = [each["id"] for each in call("rye/process/status")["processes"]]
    ended = call("rye/process/kill", id=started["id"])
    return [listed == [started["id"]], ended["state"], call("rye/process/logs", id=started["id"])["text"]]
"""


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/reaches", REACHES, calls=["rye/process/*"])
    found.add("demo/own", OWN, calls=["rye/process/*"])
    return found


async def test_it_reaches_only_what_it_has_started(programs: Programs) -> None:
    async with programs.workshop.served("auto") as client:
        args = ["-c", "echo a secret; exec sleep 1000"]
        started = (await execute(client, "rye/process/spawn", command="sh", args=args))["data"]
        try:
            for action in ("kill", "logs", "status"):
                found = await execute(client, "demo/reaches", action=action, id=started["id"])
                assert found["data"] == "tool_failed", found
            assert (await execute(client, "demo/own"))["data"] == [True, "ended", "mine\n"]
            assert await _state(client, started["id"]) == "running"
        finally:
            await execute(client, "rye/process/kill", id=started["id"])


async def _state(client: Any, process_id: str) -> str:
    [found] = (await execute(client, "rye/process/status", id=process_id))["data"]["processes"]
    return str(found["state"])
