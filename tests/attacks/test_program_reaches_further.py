"""A program reaches by its calls what it may not reach itself: nothing that its signer was not granted."""

from __future__ import annotations

import pytest

from tests.inside_world import Programs, execute, program
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

CALLS = """
from rye import CallError, call
def main(item_id):
    try:
        return call(item_id)
    except CallError as error:
        return error.code
"""
DOES = "def main():\n    return 'done'"


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/reads", DOES, project="read")
    found.add("demo/sends", DOES, net=["example.org"])
    workshop.write("demo/free", program(DOES).replace("PERMISSIONS = {}", "PERMISSIONS = 'unconfined'"))
    workshop.sign("demo/free")
    return found


async def test_an_agents_program_calls_what_does_no_more_than_it_may(programs: Programs) -> None:
    programs.workshop.write("demo/agents", program(CALLS, calls=["demo/*"]))
    async with programs.workshop.served("auto") as client:
        await client.call_tool("sign", {"item_id": "demo/agents"})
        found = {
            name: (await execute(client, "demo/agents", item_id=f"demo/{name}"))["data"]
            for name in ("reads", "sends", "free")
        }
    assert found == {"reads": "done", "sends": "call_not_allowed", "free": "call_not_allowed"}


async def test_a_persons_program_between_them_makes_it_no_wider(programs: Programs) -> None:
    programs.add("demo/persons", CALLS, calls=["demo/sends"])
    assert programs.run("demo/persons", item_id="demo/sends")["data"] == "done"
    code = CALLS.replace("call(item_id)", "call('demo/persons', item_id=item_id)")
    programs.workshop.write("demo/agents", program(code, calls=["demo/persons"]))
    async with programs.workshop.served("auto") as client:
        await client.call_tool("sign", {"item_id": "demo/agents"})
        answer = await execute(client, "demo/agents", item_id="demo/sends")
    assert answer["data"] == "call_not_allowed"
