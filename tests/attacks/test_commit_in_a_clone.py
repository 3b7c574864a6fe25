"""Attack: a clone names programs wherever git would run one, and an agent commits in it: none runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.executor.results import ExecutionResult
from rye_mcp.trust.approvals import Approvals
from tests.git_world import ask, commit, git, refusal, repository
from tests.runtime_workshop import Workshop

MENDED = "rye trust project"


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A clone that nobody approved, with a file that was changed."""
    found = repository(tmp_path, monkeypatch)
    commit(found, "one", a_txt="a\n")
    (found.project / "a.txt").write_text("changed\n")
    return found


def program(project: Path, place: str = "evil") -> Path:
    """A program, by its path from the project, that leaves a canary in it: there a confined tool can, too."""
    path = project / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n: > "{project}/ran"\ncat\n')
    path.chmod(0o755)
    return path


def hook(project: Path) -> None:
    program(project, ".git/hooks/pre-commit")


def linked_hooks(project: Path) -> None:
    program(project, "../elsewhere/pre-commit")
    shutil.rmtree(project / ".git/hooks", ignore_errors=True)
    (project / ".git/hooks").symlink_to(project.parent / "elsewhere")


def directory_of_hooks(project: Path) -> None:
    program(project, "mine/pre-commit")
    git(project, "config", "core.hooksPath", "mine")


def setting(key: str, value: str = "{program}", more: str = "") -> Callable[[Path], None]:
    def plant(project: Path) -> None:
        evil = program(project)
        git(project, "config", key, value.format(program=evil))
        if more:
            (project / ".git/info/attributes").write_text(more)

    return plant


def included(project: Path) -> None:
    evil = program(project)
    (project / "more").write_text(f'[filter "x"]\n\tclean = {evil}\n')
    (project / ".gitattributes").write_text("a.txt filter=x\n")
    git(project, "config", "include.path", "../more")


def of_a_worktree(project: Path) -> None:
    git(project, "config", "extensions.worktreeConfig", "true")
    git(project, "config", "--worktree", "core.fsmonitor", str(program(project)))


def signing(project: Path) -> None:
    git(project, "config", "commit.gpgSign", "true")
    git(project, "config", "gpg.program", str(program(project)))


def signing_with_ssh(project: Path) -> None:
    git(project, "config", "commit.gpgSign", "true")
    git(project, "config", "gpg.format", "ssh")
    git(project, "config", "gpg.ssh.defaultKeyCommand", str(program(project)))


def submodule(project: Path) -> None:
    """Git looks into it when there is nothing to commit."""
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / "x.txt").write_text("x\n")
    git(inner, "add", "x.txt")
    git(inner, "commit", "--quiet", "--message=inner")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=two")
    git(inner, "config", "core.fsmonitor", str(program(project, "../evil")))
    os.utime(inner / "x.txt", (1, 1))


PLANTED: dict[str, Callable[[Path], None]] = {
    "a hook": hook,
    "hooks behind a link": linked_hooks,
    "a directory of hooks": directory_of_hooks,
    "a file system monitor": setting("core.fsmonitor"),
    "a filter": setting("filter.x.clean", more="* filter=x\n"),
    "a filter that is a process": setting("filter.x.process", more="* filter=x\n"),
    "an included file": included,
    "the configuration of a worktree": of_a_worktree,
    "a program that signs": signing,
    "a command that names a key": signing_with_ssh,
    "a submodule": submodule,
}


@pytest.mark.first_case
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
async def test_nothing_that_a_clone_names_runs(workshop: Workshop, plant: Callable[[Path], None]) -> None:
    project = workshop.project
    plant(project)
    (project / "ran").unlink(missing_ok=True)
    before = git(project, "rev-parse", "HEAD")
    found = [await tried(workshop, paths) for paths in (["a.txt"], [])]
    assert not (project / "ran").exists()
    for each in found:
        assert each.code == "tool_failed", each.error
        assert MENDED in (each.stderr or "")
    assert git(project, "rev-parse", "HEAD") == before


async def tried(workshop: Workshop, paths: list[str]) -> ExecutionResult:
    return await workshop.run("rye/git/commit", {"message": "Two", "paths": paths})


async def test_a_repository_among_the_new_files_is_not_gone_into(workshop: Workshop) -> None:
    inner = workshop.project / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    assert "a repository in it" in await refusal(workshop, "commit", message="Two", paths=["inner"])


async def test_what_nobody_needs_to_approve_is_committed(workshop: Workshop) -> None:
    git(workshop.project, "remote", "add", "origin", "https://example.org/x.git")
    git(workshop.project, "config", "branch.main.remote", "origin")
    assert (await ask(workshop, "commit", message="Two", paths=["a.txt"]))["subject"] == "Two"


async def test_an_approved_project_in_a_repository_that_is_not_has_none_of_its_hooks_run(
    workshop: Workshop,
) -> None:
    """What was approved is the directory, and not what is around it."""
    project = workshop.project
    (project / ".git").rename(project.parent / ".git")
    program(project, "../.git/hooks/pre-commit")
    approve(workshop)
    assert "commit in a terminal" in await refusal(workshop, "commit", message="Two", paths=["a.txt"])
    assert not (project / "ran").exists()


@pytest.mark.parametrize("says_so", [True, False], ids=["that says so too", "that knows nothing of it"])
async def test_a_project_beside_its_repository(workshop: Workshop, *, says_so: bool) -> None:
    """A worktree is approved with its main repository; any directory can claim to be one of somebody's."""
    workshop.world.lift("rye/git/*")
    project, other = workshop.project, workshop.project.parent / "other"
    (project / ".ai").rename(project.parent / "ai")
    project.rename(other)
    git(other, "worktree", "add", "--quiet", str(project))
    if not says_so:
        (other / ".git/worktrees/project/gitdir").write_text(f"{project.parent}/elsewhere/.git\n")
    (project.parent / "ai").rename(project / ".ai")
    program(project, "../other/.git/hooks/pre-commit")
    approve(workshop)
    (project / "a.txt").write_text("changed\n")
    found = await tried(workshop, ["a.txt"])
    assert (project / "ran").exists() is found.success is says_so


async def test_a_clone_leads_into_no_other_repository(workshop: Workshop) -> None:
    workshop.world.lift("rye/git/*")
    project, other = workshop.project, workshop.project.parent / "other"
    other.mkdir()
    (project / ".git").rename(other / ".git")
    (project / ".git").write_text(f"gitdir: {other}/.git\n")
    before = git(other, "rev-parse", "HEAD")
    assert "leads to another one" in await refusal(workshop, "commit", message="Two", paths=["a.txt"])
    assert git(other, "rev-parse", "HEAD") == before


def approve(workshop: Workshop) -> None:
    Approvals(workshop.project, workshop.world.state).approve_project()
