"""Which files of a project travel: those that git tracks below it, as they are now, within limits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor import workspace
from rye_mcp.executor.workspace import tracked_files


def git(directory: Path, *words: str) -> None:
    identity = ("-c", "user.name=alice", "-c", "user.email=alice@example.org")
    subprocess.run(["git", "-C", str(directory), *identity, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "repository"
    for name in ("top.txt", "sub/in.txt", "sub/deep/er.txt", "sub2/out.txt"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    git(made, "init", "--quiet")
    git(made, "add", ".")
    return made


def names(project: Path) -> list[str]:
    return [each.relative for each in tracked_files(project).files]


def test_a_project_inside_of_a_repository_sends_what_is_below_it(repository: Path) -> None:
    assert names(repository / "sub") == ["deep/er.txt", "in.txt"]


def test_a_worktree_is_a_project_like_any_other(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "--quiet", "--message", "first")
    worktree = tmp_path.resolve() / "worktree"
    git(repository, "worktree", "add", "--quiet", str(worktree))
    (worktree / "top.txt").write_text("changed")
    (worktree / "new.txt").write_text("new")
    assert names(worktree) == ["sub/deep/er.txt", "sub/in.txt", "sub2/out.txt", "top.txt"]
    assert tracked_files(worktree).files[-1].content == b"changed"


def test_a_submodule_and_a_name_that_is_not_utf8_are_named_and_left_out(repository: Path) -> None:
    inner = repository / "module"
    git(repository, "init", "--quiet", str(inner))
    git(inner, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "module")
    (repository / "bad-\udcff").write_text("x")
    git(repository, "add", ".")
    found = tracked_files(repository)
    assert set(found.left_out) == {"module", "bad-\udcff"}
    assert "module" in found.notices[0].message
    assert "top.txt" in [each.relative for each in found.files]


def test_a_git_that_leads_elsewhere_says_nothing(repository: Path, tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    (project / "top.txt").write_text("x")
    (project / ".git").write_text(f"gitdir: {repository}/.git\n")
    with pytest.raises(RyeError) as caught:
        tracked_files(project)
    assert caught.value.code == "workspace_unavailable"


@pytest.mark.parametrize("content", [b"", b"DIRC", b"not an index"])
def test_an_index_that_says_nothing_is_refused(repository: Path, content: bytes) -> None:
    (repository / ".git/index").write_bytes(content)
    with pytest.raises(RyeError) as caught:
        tracked_files(repository)
    assert caught.value.code == "workspace_unavailable"


@pytest.mark.parametrize(("name", "limit"), [("MAX_FILES", 3), ("MAX_TREE_BYTES", 30)])
def test_more_than_the_limit_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr(workspace, name, limit)
    with pytest.raises(RyeError) as caught:
        tracked_files(repository)
    assert caught.value.code == "too_large"
    assert str(limit) in caught.value.message
