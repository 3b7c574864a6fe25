"""Files of the last commit: whatever git keeps them in, and whatever somebody has put there instead."""

from __future__ import annotations

import os
import tracemalloc
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path

import pytest

from rye_mcp.verbs.git_objects import last_commits
from tests.git_world import WHO, git

FILES = {f"demo/t{number}.py": (f"x = {number}\n" * 400 + "y = 1\n" * 400).encode() for number in range(12)}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose project is a directory of it."""
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "repository"
    for name, content in FILES.items():
        path = root / "project/.ai/tools" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def commit(root: Path, *options: str) -> None:
    git(root, "init", "-q", "-b", "main", *options)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "all of it")


def found(root: Path) -> dict[str, bytes]:
    return dict(read(root, ".ai/tools"))


def read(
    root: Path,
    below: str,
    wanted: Callable[[str], bool] = lambda _: True,
    known: Container[str] = (),
) -> Iterator[tuple[str, bytes]]:
    for last in last_commits(root / "project", below):
        yield from last.files(wanted, known)


@pytest.mark.first_case
@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_loose_packed_in_a_worktree_and_borrowed(repository: Path, digest: str) -> None:
    commit(repository, f"--object-format={digest}")
    assert found(repository) == FILES
    git(repository, "gc", "-q", "--aggressive")
    git(repository, "pack-refs", "--all")
    assert found(repository) == FILES
    git(repository, "worktree", "add", "-q", "../tree", "-b", "other")
    assert found(repository.parent / "tree") == FILES
    git(repository.parent, "clone", "-q", "--shared", "repository", "shared")
    assert found(repository.parent / "shared") == FILES


def test_what_was_committed_counts_and_nothing_else(repository: Path) -> None:
    commit(repository)
    (repository / "project/.ai/tools/demo/new.py").write_bytes(b"new")
    (repository / "project/.ai/tools/demo/t0.py").write_bytes(b"changed")
    git(repository, "add", "--all")
    assert found(repository) == FILES
    wanted = read(repository, ".ai/tools", lambda path: path == "demo/t1.py")
    assert dict(wanted) == {"demo/t1.py": FILES["demo/t1.py"]}
    assert dict(read(repository, ".ai/directives")) == {}


def test_of_commits_since_a_known_one_each_new_content_is_read_once(repository: Path) -> None:
    """Commits in which a file was there and is gone again count too, and a merge is one of them."""
    commit(repository)
    first = git(repository, "rev-parse", "HEAD")
    path = repository / "project/.ai/tools/demo/t0.py"
    for content in ("second\n", "third\n", "second\n"):
        path.write_text(content)
        git(repository, "commit", "-qam", content)
    path.unlink()
    git(repository, "commit", "-qam", "gone")
    contents = [content for name, content in read(repository, ".ai/tools", known={first})]
    assert sorted(contents) == [b"second\n", b"third\n"]
    assert [*read(repository, ".ai/tools", known={"0" * 40})] == [*read(repository, ".ai/tools")]
    git(repository, "checkout", "-qb", "side", first)
    path.with_name("side.py").write_bytes(b"side\n")
    git(repository, "add", "--all")
    git(repository, "commit", "-qm", "side")
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-edit", "side")
    contents = [content for name, content in read(repository, ".ai/tools", known={first})]
    assert sorted(contents) == [b"second\n", b"side\n", b"third\n"]


def test_without_a_repository_or_a_commit_there_is_nothing(repository: Path) -> None:
    assert found(repository) == {}
    git(repository, "init", "-q")
    assert found(repository) == {}


def bomb(git_directory: Path) -> None:
    _replace(git_directory, b"tree %d\0" % (64 << 20) + b"a" * (64 << 20))


def another_kind(git_directory: Path) -> None:
    _replace(git_directory, b"blob 1\0a")


def pipe(git_directory: Path) -> None:
    (git_directory / "HEAD").unlink()
    os.mkfifo(git_directory / "HEAD")


def outside(git_directory: Path) -> None:
    (git_directory / "HEAD").write_bytes(b"ref: refs/../../../somewhere\n")


def cut(git_directory: Path) -> None:
    for path in _objects(git_directory):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-8])


def _objects(git_directory: Path) -> Sequence[Path]:
    return [path for path in git_directory.glob("objects/??/*") if path.is_file()]


def _replace(git_directory: Path, content: bytes) -> None:
    for path in _objects(git_directory):
        path.chmod(0o644)
        path.write_bytes(zlib.compress(content, 1))


@pytest.mark.thorough
@pytest.mark.parametrize("spoil", [another_kind, pipe, outside, cut, bomb], ids=lambda spoil: spoil.__name__)
def test_what_cannot_be_read_is_left_out(repository: Path, spoil: object) -> None:
    commit(repository)
    assert callable(spoil)
    spoil(repository / ".git")
    assert found(repository) == {}


def test_differences_that_never_end_are_left_out(repository: Path) -> None:
    """A pack may say that an object differs from itself."""
    commit(repository)
    git(repository, "gc", "-q", "--aggressive")
    (pack,) = (repository / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    for position in range(12, len(data) - 20, 7):
        data[position] ^= 0x70
    pack.write_bytes(data)
    assert set(found(repository).items()) <= set(FILES.items())


def test_many_refs_in_one_file_are_not_taken_apart(repository: Path) -> None:
    """Whoever asks for the last commit waits for it, and the file may have 16 MiB."""
    commit(repository)
    name = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    packed = repository / ".git/packed-refs"
    packed.write_bytes(b"xy\n" * 5_000_000 + packed.read_bytes())
    tracemalloc.start()
    try:
        [last] = last_commits(repository / "project", ".ai")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last.name == name
    assert peak < 5 * packed.stat().st_size
