"""A program is started again because a person was asked, so that what it has called runs a second time.

A client of 2026 answers a question by calling again. What the program called before the question must not run
again, whatever it did, and a program that then calls something else must not get the answers of other calls.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult

from rye_mcp.executor.caller import Caller
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.tree import Program
from tests.inside_world import Programs, execute, program
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

MARKS = """
import os, time
def main(name, fails=False, takes=0):
    path = os.path.join(os.environ["RYE_PROJECT_PATH"], "marks")
    with open(path, "a") as file:
        file.write(name + "\\n")
    time.sleep(takes)
    if fails:
        raise ValueError(name)
    return {"name": name}
"""
"""Leaves a line in the project whenever it runs."""

ONE_AFTER_THE_OTHER = """
from rye import call
def main():
    found = [call("demo/mark", name="a"), call("demo/mark", name="a"), call("demo/pay")]
    return [*found, call("demo/mark", name="b"), call("demo/pay")]
"""

AT_ONCE = """
import asyncio
from rye import aio
async def main():
    calls = [aio.call("demo/mark", name=name) for name in "abc"]
    return await asyncio.gather(*calls, aio.call("demo/pay"), aio.call("demo/pay"))
"""

SEEN = """
import os, time
def main(name):
    path = os.path.join(os.environ["RYE_PROJECT_PATH"], "marks")
    while not os.path.exists(path) or name not in open(path).read():
        time.sleep(0.01)
    return name
"""
"""Ends as soon as there is such a line."""

UNDER_WAY = """
import asyncio
from rye import aio
async def main():
    slow = asyncio.ensure_future(aio.call("demo/mark", name="a", takes=1))
    await aio.call("demo/seen", name="a")
    return [await aio.call("demo/pay"), await slow]
"""

FAILING = """
from rye import CallError, call
def main():
    try:
        call("demo/mark", name="a", fails=True)
    except CallError as error:
        return [error.code, call("demo/pay")]
"""

BELOW = """
from rye import call
def main():
    return [call("demo/mark", name="a"), call("demo/inner"), call("demo/mark", name="d")]
"""

INNER = """
from rye import call
def main():
    return [call("demo/mark", name="b"), call("demo/pay"), call("demo/mark", name="c")]
"""

OTHERWISE = """
import os
from rye import CallError, call
def main():
    found = []
    for name in (os.urandom(8).hex(), "b"):
        try:
            found.append(call("demo/mark", name=name))
        except CallError as error:
            found.append(error.code)
    return [*found, call("demo/pay")]
"""


class Person:
    """Somebody who says yes, after doing something."""

    def __init__(self, first: Callable[[], None] = lambda: None) -> None:
        self.questions: list[str] = []
        self._first = first

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        self.questions.append(params.message)
        self._first()
        return ElicitResult(action="accept", content={})


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/mark", MARKS, project="write")
    found.add("demo/seen", SEEN, project="read")
    found.add("demo/pay", "def main():\n    return 'paid'")
    settings = workshop.project / ".ai/config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("rules:\n  - {tool: demo/pay, action: ask}\n")
    return found


def marks(programs: Programs) -> list[str]:
    """What has run, in the order in which it did."""
    path = programs.workshop.project / "marks"
    return path.read_text().split() if path.exists() else []


async def answered(programs: Programs, person: Person) -> dict[str, Any]:
    """What a client is told that asks this person."""
    async with programs.workshop.served("auto", client={"elicitation_callback": person}) as client:
        return await execute(client, "demo/program")


A, B, C, D = ({"name": name} for name in "abcd")


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("code", "data", "ran", "questions"),
    [
        (ONE_AFTER_THE_OTHER, [A, A, "paid", B, "paid"], ["a", "a", "b"], 2),
        (AT_ONCE, [A, B, C, "paid", "paid"], ["a", "b", "c"], 2),
        (UNDER_WAY, ["paid", A], ["a"], 1),
        (FAILING, ["tool_failed", "paid"], ["a"], 1),
        (BELOW, [A, [B, "paid", C], D], ["a", "b", "c", "d"], 1),
    ],
    ids=["one after the other", "at once", "under way", "one that failed", "below another program"],
)
async def test_what_was_called_before_a_question_runs_once(
    programs: Programs, code: str, data: list[Any], ran: list[str], questions: int
) -> None:
    programs.add("demo/inner", INNER, calls=["demo/*"])
    programs.add("demo/program", code, calls=["demo/*"])
    person = Person()
    assert (await answered(programs, person)).get("data") == data
    assert sorted(marks(programs)) == ran
    assert len(person.questions) == questions


async def test_a_program_that_calls_something_else_gets_no_answer_of_before(programs: Programs) -> None:
    programs.add("demo/program", OTHERWISE, calls=["demo/*"])
    found = await answered(programs, Person())
    assert found["data"] == ["replay_differs", B, "paid"]
    assert len(marks(programs)) == 2


async def test_a_program_that_was_changed_meanwhile_gets_no_answer_of_before(programs: Programs) -> None:
    def change() -> None:
        text = program(f"{ONE_AFTER_THE_OTHER}\n# changed", calls=["demo/*"])
        programs.workshop.write("demo/program", text)
        programs.workshop.sign("demo/program")

    programs.add("demo/program", ONE_AFTER_THE_OTHER, calls=["demo/*"])
    found = await answered(programs, Person(change))
    assert "replay_differs" in found["stderr"], found
    assert marks(programs) == ["a", "a"]


async def test_without_the_answers_of_before_nothing_runs(programs: Programs) -> None:
    def forget() -> None:
        [kept] = programs.workshop.person.state.rglob("confirmations")
        assert [each.suffix for each in kept.iterdir()] == [".calls"]
        assert [each.stat().st_mode & 0o777 for each in kept.iterdir()] == [0o600]
        shutil.rmtree(kept)

    programs.add("demo/program", ONE_AFTER_THE_OTHER, calls=["demo/*"])
    found = await answered(programs, Person(forget))
    assert found["code"] == "confirmation_outdated", found
    assert marks(programs) == ["a", "a"]


async def test_a_program_gets_no_answer_that_was_kept_in_another_project(programs: Programs) -> None:
    """One of the user's own runs in every project, with the same bytes and the same parameters."""
    person = programs.workshop.person
    space, state = person.place / "space", person.state / "rye"
    executor = PrimitiveExecutor(programs.workshop.project, user_space=space, state=state)
    decided = await executor._decider.decide("demo/echo", {}, Caller())
    await executor.close()
    here, there = (Program.of(decided, "run", None, project=Path(path)) for path in ("/here", "/there"))
    again = Program.of(decided, "another", None, project=Path("/here"))
    assert here.key == again.key != there.key
