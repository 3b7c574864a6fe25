"""Attack: what rye-mcp keeps for a user lies where others can rename, and is exchanged for older things.

The other user cannot write a decision, nor read one. They put back what the user had once decided.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.executor.job.snapshot import require_place
from rye_mcp.mcp_server.tickets import Tickets
from rye_mcp.own_directories import state_directory
from rye_mcp.trust.approvals import Approvals
from tests.file_helpers import names_in
from tests.trust_world import World, refused
from tests.users import ADA, BOB, as_user, two_users


def move(path: Path, to: Path) -> None:
    path.rename(to)


@two_users
def test_a_decision_that_was_taken_back_is_not_brought_back(everybody: Path) -> None:
    state, kept = everybody / "state", everybody / "kept"
    project = everybody.parent

    def decisions() -> Approvals:
        return Approvals(project, state / "rye")

    as_user(ADA, lambda: state.mkdir(mode=0o700))
    said = [as_user(ADA, lambda: decisions().approve_project())]
    as_user(BOB, lambda: move(state, kept))
    as_user(ADA, lambda: state.mkdir(mode=0o700))
    said.append(as_user(ADA, lambda: decisions().approve_project(approved=False)))
    as_user(BOB, lambda: move(state, everybody / "away"))
    as_user(BOB, lambda: move(kept, state))
    said.append(as_user(ADA, lambda: decisions().read().approved))
    assert said == ["unsafe_permissions"] * 3


def shared_itself(place: Path) -> Path:
    place.chmod(0o777)
    return place / "state"


def above(place: Path) -> Path:
    (place / "mine/deep").mkdir(parents=True)
    place.chmod(0o777)
    return place / "mine/deep"


def behind_a_link(place: Path) -> Path:
    (place / "state").mkdir()
    (place / "links").mkdir()
    (place / "links").chmod(0o777)
    (place / "links/state").symlink_to(place / "state")
    return place / "links/state"


@pytest.mark.parametrize("prepare", [shared_itself, above, behind_a_link])
def test_a_state_directory_that_others_can_exchange_is_named_and_not_used(
    own_place: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Path], Path]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(prepare(own_place)))
    error = refused("unsafe_permissions", state_directory)
    assert "every user can write to" in error.message
    assert error.hint.startswith("namei -l ")


def test_in_a_sticky_directory_one_of_this_user_is_used(
    own_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_place / "state").mkdir()
    own_place.chmod(0o1777)
    monkeypatch.setenv("XDG_STATE_HOME", str(own_place / "state"))
    assert state_directory() == own_place / "state/rye"


def test_an_answer_is_not_counted_there(own_place: Path) -> None:
    """A used ticket that is gone again would be good once more."""
    own_place.chmod(0o777)
    refused("unsafe_permissions", lambda: Tickets(own_place / "state/rye").use(Tickets.new()))


def test_nor_are_keys_and_whom_to_trust_read_there(world: World) -> None:
    """An older user space knows nothing of what was revoked since."""
    world.user_space.mkdir(parents=True)
    world.user_space.parent.chmod(0o777)
    refused("unsafe_permissions", world.trust().store.revocations)


@two_users
def test_that_no_place_for_private_copies_is_safe_is_told(everybody: Path) -> None:
    home = everybody / "home"
    as_user(ADA, lambda: home.mkdir(mode=0o700))
    assert as_user(ADA, lambda: require_place({"HOME": str(home)})) == "write_failed"
    assert as_user(ADA, lambda: names_in(home)) == []
    assert require_place(dict(os.environ)).startswith("/")
