"""Nothing below a directory is reached through a link, whatever stands at which place of a path."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from pathlib import Path

import pytest

from lilux import _trees
from lilux._trees import Tree, UnsafeError
from tests.file_helpers import UMASKS, mode_of, names_in, umask

LIMIT = 100


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a file two directories down."""
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/b/file").write_bytes(b"content")
    return tmp_path / "root"


def test_a_file_is_read_and_a_missing_one_is_none(root: Path) -> None:
    assert Tree(root).read("a/b/file", limit=LIMIT) == b"content"
    for missing in ("a/b/other", "a/other/file", "other/b/file"):
        assert Tree(root).read(missing, limit=LIMIT) is None
    assert Tree(root / "none").read("a/b/file", limit=LIMIT) is None


@pytest.mark.parametrize("size", [99, 100, 101])
def test_a_file_is_read_up_to_its_limit(root: Path, size: int) -> None:
    (root / "file").write_bytes(b"x" * size)
    if size <= LIMIT:
        assert Tree(root).read("file", limit=LIMIT) == b"x" * size
        return
    with pytest.raises(OSError, match="at most 100 bytes") as caught:
        Tree(root).read("file", limit=LIMIT)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(root / "file"))


@pytest.mark.parametrize("linked", ["", "a", "a/b", "a/b/file"])
def test_a_link_is_refused_at_every_place_of_the_path(root: Path, linked: str) -> None:
    place, away = root / linked, root.parent / "away"
    place.rename(away)
    place.symlink_to(away)
    with pytest.raises(UnsafeError, match="found a symbolic link") as caught:
        Tree(root).read("a/b/file", limit=LIMIT)
    assert caught.value.attributes == {"reason": "unsafe_path", "path": place}


def test_a_file_that_becomes_a_link_after_the_first_look_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_look = os.stat

    def look_and_exchange(name: str, *, dir_fd: int | None, follow_symlinks: bool) -> os.stat_result:
        found = really_look(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        (root / "a/b/file").unlink()
        (root / "a/b/file").symlink_to("/etc/passwd")
        return found

    monkeypatch.setattr(os, "stat", look_and_exchange)
    with pytest.raises(UnsafeError, match="found a symbolic link"):
        Tree(root).read("a/b/file", limit=LIMIT)


def test_nothing_but_a_regular_file_is_opened(root: Path) -> None:
    os.mkfifo(root / "FIFO")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        for name, found in [("FIFO", "a FIFO"), ("socket", "a socket"), ("a", "a directory")]:
            with pytest.raises(UnsafeError, match=f"expected a regular file, found {found}"):
                Tree(root).read(name, limit=LIMIT)


def test_a_file_in_the_place_of_a_directory_is_told_from_a_missing_one(root: Path) -> None:
    with pytest.raises(NotADirectoryError) as caught:
        Tree(root).read("a/b/file/x", limit=LIMIT)
    assert caught.value.filename == str(root / "a/b/file")


@pytest.mark.parametrize("place", ["", "a", "a/b", "a/b/file"])
def test_a_looser_mode_is_refused_with_the_command_that_fixes_it(root: Path, place: str) -> None:
    for each in ("", "a", "a/b"):
        (root / each).chmod(0o700)
    (root / "a/b/file").chmod(0o600)
    tree = Tree(root, forbidden=0o077)
    assert tree.read("a/b/file", limit=LIMIT) == b"content"
    (root / place).chmod(mode_of(root / place) | 0o004)
    with pytest.raises(UnsafeError, match="so that others have no say") as caught:
        tree.read("a/b/file", limit=LIMIT)
    assert caught.value.attributes["reason"] == "unsafe_permissions"
    assert caught.value.attributes["path"] == root / place
    subprocess.run(["sh", "-c", caught.value.attributes["remedy"]], check=True)
    assert tree.read("a/b/file", limit=LIMIT) == b"content"


@pytest.mark.parametrize("mode", [0o601, 0o602, 0o604, 0o610, 0o620, 0o640, 0o644, 0o700, 0o666, 0o777])
def test_a_looser_file_in_an_open_directory_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a file"
    path.write_bytes(b"content")
    path.chmod(mode)
    with Tree(tmp_path).opened() as directory:
        with pytest.raises(UnsafeError) as caught:
            _trees.read_in(directory, path, limit=LIMIT, forbidden=0o177)
        assert caught.value.attributes == {
            "reason": "unsafe_permissions",
            "path": path,
            "remedy": f"chmod 0600 '{path}'",
        }
        subprocess.run(["sh", "-c", caught.value.attributes["remedy"]], check=True)
        assert _trees.read_in(directory, path, limit=LIMIT, forbidden=0o177) == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("place", ["", "a", "a/b/file"])
def test_what_belongs_to_somebody_else_is_refused(root: Path, place: str) -> None:
    os.chown(root / place, 12345, -1)
    assert Tree(root).read("a/b/file", limit=LIMIT) == b"content"
    with pytest.raises(UnsafeError, match="found owner 12345") as caught:
        Tree(root, forbidden=0o022).read("a/b/file", limit=LIMIT)
    assert caught.value.attributes["reason"] == "unsafe_permissions"


@pytest.mark.parametrize("mask", UMASKS, ids=oct)
def test_a_file_is_written_with_exactly_its_mode_and_that_of_its_directories(root: Path, mask: int) -> None:
    with umask(mask):
        Tree(root).write("new/deep/file", b"first", mode=0o640, create_mode=0o750)
    assert (root / "new/deep/file").read_bytes() == b"first"
    assert [mode_of(root / each) for each in ("new", "new/deep", "new/deep/file")] == [0o750, 0o750, 0o640]
    with pytest.raises(FileExistsError):
        Tree(root).write("new/deep/file", b"second", mode=0o640, replace=False)
    assert names_in(root / "new/deep") == ["file"]


def test_nothing_is_written_through_a_link(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(UnsafeError):
        Tree(root).write("link/file", b"content", mode=0o600, create_mode=0o700)
    assert names_in(tmp_path) == ["root"]


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "a/link").symlink_to("b")
    before = names_in(Path("/proc/self/fd"))
    for relative in ("a/b/file", "a/link/file", "a/link", "none/file", "a", "a/b/file/x"):
        for forbidden in (0, 0o777):
            try:
                Tree(root, forbidden=forbidden).read(relative, limit=3)
            except (OSError, UnsafeError):
                continue
    assert names_in(Path("/proc/self/fd")) == before
