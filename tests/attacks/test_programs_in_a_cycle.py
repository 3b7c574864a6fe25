"""Programs that call each other in a circle: the deepest one is refused, and everything above it goes on."""

from __future__ import annotations

import pytest

from tests.inside_world import Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

CALLS = """
from rye import CallError, call
def main(path=""):
    try:
        return call("demo/OTHER", path=path + "OTHER ")
    except CallError as error:
        return [path, error.code, error.facts["error"]]
"""


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/one", CALLS.replace("OTHER", "two"), calls=["demo/two"])
    found.add("demo/two", CALLS.replace("OTHER", "one"), calls=["demo/one"])
    return found


@pytest.mark.thorough
async def test_a_circle_ends_with_a_named_error_and_others_are_answered(programs: Programs) -> None:
    async with programs.workshop.served("auto") as client:
        path, code, why = (await execute(client, "demo/one"))["data"]
        assert (path.split(), code) == (["two", "one"] * 4, "calls_too_deep")
        assert "demo/one → demo/two → demo/one" in why
        assert (await execute(client, "demo/echo", n=1))["data"] == {"n": 1}
    assert len([row for row in programs.log() if row["code"] == "calls_too_deep"]) == 1
