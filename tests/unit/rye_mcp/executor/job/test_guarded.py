"""Packages and repositories of a project are looked for again exactly where something may have changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lilux._stamps import SETTLED_NS, stamp_of
from rye_mcp.executor.job.guarded import Around, Repository, Surroundings, find


def later() -> int:
    """Read a clock by which every change so far is old."""
    return time.time_ns() + 2 * SETTLED_NS


def made(root: Path) -> tuple[Path, Repository]:
    """A project with directories, a submodule and a worktree, whose changes are told from later ones."""
    project = root.resolve() / "project"
    for name in ("tools/venv", "tools/.venv", "docs/env", "deep/er/module", ".git/modules/module"):
        (project / name).mkdir(parents=True)
    (project / "deep/er/module/.git").write_text("gitdir: ../../../.git/modules/module\n")
    (project / ".git/modules/module/HEAD").write_text("ref: refs/heads/main\n")
    (project / "elsewhere").symlink_to(root)
    let_the_clock_tick(root)
    return project, Repository(str(project), str(project), (f"{project}/.git",))


def let_the_clock_tick(root: Path) -> None:
    """Wait until a change gets another time than those before."""
    probe = root / "probe"
    probe.touch()
    first = stamp_of(probe)
    while stamp_of(probe) == first:
        probe.unlink()
        probe.touch()


def test_what_did_not_change_is_not_looked_for_again(tmp_path: Path) -> None:
    project, repository = made(tmp_path)
    around = Surroundings(clock=later)
    first = around.look(repository)
    assert first == Around((f"{project}/tools/.venv",), (), (f"{project}/.git/modules/module",))
    assert around.look(repository) is first
    (project / "tools/code.py").touch()
    assert around.look(repository) == first


def test_a_change_that_is_too_young_to_be_told_is_not_relied_on(tmp_path: Path) -> None:
    _, repository = made(tmp_path)
    around = Surroundings()
    assert around.look(repository) is not around.look(repository)


def test_another_repository_is_looked_at_for_itself(tmp_path: Path) -> None:
    project, repository = made(tmp_path)
    around = Surroundings(clock=later)
    around.look(repository)
    assert around.look(Repository(str(project), str(project))).inner == ()


PLANTS = {
    "a repository": "docs/.git/",
    "a new directory with packages": "new/node_modules/",
    "an environment": "docs/pyvenv.cfg",
    "an environment in a usual place": "tools/venv/pyvenv.cfg",
    "the project as an environment": "pyvenv.cfg",
    "a repository inside git's own": ".git/modules/module/modules/a/HEAD",
    "a worktree": ".git/worktrees/one/HEAD",
}
"""By name: what is made that other programs run or load; directories end with a slash."""


def plant(project: Path, name: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("/"):
        path.mkdir()
    else:
        path.touch()


@pytest.mark.parametrize("name", PLANTS)
def test_what_is_made_is_found_although_its_times_are_set_back(tmp_path: Path, name: str) -> None:
    project, repository = made(tmp_path)
    around = Surroundings(clock=later)
    before = around.look(repository)
    times = {path: path.stat() for path in (project, *project.rglob("*")) if path.is_dir()}
    plant(project, PLANTS[name])
    for path, then in times.items():
        os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    found = around.look(repository)
    assert found != before
    assert found == Surroundings().look(repository)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")
def test_a_repository_in_a_submodule_that_the_index_names_is_found(tmp_path: Path) -> None:
    project, repository = made(tmp_path)
    shutil.rmtree(project / ".git")
    git = ["git", "-C", str(project), "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q"], check=True)
    added = "160000,1111111111111111111111111111111111111111,deep/er/module"
    subprocess.run([*git, "update-index", "--add", "--cacheinfo", added], check=True)
    (project / "deep/er/module/.git").unlink()
    let_the_clock_tick(tmp_path)
    around = Surroundings(clock=later)
    assert around.look(repository).nested == ()
    (project / "deep/er/module/.git").mkdir()
    assert around.look(repository).nested == (f"{project}/deep/er/module/.git",)


def test_an_index_that_cannot_be_read_is_relied_on_for_nothing(tmp_path: Path) -> None:
    project, repository = made(tmp_path)
    (project / ".git/index").write_bytes(b"no index of git, with a link")
    let_the_clock_tick(tmp_path)
    around = Surroundings(clock=later)
    assert around.look(repository).nested == (f"{project}/deep/er/module/.git",)
    (project / "deep/er/another").mkdir()
    (project / "deep/er/another/.git").mkdir()
    assert f"{project}/deep/er/another/.git" in around.look(repository).nested


def dig(place: Path, depth: int) -> None:
    """Make directories in each other, further down than a recursive program gets."""
    place.mkdir(parents=True, exist_ok=True)
    directory = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=directory)
        below = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.close(directory)


@pytest.fixture
def dug(tmp_path: Path) -> Iterator[Path]:
    """A place for what is too deep to be removed by others."""
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "project"], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("where", [".git/modules", ".git/worktrees", "deep"])
def test_what_a_tool_has_made_too_deep_keeps_nobody_from_looking(dug: Path, where: str) -> None:
    project, repository = made(dug)
    (project / ".git/index").write_bytes(b"no index of git, with a link")
    dig(project / where, 1200)
    found = Surroundings().look(repository)
    assert found.inner == (f"{project}/.git/modules/module",)
    assert found.nested == (f"{project}/deep/er/module/.git",)


def test_what_is_too_much_to_be_looked_through_stays_as_it_is(tmp_path: Path) -> None:
    project, repository = made(tmp_path)
    for number in range(5):
        (project / f".git/modules/another{number}").mkdir()
    found = Surroundings(limit=5).look(repository)
    assert found.crowded == (f"{project}/.git/modules",)
    assert f"{project}/.git/modules" in find(repository, found).guarded
