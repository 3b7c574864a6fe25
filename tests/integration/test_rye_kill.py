"""`rye kill` and `rye log --follow --output`: what runs elsewhere is seen, and ended."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.people import SCRIPTS, Person

TOOL = """#!/usr/bin/env bash
# /// rye
# version: 1.0.0
# description: Says that it has begun, and goes on.
# executor_id: rye/core/runtimes/bash_runtime
# ///
printf 'it has begun \\033[2J\\n'
sleep 600
"""


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


@pytest.fixture
def project(bob: Person, tmp_path: Path) -> Path:
    made = bob.begin(tmp_path / "project")
    path = made / ".ai/tools/demo/slow.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOOL)
    bob.sign("demo/slow", made)
    return made


@pytest.mark.thorough
def test_a_run_of_another_process_is_followed_and_ended(bob: Person, project: Path) -> None:
    rye = str(SCRIPTS / "rye")
    follow = [rye, "log", "--follow", "--output", "--json"]
    with (
        subprocess.Popen(
            follow, cwd=project, env=bob.environment, stdout=subprocess.PIPE, text=True
        ) as follower,
        subprocess.Popen(
            [rye, "run", "demo/slow", "--json"],
            cwd=project,
            env=bob.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as runner,
    ):
        assert follower.stdout is not None
        begun = json.loads(follower.stdout.readline())
        assert (begun["item_id"], begun["status"]) == ("demo/slow", "running")
        run_id = begun["run_id"]
        line = json.loads(follower.stdout.readline())
        assert line == {"run_id": run_id, "output": "it has begun \x1b[2J"}

        shown = bob.rye("log", "show", run_id, "--json", cwd=project).json
        assert shown["now"]["processes"] >= 2
        assert shown["now"]["memory_kb"] > 0
        assert f"rye kill {run_id}" in bob.rye("log", "show", run_id, cwd=project).out

        assert run_id in bob.rye("kill", run_id, cwd=project).out
        answer, _ = runner.communicate()
        assert runner.returncode == 1
        assert json.loads(answer)["code"] == "tool_failed"
        ended = json.loads(follower.stdout.readline())
        assert (ended["run_id"], ended["status"]) == (run_id, "error")
        follower.send_signal(signal.SIGINT)
        follower.wait()
    bob.refused("run_not_live", "kill", run_id, cwd=project)
    bob.refused("run_not_found", "kill", "0" * 26, cwd=project)
    assert "now" not in bob.rye("log", "show", run_id, "--json", cwd=project).json
    assert bob.rye("receipt", "verify", "--all", cwd=project).code == 0


def test_output_alone_follows_nothing(bob: Person, tmp_path: Path) -> None:
    assert "--follow" in bob.rye("log", "--output", cwd=tmp_path, code=2).err


def test_another_user_has_no_run_to_end(bob: Person, project: Path, tmp_path: Path) -> None:
    """Each user has a log, and looks into no other one."""
    rye = str(SCRIPTS / "rye")
    with subprocess.Popen(
        [rye, "run", "demo/slow"], cwd=project, env=bob.environment, stdout=subprocess.PIPE
    ) as runner:
        while not (found := bob.rye("log", "--status", "running", "--json", cwd=project).json["runs"]):
            assert runner.poll() is None
        eve = Person("eve", tmp_path / "eve")
        eve.refused("run_not_found", "kill", found[0]["run_id"], cwd=tmp_path)
        while bob.rye("kill", found[0]["run_id"], cwd=project, code=None).code:
            assert runner.poll() is None  # it is too young yet
        assert runner.wait() == 1
