"""Attack: a project that holds decisions about itself, where a relative state directory would find them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rye_mcp.trust.approvals import Approvals, state_directory
from rye_mcp.trust.verify import Trust
from tests.trust_world import World, refused


@pytest.mark.parametrize("relative", ["state", ".", "./state", "~/state"])
def test_decisions_are_never_looked_for_in_the_current_directory(
    world: World, relative: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project.mkdir()
    monkeypatch.chdir(world.project)
    canary = Approvals(world.project, world.project / relative / "rye")
    canary.approve_project()
    monkeypatch.setenv("XDG_STATE_HOME", relative)
    error = refused("malformed_trust", lambda: Trust(user_space=world.user_space, project=world.project))
    assert error.hint == "unset XDG_STATE_HOME"
    assert canary.read().approved


@pytest.mark.parametrize("empty", ["", "absolute"])
def test_an_absolute_one_and_none_are_fine(
    tmp_path: Path, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", empty and os.fspath(tmp_path))
    assert state_directory().is_absolute()
