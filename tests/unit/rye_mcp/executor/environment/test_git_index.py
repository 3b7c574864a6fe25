"""What git tracks, as the index says it; compared with what git itself made."""

from __future__ import annotations

import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.executor.environment.git_index import (
    MAX_INDEX_BYTES,
    GitIndexes,
    UnreadableIndexError,
    index_tracks,
    submodules_of,
)


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True)


def repository(directory: Path, *options: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", *options)
    return directory


def add(directory: Path, *paths: str, options: tuple[str, ...] = ()) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("x", encoding="ascii")
    git(directory, *options, "add", "-f", *paths)


FORMATS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "usual": ((), ()),
    "version 4": ((), ("-c", "index.version=4")),
    "without a checksum": ((), ("-c", "index.skipHash=true")),
    "SHA256": (("--object-format=sha256",), ()),
}


@pytest.mark.parametrize(("made", "added"), FORMATS.values(), ids=FORMATS)
def test_a_path_is_tracked_when_it_or_something_below_it_is(
    tmp_path: Path, made: tuple[str, ...], added: tuple[str, ...]
) -> None:
    root = repository(tmp_path / "project", *made)
    venv = root / ".venv"
    assert GitIndexes().tracks(venv) is False
    add(root, "a.txt", ".venvs/x", ".ven", "z/long/path/of/a/file", options=added)
    assert GitIndexes().tracks(venv) is False
    add(root, ".venv/bin/python", options=added)
    assert GitIndexes().tracks(venv) is True
    assert GitIndexes().tracks(root / "z") is True


def test_a_link_that_is_tracked_makes_everything_behind_it_tracked(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    (root / "env").symlink_to(tmp_path)
    git(root, "add", "env")
    assert GitIndexes().tracks(root / "env") is True
    assert GitIndexes().tracks(root / "env/venv") is True


def test_names_that_differ_only_in_case_are_the_same(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    add(root, ".VENV/bin/python")
    assert GitIndexes().tracks(root / ".venv") is True


def test_an_entry_with_more_flags_is_read_too(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    add(root, "a", ".venv/x", "b")
    git(root, "update-index", "--skip-worktree", ".venv/x")
    (root / "c").touch()
    git(root, "add", "-N", "c")
    assert (root / ".git/index").read_bytes()[7] == 3
    indexes = GitIndexes()
    assert [indexes.tracks(root / name) for name in (".venv", "a", "b", "c", "d")] == [True] * 4 + [False]


def test_repositories_further_up_and_worktrees_are_asked_too(tmp_path: Path) -> None:
    root = repository(tmp_path / "whole")
    add(root, "part/.venv/x")
    assert GitIndexes().tracks(root / "part/.venv") is True
    assert GitIndexes().tracks(root / "part/other") is False
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert GitIndexes().tracks(tmp_path / "tree/part/.venv") is True
    assert GitIndexes().tracks(tmp_path / "tree/.venv") is False


def test_without_a_repository_nothing_is_tracked(tmp_path: Path) -> None:
    assert GitIndexes().tracks(tmp_path / ".venv") is False


def test_what_cannot_be_told_is_not_no(tmp_path: Path) -> None:
    split = repository(tmp_path / "split")
    add(split, "a")
    git(split, "update-index", "--split-index")
    assert GitIndexes().tracks(split / ".venv") is None
    other = tmp_path / "other"
    (other / ".hg").mkdir(parents=True)
    assert GitIndexes().tracks(other / ".venv") is None
    broken = repository(tmp_path / "broken")
    (broken / ".git/index").write_bytes(b"DIRC")
    assert GitIndexes().tracks(broken / ".venv") is None
    loose = tmp_path / "loose"
    loose.mkdir()
    (loose / ".git").write_text("gitdir: /nowhere\n", encoding="ascii")
    assert GitIndexes().tracks(loose / ".venv") is None


def test_an_answer_changes_when_the_index_does(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    indexes = GitIndexes()
    assert indexes.tracks(root / ".venv") is False
    repository(root)
    assert indexes.tracks(root / ".venv") is False
    add(root, ".venv/x")
    assert indexes.tracks(root / ".venv") is True
    git(root, "rm", "-q", "--cached", ".venv/x")
    assert indexes.tracks(root / ".venv") is False


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_in_another_way(data: bytes) -> None:
    for start in (b"", b"DIRC\0\0\0\2\0\0\0\1", b"DIRC\0\0\0\4\0\0\0\2"):
        try:
            index_tracks(start + data, b".venv")
        except UnreadableIndexError:
            continue


def test_a_damaged_index_says_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    add(root, "a", "b", "c")
    data = (root / ".git/index").read_bytes()
    assert not index_tracks(data, b".venv")
    for end in range(len(data)):
        with pytest.raises(UnreadableIndexError):
            index_tracks(data[:end], b".venv")


def compressed(first: bytes, count: int, numbers: bytes) -> bytes:
    """An index of version 4 with a name, and more that repeat it but for what `numbers` say is dropped."""
    fixed = bytes(24) + (0o100644).to_bytes(4, "big") + bytes(12 + 20 + 2)
    entries = fixed + b"\0" + first + b"\0" + (fixed + numbers + b"x\0") * (count - 1)
    return b"DIRC" + (4).to_bytes(4, "big") + count.to_bytes(4, "big") + entries + b"link" + bytes(20)


@pytest.mark.parametrize(
    ("first", "count", "numbers"),
    [
        (b"n" * 4097, 1, b""),
        (b"n" * (1 << 20), 20_000, b"\0"),
        pytest.param(b"n" * 4000, 80_000, b"\1", marks=pytest.mark.thorough),
        (b"n", 2, b"\xff" * (1 << 20) + b"\0"),
    ],
    ids=["a long name", "a very long one again and again", "too much in all", "a number without end"],
)
def test_an_index_that_would_take_all_memory_or_time_says_nothing(
    first: bytes, count: int, numbers: bytes
) -> None:
    data = compressed(first, count, numbers)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableIndexError):
            submodules_of(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MAX_INDEX_BYTES


def test_names_that_repeat_what_is_before_them_are_read() -> None:
    names = [b"n" * 4000, *(b"n" * 3999 + b"x" for _ in range(9))]
    data = compressed(names[0], 10, b"\1").replace(b"link", b"")
    assert index_tracks(data, names[-1])
