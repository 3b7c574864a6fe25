"""Somebody's directory, in which a person types `rye init`, leads elsewhere or brings decisions along."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rye_mcp.initialization import initialize_project, initialize_user
from rye_mcp.trust.approvals import UNSIGNED_PARTS
from tests.people import Person, Publication
from tests.trust_world import World

CANARY = "alive\n"


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/canary").write_text(CANARY)
    return tmp_path / "project"


def is_untouched(project: Path) -> bool:
    """Whether nothing outside of the project was written, or made."""
    outside = project.parent / "outside"
    return [path.name for path in outside.iterdir()] == ["canary"] and (
        (outside / "canary").read_text() == CANARY
    )


@pytest.mark.parametrize("target", ["outside", "nowhere", "outside/canary"])
def test_a_link_in_the_place_of_the_space(bob: Person, project: Path, target: str) -> None:
    (project / ".ai").symlink_to(project.parent / target)
    bob.refused("unsafe_path", "init", cwd=project)
    assert is_untouched(project)
    assert not (project.parent / "nowhere").exists()
    assert not (bob.state / "rye/projects").exists()


def test_a_gitignore_that_leads_elsewhere(bob: Person, project: Path) -> None:
    (project / ".gitignore").symlink_to(project.parent / "outside/canary")
    begun = bob.rye("init", "--json", cwd=project).json["project"]
    assert begun["ignored"] == []
    assert "symbolic link" in begun["notices"][0]
    assert is_untouched(project)


@pytest.mark.parametrize("linked", [".ai/trusted_keys", ".ai/tools"])
def test_links_in_a_space_of_ones_own(bob: Person, project: Path, linked: str) -> None:
    bob.rye("init", "--no-propose", cwd=project)
    place = project / linked
    if place.exists():
        place.rmdir()
    place.symlink_to(project.parent / "outside")
    command = ["init"] if linked == ".ai/tools" else ["trust", "propose"]
    bob.refused("unsafe_path", *command, cwd=project)
    assert is_untouched(project)


@pytest.mark.parametrize("brought", ["nothing", "keys", "decisions"])
def test_a_space_that_somebody_else_made(
    published: Publication, bob: Person, project: Path, brought: str
) -> None:
    """However little there is in it, and whatever it says of itself."""
    (project / ".ai").mkdir()
    if brought == "keys":
        (project / ".ai/keys").mkdir()
        (project / ".ai/revoked.toml").write_text("version = 1\n")
    elif brought == "decisions":
        author = published.author.state / "rye/projects"
        for place in (".ai/projects", ".ai/state/rye/projects"):
            (project / place).parent.mkdir(parents=True, exist_ok=True)
            (project / place).symlink_to(author)
    before = sorted(project.rglob("*"))
    assert bob.rye("init", "--json", cwd=project).json["project"]["yours"] is False
    assert bob.rye("trust", "--json", cwd=project).json["project"] == str(project)
    assert sorted(project.rglob("*")) == before


def test_a_directory_that_takes_the_users_own_space_for_a_project(bob: Person, project: Path) -> None:
    """A clone whose `.ai` is a link to the user space would make every tool of the user one of a project."""
    bob.rye("init", cwd=project)
    clone = project.parent / "clone"
    clone.mkdir()
    (clone / ".ai").symlink_to(bob.user_space)
    begun = bob.rye("init", "--json", cwd=clone).json
    assert begun["project"] is None
    assert "user space" in begun["no_project"]
    bob.refused("no_project", "trust", "project", "--project", str(clone), cwd=project)
    assert is_untouched(project)


def git(*arguments: object) -> None:
    who = ("-c", "user.name=eve", "-c", "user.email=eve@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *map(str, arguments)], check=True, capture_output=True)


def test_what_came_with_a_clone_is_not_approved_by_beginning(bob: Person, project: Path) -> None:
    git("init", project.parent / "published")
    (project.parent / "published/.env").write_text("INJECTED=from-the-clone\n")
    git("-C", project.parent / "published", "add", "--force", ".env")
    git("-C", project.parent / "published", "commit", "-m", "first")
    git("clone", project.parent / "published", project)
    begun = bob.rye("init", cwd=project).out
    assert ".env stood here before; to use what you have looked at: rye trust project" in begun
    assert (project / ".ai/tools").is_dir()

    def injected() -> str:
        return bob.rye("run", "rye/bash/bash", "--command", "echo [$INJECTED]", cwd=project).out

    assert "from-the-clone" not in injected()
    bob.rye("init", cwd=project)
    assert "from-the-clone" not in injected()
    bob.rye("trust", "project", cwd=project)
    assert "from-the-clone" in injected()


@pytest.mark.parametrize("part", UNSIGNED_PARTS)
def test_each_part_that_was_there_is_left_unapproved(world: World, part: str) -> None:
    (world.project / part).mkdir(parents=True)
    user = initialize_user(world.user_space, world.keys, world.trust(), owner="leo")
    begun = initialize_project(world.project, user, world.trust(), propose=True)
    assert (begun.made, begun.yours) == (True, False)
    assert part in (begun.unapproved or "")
    assert begun.ignored
    assert begun.proposed is not None
    assert begun.as_dict()["unapproved"] == begun.unapproved


def test_a_project_where_others_can_write_is_made_and_not_approved(bob: Person, project: Path) -> None:
    project.chmod(0o777)
    begun = bob.rye("init", "--json", cwd=project).json["project"]
    assert (begun["made"], begun["yours"]) == (True, False)
    assert "every user can write to" in begun["unapproved"]
