"""Somebody's project claims to be a worktree of a repository that the user has approved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rye_mcp.trust.approvals import Approvals
from rye_mcp.trust.project import identify_project
from tests.trust_world import World


def git(*arguments: object) -> None:
    identity = ["-c", "user.name=leo", "-c", "user.email=leo@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "main"
    git("init", path)
    git("-C", path, "commit", "--allow-empty", "-m", "first")
    git("-C", path, "worktree", "add", tmp_path / "worktree")
    return path


def is_approved(project: Path, state: Path) -> bool:
    return Approvals(project, state).read().approved


def test_a_real_worktree_counts_as_its_repository(repository: Path, world: World) -> None:
    assert identify_project(world.root / "worktree") == repository
    Approvals(repository, world.state).approve_project()
    assert is_approved(world.root / "worktree", world.state)
    Approvals(world.root / "worktree", world.state).approve_project(approved=False)
    assert not is_approved(repository, world.state)


def hostile(root: Path, link: str) -> Path:
    project = root / "hostile"
    project.mkdir()
    (project / ".git").write_text(link)
    return project


@pytest.mark.parametrize("end", ["", "\n", "\n\n"], ids=repr)
def test_a_claim_is_not_enough(repository: Path, world: World, end: str) -> None:
    Approvals(repository, world.state).approve_project()
    project = hostile(world.root, f"gitdir: {repository}/.git/worktrees/worktree{end}")
    assert identify_project(project) == project
    assert not is_approved(project, world.state)


@pytest.mark.parametrize(
    "link", ["gitdir: {0}/.git", "gitdir: {0}", "{0}/.git/worktrees/worktree", "", "gitdir: "]
)
def test_other_links_are_none(repository: Path, world: World, link: str) -> None:
    Approvals(repository, world.state).approve_project()
    project = hostile(world.root, link.format(repository))
    assert identify_project(project) == project


def test_a_repository_that_a_project_brings_along_is_not_approved(repository: Path, world: World) -> None:
    """Both links hold, inside of the project: then it is that repository, which nobody approved."""
    Approvals(repository, world.state).approve_project()
    project = hostile(world.root, "gitdir: inner/.git/worktrees/x\n")
    administration = project / "inner/.git/worktrees/x"
    administration.mkdir(parents=True)
    (administration / "gitdir").write_text(f"{project}/.git\n")
    assert identify_project(project) == project / "inner"
    assert not is_approved(project, world.state)


@pytest.mark.parametrize("name", ["worktrees", "x"])
def test_a_clone_below_an_approved_project_is_not_that_one(repository: Path, world: World, name: str) -> None:
    """Both links hold, and three directories up is what was approved; but git has not put them there."""
    Approvals(repository, world.state).approve_project()
    project = repository / "vendor"
    administration = project / name / "x"
    administration.mkdir(parents=True)
    (administration / "gitdir").write_text(f"{project}/.git\n")
    (project / ".git").write_text(f"gitdir: {administration}\n")
    assert identify_project(project) == project
    assert not is_approved(project, world.state)


def test_a_link_to_the_directory_of_git_is_followed_nowhere(repository: Path, world: World) -> None:
    Approvals(repository, world.state).approve_project()
    project = world.root / "hostile"
    project.mkdir()
    (project / ".git").symlink_to(world.root / "worktree/.git")
    assert identify_project(project) == project


def test_a_link_to_a_project_is_that_project(repository: Path, world: World) -> None:
    link = world.root / "link"
    link.symlink_to(repository)
    Approvals(link, world.state).approve_project()
    assert is_approved(repository, world.state)


@pytest.mark.parametrize(
    "content", [b"\0", b"gitdir: \0\n", b"gitdir: " + b"x" * 10_000, b"\xff\xfe"], ids=repr
)
def test_a_link_that_is_none_harms_nobody(world: World, content: bytes) -> None:
    project = world.root / "hostile"
    project.mkdir()
    (project / ".git").write_bytes(content)
    assert identify_project(project) == project
