"""`rye demo` as a user runs it, and the senses it judges with: each has to notice what it is there for."""

import fcntl
import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from rye_mcp.cli import demo_steps

RYE = Path(sysconfig.get_path("scripts")) / "rye"


def rye_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RYE, "demo", *arguments], capture_output=True, text=True, check=False)


def test_the_demo_meets_its_expectations_and_says_so() -> None:
    answer = rye_demo()
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "NOT MET" not in answer.stdout
    assert answer.stdout.rstrip().endswith("expectations were met.")
    assert demo_steps.HOSTILE in answer.stdout


def test_the_demo_in_json_has_every_step() -> None:
    answer = json.loads(rye_demo("--json").stdout)
    assert answer["met"] is True
    assert len(answer["steps"]) == len(demo_steps.STEPS)
    assert all(step["expectations"] for step in answer["steps"])


@pytest.mark.parametrize("step", demo_steps.STEPS)
async def test_every_step_holds_on_both_event_loops(step: demo_steps.StepFunction) -> None:
    done = await step()
    assert done.met, done


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]


def test_a_process_that_lives_is_noticed() -> None:
    assert demo_steps.is_alive(str(os.getpid()), started(os.getpid()))


def test_another_process_with_the_same_number_is_not_taken_for_it() -> None:
    assert not demo_steps.is_alive(str(os.getpid()), "1")


def test_a_process_that_has_gone_is_noticed() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        pid, when = str(process.pid), started(process.pid)
        assert demo_steps.is_alive(pid, when)
    assert not demo_steps.is_alive(pid, when)


def test_a_lock_that_is_held_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not demo_steps.can_lock(path)
    assert demo_steps.can_lock(path)


@pytest.mark.parametrize("shown", ["", "12 x"])
def test_an_answer_that_is_no_process_is_not_alive(shown: str) -> None:
    pid, _, when = shown.partition(" ")
    assert not demo_steps.is_alive(pid, when)
