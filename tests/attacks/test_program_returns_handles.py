"""A program returns, reads or passes on a handle that is not its own, gone or made up; or returns no JSON."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.inside_world import Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

TRIES = """
from rye import CallError, call, handle
def main(address, how):
    if how == "returns":
        return "rye://result/" + address
    try:
        if how == "reads":
            return handle("rye://result/" + address).text()
        return call("demo/echo", text="rye://result/" + address)
    except CallError as error:
        return error.code
"""
KEEPS = """
from rye import keep
def main():
    return [keep("demo/echo", text="a secret").rpartition("/")[2]]
"""
HALF = """
import os
def main():
    os.write(int(os.environ["RYE_RESULT_FD"]), b'{"half": ')
    os._exit(0)
"""
CALLS_HALF = """
from rye import call, result
def main():
    return [call("demo/half"), [each["code"] for each in result("demo/half")["notices"]]]
"""
HOW = ("returns", "reads", "passes on")


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/keeps", KEEPS, calls=["demo/echo"])
    found.add("demo/tries", TRIES, calls=["demo/echo"])
    return found


async def tried(client: Any, how: str, address: str) -> tuple[str, Any]:
    """The status of the program, and what it got or the code with which it failed."""
    found = await execute(client, "demo/tries", how=how, address=address)
    return found["status"], found["code"] if found["status"] == "error" else found.get("data")


async def refusals(client: Any, address: str) -> list[Any]:
    """What each way to use a handle comes to."""
    return [(await tried(client, how, address))[1] for how in HOW]


async def test_a_handle_of_another_project_opens_nothing(programs: Programs, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    programs.workshop.person.begin(other)
    elsewhere = Programs(replace(programs.workshop, project=other))
    elsewhere.add("demo/keeps", KEEPS, calls=["demo/echo"])
    [address] = elsewhere.run("demo/keeps")["data"]
    async with programs.workshop.served("auto") as client:
        assert await refusals(client, address) == ["output_not_found"] * 3


async def test_one_that_is_gone_or_made_up_opens_nothing(programs: Programs) -> None:
    [address] = programs.run("demo/keeps")["data"]
    async with programs.workshop.served("auto") as client:
        assert (await tried(client, "reads", address)) == ("success", '{"text":"a secret"}')
        [kept] = programs.workshop.person.state.rglob("results")
        shutil.rmtree(kept)
        assert await refusals(client, address) == ["output_not_found"] * 3
        assert await refusals(client, "../" * 8 + "etc/passwd") == ["malformed_handle"] * 3


async def test_a_result_that_is_no_json_is_text_with_a_notice(programs: Programs) -> None:
    programs.add("demo/half", HALF)
    programs.add("demo/calls_half", CALLS_HALF, calls=["demo/half"])
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/calls_half"))["data"] == ['{"half": ', ["result_not_json"]]
