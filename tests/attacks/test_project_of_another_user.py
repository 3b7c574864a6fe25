"""Attack: another user makes a project above a directory of the user, where everybody may write."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rye_mcp.app import Settings
from rye_mcp.verbs.git_objects import last_commits
from tests.git_world import git
from tests.people import Person
from tests.trust_world import World
from tests.users import ADA, BOB, as_user, two_users

WHO = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")


def found_from(place: Path, directory: Path) -> str | None:
    """The project that is found from a directory up; None where there is none."""
    environment = {"HOME": str(place), "USER_SPACE": str(place)}
    settings = Settings.find(
        working_directory=directory, environment=environment, state=place / "state", cache=place / "cache"
    )
    return None if settings.project is None else str(settings.project)


@two_users
def test_what_another_user_makes_above_is_passed_over(everybody: Path) -> None:
    """As /tmp/.ai for everything that somebody has below /tmp."""
    everybody.chmod(0o1777)
    mine, home = everybody / "mine", everybody.parent / "home"
    as_user(ADA, lambda: mine.mkdir(mode=0o700))
    home.mkdir()
    os.chown(home, ADA, ADA)
    as_user(BOB, (everybody / ".ai").mkdir)
    assert as_user(ADA, lambda: found_from(home, mine)) is None
    assert as_user(ADA, lambda: found_from(home, everybody)) is None
    as_user(ADA, (mine / ".ai").mkdir)
    assert as_user(ADA, lambda: found_from(home, mine)) == str(mine)


@two_users
def test_a_repository_that_another_user_makes_above_says_nothing_of_a_project(everybody: Path) -> None:
    """It would fill the record of signers, in which nothing is forgotten, and take ids from agents."""
    everybody.chmod(0o1777)
    theirs, mine = everybody / "theirs", everybody / "mine"
    for user, place in ((BOB, theirs), (ADA, mine)):
        as_user(user, place.mkdir)
        as_user(user, partial(git, place, "init", "-q"))
        as_user(user, partial(git, place, *WHO, "commit", "-q", "--allow-empty", "-m", "all of it"))
    name = as_user(ADA, partial(git, mine, "rev-parse", "HEAD"))
    as_user(BOB, lambda: str((theirs / ".git").rename(everybody / ".git")))
    as_user(ADA, (mine / "below").mkdir)
    found = as_user(ADA, lambda: [each.name for each in last_commits(mine / "below", ".ai")])
    assert found == [name]


def of_everybody(project: Path) -> None:
    project.chmod(0o777)


def sticky(project: Path) -> None:
    project.chmod(0o1777)


def its_space(project: Path) -> None:
    (project / ".ai").chmod(0o777)


@pytest.mark.parametrize("opened", [of_everybody, sticky, its_space])
def test_a_project_to_which_others_can_write_is_found_by_nobody(
    world: World, caplog: pytest.LogCaptureFixture, opened: Callable[[Path], None]
) -> None:
    (world.project / ".ai").mkdir(parents=True)
    (world.project / "deep").mkdir()
    assert found_from(world.root / "home", world.project / "deep") == str(world.project)
    opened(world.project)
    with caplog.at_level(logging.WARNING):
        assert found_from(world.root / "home", world.project / "deep") is None
    assert f"passed over the project {world.project}, since every user can write" in caplog.text


@pytest.mark.thorough
def test_the_one_above_it_is_found_and_the_other_one_named(world: World) -> None:
    bob = Person("bob", world.root / "bob")
    below = world.project / "below"
    (below / ".ai").mkdir(parents=True)
    (world.project / ".ai").mkdir()
    below.chmod(0o777)
    shown = bob.rye("doctor", "--json", cwd=below, code=None)
    assert any(str(world.project) == each["message"] for each in shown.json["findings"])
    assert f"passed over the project {below}" in shown.err
    named = bob.rye("list", "--project", str(below), cwd=below)
    assert "passed over" not in named.err
