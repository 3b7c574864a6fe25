"""A program makes the same call again and again, so that one yes counts for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import ElicitRequestFormParams, ElicitResult

from tests.inside_world import Programs, execute
from tests.mcp_world import Mode, Workshop, workshop

__all__ = ["workshop"]

PAYS = """
from rye import CallError, call

def main():
    found = []
    for _ in range(3):
        try:
            found.append(call("demo/pay", amount=10)["amount"])
        except CallError as error:
            found.append(error.code)
    return found
"""


class Person:
    """Somebody who answers as they are told to, one answer after the other."""

    def __init__(self, *answers: bool) -> None:
        self.questions: list[str] = []
        self._answers = iter(answers)

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params.message)
        if next(self._answers):
            return ElicitResult(action="accept", content={})
        return ElicitResult(action="decline")


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/pay", "def main(amount):\n    return {'amount': amount}")
    found.add("demo/pays", PAYS, calls=["demo/pay"])
    settings = workshop.project / ".ai/config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("rules:\n  - {tool: demo/pay, action: ask}\n")
    return found


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_each_of_the_same_calls_is_asked_about(programs: Programs, mode: Mode) -> None:
    person = Person(True, True, True)
    async with programs.workshop.served(mode, client={"elicitation_callback": person}) as client:
        assert (await execute(client, "demo/pays"))["data"] == [10, 10, 10]
    assert len(person.questions) == 3


async def test_a_no_is_a_no_for_the_same_call_again(programs: Programs) -> None:
    person = Person(True, False)
    async with programs.workshop.served("auto", client={"elicitation_callback": person}) as client:
        found = await execute(client, "demo/pays")
    assert found["data"] == [10, "confirmation_declined", "confirmation_declined"]
    assert "again: the same call was made 1 times before" in person.questions[1]
