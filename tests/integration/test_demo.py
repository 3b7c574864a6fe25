"""`rye demo` as a user runs it, and the senses it judges with: each has to notice what it is there for."""

import fcntl
import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rye_mcp.cli import demo
from rye_mcp.cli.demo import ALL_STEPS

pytestmark = pytest.mark.documents

RYE = Path(sysconfig.get_path("scripts")) / "rye"


Demos = dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="module", autouse=True)
def processes() -> Iterator[Demos]:
    """The demo for people and the demo in JSON. They wait a lot, so both run while other tests do."""
    with ExitStack() as stack:
        yield {
            form: stack.enter_context(
                subprocess.Popen(
                    [RYE, "demo", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
            for form, options in {"text": [], "json": ["--json"]}.items()
        }


@pytest.fixture(scope="module")
def answers(processes: Demos) -> dict[str, str]:
    """What they have printed."""
    outputs = {form: process.communicate() for form, process in processes.items()}
    assert {form: process.returncode for form, process in processes.items()} == {"text": 0, "json": 0}, (
        outputs
    )
    assert {form: errors for form, (_, errors) in outputs.items()} == {"text": "", "json": ""}
    return {form: printed for form, (printed, _) in outputs.items()}


def test_the_demo_meets_its_expectations_and_says_so(answers: dict[str, str]) -> None:
    assert "NOT MET" not in answers["text"]
    assert answers["text"].rstrip().endswith("expectations were met.")
    assert demo.HOSTILE in answers["text"]


def test_the_demo_in_json_has_every_step(answers: dict[str, str]) -> None:
    answer = json.loads(answers["json"])
    assert answer["met"] is True
    assert len(answer["steps"]) == len(ALL_STEPS)
    assert all(step["expectations"] for step in answer["steps"])


@pytest.mark.parametrize("step", demo.STEPS, ids=lambda step: step.act.__name__)
@pytest.mark.both_loops
async def test_every_step_holds_on_both_event_loops(step: demo.Step) -> None:
    told: list[tuple[str, str]] = []
    expectations = await step.act(lambda label, text: told.append((label, text)))
    assert all(expectation.met for expectation in expectations), (expectations, told)
    assert expectations
    assert told


def test_the_agent_hears_of_progress_and_ends_with_the_chain(answers: dict[str, str]) -> None:
    facts = json.loads(answers["json"])["steps"][-1]["facts"]
    assert len(facts["progress"].splitlines()) > 1
    assert "clearing the throat" in answers["text"]
    assert re.findall(r"\[(\w+),", facts["chain"]) == ["project", "system", "system"]
    assert list(facts)[-1] == "chain"


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]


def test_a_process_that_lives_is_noticed() -> None:
    assert demo.is_alive(str(os.getpid()), started(os.getpid()))


def test_another_process_with_the_same_number_is_not_taken_for_it() -> None:
    assert not demo.is_alive(str(os.getpid()), "1")


def test_a_process_that_has_gone_is_noticed() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        pid, when = str(process.pid), started(process.pid)
        assert demo.is_alive(pid, when)
    assert not demo.is_alive(pid, when)


def test_a_lock_that_is_held_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not demo.can_lock(path)
    assert demo.can_lock(path)


@pytest.mark.parametrize("shown", ["", "12 x"])
def test_an_answer_that_is_no_process_is_not_alive(shown: str) -> None:
    pid, _, when = shown.partition(" ")
    assert not demo.is_alive(pid, when)
