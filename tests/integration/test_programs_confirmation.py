"""A person is asked about what a program calls, while the call waits or by an answer that is a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mcp.types import ElicitRequestFormParams, ElicitResult

from tests.inside_world import Programs, execute
from tests.mcp_world import Mode, Workshop, workshop

__all__ = ["workshop"]

PROGRAM = """
from rye import CallError, call
def main():
    found = []
    for number in (1, 2):
        try:
            found.append(call("demo/echo", number=number))
        except CallError as error:
            found.append(error.code)
    return found
"""


class Person:
    """Somebody at a client, who says no where they are told to, and remembers what they were asked."""

    def __init__(self, **no: str) -> None:
        self.questions: list[str] = []
        self._no = no.get("no")

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params.message)
        if self._no is not None and self._no in params.message:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={})

    @property
    def client(self) -> Mapping[str, Any]:
        return {"elicitation_callback": self}


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/program", PROGRAM, calls=["demo/echo"])
    return found


@pytest.mark.both_eras
async def test_each_question_is_asked_once(programs: Programs, mode: Mode) -> None:
    person = Person()
    async with programs.workshop.served(mode, "--confirm", "execute", client=person.client) as client:
        assert (await execute(client, "demo/program"))["data"] == [{"number": 1}, {"number": 2}]
    outer, first, second = person.questions
    assert "called by" not in outer
    for question, number in ((first, 1), (second, 2)):
        assert question.startswith("Run demo/echo?\ncalled by: demo/program\n")
        assert f"number = {number}" in question


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_a_no_is_a_refusal_for_that_call_alone(programs: Programs, mode: Mode) -> None:
    person = Person(no="number = 1")
    async with programs.workshop.served(mode, "--confirm", "execute", client=person.client) as client:
        assert (await execute(client, "demo/program"))["data"] == ["confirmation_declined", {"number": 2}]
    assert len(person.questions) == 3


async def test_where_nobody_can_be_asked_the_program_is_told_so(programs: Programs) -> None:
    settings = programs.workshop.project / ".ai/config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("rules:\n  - {tool: demo/echo, action: ask}\n")
    async with programs.workshop.served("auto") as client:
        assert (await execute(client, "demo/program"))["data"] == ["approval_required"] * 2
    assert programs.run("demo/program")["data"] == ["approval_required"] * 2  # also at a terminal


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_the_client_is_told_which_call_is_under_way(programs: Programs, mode: Mode) -> None:
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with programs.workshop.served(mode) as client:
        asked = {"item_id": "demo/program", "parameters": {}}
        await client.call_tool("execute", asked, progress_callback=tell)
    assert "1 of 1: demo/echo" in told
