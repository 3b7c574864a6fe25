"""What a file says is kept as long as it says that, and not a moment longer."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from lilux import _stamps
from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS_WRITE, Tree
from tests.file_helpers import count_time_in, mode_of, umask
from tests.trust_world import old, refused

TICK_NS = 10_000_000
SECOND_NS = 1_000_000_000


class Reader:
    """A kept file that counts how often it was parsed."""

    def __init__(self, root: Path, relative: str = "directory/file", forbidden: int = OTHERS_WRITE) -> None:
        self.parsed = 0
        self.kept = KeptFile(Tree(root, forbidden=forbidden), relative, self._parse, limit=100)

    def _parse(self, data: bytes | None, place: Path) -> list[bytes | None]:
        self.parsed += 1
        if data == b"bad":
            raise RyeError("malformed_trust", f"expected something else in {place}", where=place)
        return [data]

    def says(self) -> bytes | None:
        return self.kept.value()[0]


@pytest.fixture
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is old enough after 50 ms, more than any clock of a file system that tests run on needs."""
    monkeypatch.setattr(_stamps, "SETTLED_NS", 50_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "directory").mkdir()
    found = tmp_path / "directory/file"
    found.write_bytes(b"first")
    return found


def test_it_is_read_once_while_nothing_changes(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(tmp_path)
    first = reader.kept.value()
    old(path, path.parent, tmp_path)
    assert reader.kept.value() is first
    monkeypatch.setattr(Tree, "read", None)
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert all(reader.kept.value() is first for _ in range(100))
    assert reader.parsed == 1
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208


@pytest.mark.first_case
@pytest.mark.parametrize("directory", ["directory", "."])
def test_what_else_comes_and_goes_is_no_reason_to_read_it_again(
    tmp_path: Path, path: Path, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(tmp_path)
    old(path)
    first = reader.kept.value()
    monkeypatch.setattr(Tree, "read", None)
    for number in range(3):
        (tmp_path / directory / f"other{number}").write_bytes(b"more")
        assert reader.kept.value() is first


def test_a_file_that_came_while_it_was_looked_for_is_not_kept_beyond_its_end(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.unlink()
    reader = Reader(tmp_path)
    really_read = Tree.read
    with monkeypatch.context() as patch:

        def read_late(*arguments: Any, **options: Any) -> bytes | None:
            path.write_bytes(b"first")
            return really_read(*arguments, **options)

        patch.setattr(Tree, "read", read_late)
        assert reader.says() == b"first"
    path.unlink()
    assert reader.says() is None


@pytest.mark.usefixtures("quick_clock")
def test_another_directory_with_another_file_is_seen(tmp_path: Path, path: Path) -> None:
    reader = Reader(tmp_path)
    (tmp_path / "next").mkdir()
    (tmp_path / "next/file").write_bytes(b"other")
    old(path, tmp_path / "next/file", path.parent, tmp_path / "next", tmp_path)
    assert reader.says() == b"first"
    path.parent.rename(tmp_path / "last")
    (tmp_path / "next").rename(path.parent)
    assert reader.says() == b"other"


@pytest.mark.thorough
@pytest.mark.parametrize("tick_ns", [TICK_NS, SECOND_NS, 2 * SECOND_NS])
def test_a_change_that_no_clock_could_tell_is_seen(
    tmp_path: Path, path: Path, tick_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same length, in place, within one tick of a clock as coarse as that of many file systems."""
    count_time_in(tick_ns, monkeypatch)
    reader = Reader(tmp_path)
    while not 0.4 < time.time_ns() % tick_ns / tick_ns < 0.7:
        time.sleep(tick_ns / SECOND_NS / 10)
    for number in range(500):
        path.write_bytes(b"%05d" % number)
        assert reader.says() == b"%05d" % number


def test_another_length_is_seen_without_any_clock(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_time_in(1 << 63, monkeypatch)
    reader = Reader(tmp_path)
    assert reader.says() == b"first"
    path.write_bytes(b"second")
    assert reader.says() == b"second"


@pytest.mark.usefixtures("quick_clock")
def test_a_change_after_a_long_time_is_seen(tmp_path: Path, path: Path) -> None:
    reader = Reader(tmp_path)
    old(path, path.parent, tmp_path)
    assert reader.says() == b"first"
    before = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert reader.says() == b"other"


def test_the_same_bytes_are_the_same_value(tmp_path: Path, path: Path) -> None:
    reader = Reader(tmp_path)
    first = reader.kept.value()
    for _ in range(3):
        path.unlink()
        path.write_bytes(b"first")
        assert reader.kept.value() is first


@pytest.mark.usefixtures("quick_clock")
def test_what_comes_and_goes_is_seen(tmp_path: Path, path: Path) -> None:
    reader = Reader(tmp_path)
    for _ in range(2):
        assert reader.says() == b"first"
        old(path, path.parent, tmp_path)
        assert reader.says() == b"first"
        path.rename(tmp_path / "away")
        assert reader.says() is None
        old(path.parent, tmp_path)
        assert reader.says() is None
        (tmp_path / "away").rename(path)


def test_a_root_that_is_missing_is_a_file_that_is_missing(tmp_path: Path) -> None:
    assert Reader(tmp_path / "none").says() is None


@pytest.mark.usefixtures("quick_clock")
@pytest.mark.parametrize("part", ["directory/file", "directory", "."])
def test_permissions_that_become_loose_are_seen(tmp_path: Path, path: Path, part: str) -> None:
    reader = Reader(tmp_path)
    old(path, path.parent, tmp_path)
    assert reader.says() == b"first"
    loosened = tmp_path / part
    before = mode_of(loosened)
    loosened.chmod(before | 0o002)
    for _ in range(2):
        refused("unsafe_permissions", reader.says)
    loosened.chmod(before)
    assert reader.says() == b"first"


def test_a_refusal_is_not_kept(tmp_path: Path, path: Path) -> None:
    reader = Reader(tmp_path)
    path.write_bytes(b"bad")
    for _ in range(2):
        refused("malformed_trust", reader.says)
    path.write_bytes(b"good")
    assert reader.says() == b"good"
    path.write_bytes(b"bad")
    refused("malformed_trust", reader.says)


@pytest.mark.parametrize("size", [100, 101])
def test_it_is_read_up_to_its_limit(tmp_path: Path, path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)
    if size <= 100:
        assert Reader(tmp_path).says() == b"x" * size
    else:
        refused("too_large", Reader(tmp_path).says)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777], ids=oct)
def test_a_directory_is_made_with_exactly_its_mode(tmp_path: Path, mask: int) -> None:
    with umask(mask), Tree(tmp_path / "root").opened("a/b", create_mode=0o700):
        pass
    assert [mode_of(tmp_path / name) for name in ("root", "root/a", "root/a/b")] == [0o700] * 3


def test_no_descriptor_is_left_open(tmp_path: Path, path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    (tmp_path / "directory/link").symlink_to("file")
    for name in (
        "directory/file",
        "directory/link",
        "directory/none",
        "none/file",
        "directory",
        "directory/file/x",
    ):
        try:
            Tree(tmp_path).read(name, limit=3)
        except RyeError as error:
            assert error.code in {"too_large", "unsafe_path"}  # noqa: PT017
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
