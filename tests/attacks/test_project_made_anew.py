"""Attack: a directory takes the place of a project that the user has approved."""

from __future__ import annotations

import shutil
from pathlib import Path

from rye_mcp.trust.approvals import Approvals
from tests.trust_world import World, refused
from tests.users import ADA, BOB, as_user, two_users


@two_users
def test_what_another_user_makes_there_is_not_approved(everybody: Path) -> None:
    everybody.chmod(0o1777)
    project, state = everybody / "project", everybody / "state"

    def approved(*, approve: bool = False) -> bool:
        decisions = Approvals(project, state)
        if approve:
            decisions.approve_project()
        return decisions.read().approved

    as_user(ADA, lambda: project.mkdir(mode=0o700))
    assert as_user(ADA, lambda: approved(approve=True)) is True
    number = project.stat().st_ino
    as_user(ADA, lambda: shutil.rmtree(project))
    as_user(BOB, lambda: project.mkdir(mode=0o755))
    assert as_user(ADA, approved) is False
    assert as_user(ADA, lambda: approved(approve=True)) == "unsafe_permissions"
    [kept] = (state / "projects").iterdir()
    kept.write_text(kept.read_text().replace(str(number), str(project.stat().st_ino)))
    assert as_user(ADA, approved) is False


def test_a_project_to_which_others_can_write_is_not_approved(world: World) -> None:
    world.project.mkdir()
    decisions = Approvals(world.project, world.state)
    decisions.approve_project()
    assert decisions.read().approved
    world.project.chmod(0o777)
    assert not decisions.read().approved
    refused("unsafe_permissions", decisions.approve_project)
    world.project.chmod(0o755)
    assert decisions.read().approved


def test_another_directory_in_its_place_is_not_approved(world: World) -> None:
    world.project.mkdir()
    decisions = Approvals(world.project, world.state)
    decisions.approve_project()
    assert decisions.read().approved
    world.project.rename(world.root / "before")
    refused("no_project", decisions.approve_project)
    shutil.copytree(world.root / "before", world.project)
    assert not decisions.read().approved
    shutil.rmtree(world.project)
    (world.root / "before").rename(world.project)
    assert decisions.read().approved
