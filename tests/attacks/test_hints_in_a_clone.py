"""Attack: an archive names programs for git to start, and a person types the command of a hint."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.items import ItemFile, ItemType
from rye_mcp.trust.approvals import Approvals
from tests.git_world import WHO, git
from tests.trust_world import World, refused
from tests.verb_world import person, put, tool

Change = Callable[[str], str]
LINE = re.compile(r".*rye:signed:.*\n")
CHANGES: dict[str, Change] = {
    "content_changed": lambda text: f"{text}\n# more\n",
    "unsigned": lambda text: LINE.sub("", text),
}


@pytest.fixture
def file(world: World, monkeypatch: pytest.MonkeyPatch) -> ItemFile:
    """A signed tool in a repository that starts a program, which leaves a canary, with every command."""
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    found = put(world, tool(), signed=True)
    person(world).verify(found)
    for command in ("init -q", "add --all", "commit -qm signed"):
        git(world.project, *command.split())
    program = world.project / "program"
    program.write_text(f"#!/bin/sh\n: > {canary(world)}\n")
    program.chmod(0o755)
    git(world.project, "config", "core.fsmonitor", "./program")
    return found


def canary(world: World) -> Path:
    return world.root / "canary"


def hint_for(world: World, code: str) -> str:
    context = person(world)
    found = context.spaces.find("demo/hello", ItemType.TOOL)
    return refused(code, lambda: context.verify(found.item)).hint


def commands_in(hint: str) -> list[str]:
    return re.findall(r"git -C [^;)]+", hint)


@pytest.mark.parametrize("code", CHANGES)
def test_no_hint_starts_a_program_of_a_clone(world: World, file: ItemFile, code: str) -> None:
    file.path.write_text(CHANGES[code](file.path.read_text()))
    Approvals(world.project, world.state).approve_project(approved=False)
    hint = hint_for(world, code)
    assert "look at what changed" in hint
    for command in commands_in(hint):
        subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert not canary(world).exists()


@pytest.mark.parametrize("code", CHANGES)
def test_in_an_approved_project_a_hint_shows_the_change(world: World, file: ItemFile, code: str) -> None:
    git(world.project, "config", "--unset", "core.fsmonitor")
    file.path.write_text(CHANGES[code](file.path.read_text()))
    Approvals(world.project, world.state).approve_project()
    first, *_ = commands_in(hint_for(world, code))
    shown = subprocess.run(["sh", "-c", first], capture_output=True, text=True, check=True).stdout
    assert "hello.py" in shown
