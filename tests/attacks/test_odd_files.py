"""Attack: something other than a small regular file where an item is expected: it hangs, floods, or acts."""

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rye_mcp.items import MAX_ITEM_BYTES, SpaceName
from tests.space_helpers import Ground, refused

ROOT = os.geteuid() == 0


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """The alarm ends whatever waits for the other end of a FIFO."""
    signal.alarm(10)
    yield Ground.in_directory(tmp_path)
    signal.alarm(0)


@pytest.fixture
def place(ground: Ground) -> Path:
    place = ground.space("project") / "tools/demo/hello.py"
    place.parent.mkdir(parents=True)
    return place


def assert_refused_everywhere(ground: Ground, code: str, found: str) -> None:
    with refused(code, ground) as caught:
        ground.spaces.find("demo/hello")
    assert found in caught.value.message
    with refused(code, ground):
        ground.spaces.find_executor("hello")
    listing = ground.spaces.list(SpaceName.PROJECT)
    assert listing.items == ()
    assert [error.code for error in listing.refused] == [code]


def test_a_fifo_is_refused_without_waiting_for_its_writer(ground: Ground, place: Path) -> None:
    os.mkfifo(place)
    assert_refused_everywhere(ground, "unsafe_path", "a FIFO")


def test_a_writer_that_waits_at_a_fifo_is_not_released(ground: Ground, place: Path) -> None:
    """Opening it would be an act already: its writer would go on. This one was a file when it was listed."""
    place.touch()
    (listed,) = ground.spaces.list(SpaceName.PROJECT).items
    place.unlink()
    os.mkfifo(place)
    begun, opened = threading.Event(), threading.Event()

    def wait_for_a_reader() -> None:
        begun.set()
        os.close(os.open(place, os.O_WRONLY))
        opened.set()

    writer = threading.Thread(target=wait_for_a_reader)
    writer.start()
    begun.wait()
    for _ in range(50):
        with refused("unsafe_path", ground):
            ground.spaces.read(listed)
    assert not opened.wait(0.05)
    os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK))
    writer.join()


def test_a_file_without_extension_that_is_no_item_any_more_is_not_read(ground: Ground, place: Path) -> None:
    place.with_suffix("").write_bytes(b"#!/bin/sh\n")
    (listed,) = ground.spaces.list(SpaceName.PROJECT).items
    place.with_suffix("").write_bytes(b"a secret\n")
    with refused("item_not_found", ground):
        ground.spaces.read(listed)


def test_a_fifo_without_extension_is_refused_too(ground: Ground, place: Path) -> None:
    os.mkfifo(place.with_suffix(""))
    with refused("unsafe_path", ground):
        ground.spaces.find("demo/hello")


def test_a_fifo_in_the_place_of_a_directory_holds_nothing(ground: Ground, place: Path) -> None:
    place.parent.rmdir()
    os.mkfifo(place.parent)
    with refused("item_not_found", ground):
        ground.spaces.find("demo/hello")


def test_a_socket_is_refused(ground: Ground, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.name)
        assert_refused_everywhere(ground, "unsafe_path", "a socket")


@pytest.mark.skipif(not ROOT, reason="only root can make a device")
def test_a_device_is_refused(ground: Ground, place: Path) -> None:
    try:
        os.mknod(place, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices can be made here")
    assert_refused_everywhere(ground, "unsafe_path", "a device")


def test_a_directory_that_is_called_like_a_file_is_refused(ground: Ground, place: Path) -> None:
    place.mkdir()
    with refused("unsafe_path", ground) as caught:
        ground.spaces.find("demo/hello")
    assert "a directory" in caught.value.message
    assert ground.spaces.list(SpaceName.PROJECT).items == ()


@pytest.mark.parametrize("size", [0, 1, MAX_ITEM_BYTES - 1, MAX_ITEM_BYTES])
def test_a_file_up_to_the_limit_is_read_whole(ground: Ground, place: Path, size: int) -> None:
    place.write_bytes(b"x" * size)
    assert len(ground.spaces.find("demo/hello").item.content) == size


@pytest.mark.parametrize("size", [MAX_ITEM_BYTES + 1, 1 << 40])
def test_a_huge_file_is_refused_without_being_read(ground: Ground, place: Path, size: int) -> None:
    place.touch()
    try:
        os.truncate(place, size)
    except OSError:
        pytest.skip("no file can be that long here")
    with refused("too_large", ground):
        ground.spaces.find("demo/hello")


def test_a_huge_file_without_extension_is_only_looked_at(ground: Ground, place: Path) -> None:
    big = place.with_suffix("")
    big.write_bytes(b"#!/bin/sh\n")
    os.truncate(big, 1 << 40)
    assert [item.item_id for item in ground.spaces.list(SpaceName.PROJECT).items] == ["demo/hello"]
    with refused("too_large", ground):
        ground.spaces.find("demo/hello")


@pytest.mark.parametrize("closed", ["tools", "tools/demo", "tools/demo/hello.py", "tools/demo/hello"])
def test_what_may_not_be_read_is_an_error_that_says_so(closed: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        ground = Ground.in_directory(Path(directory))
        ground.write("project", "tools/demo/hello.py" if closed != "tools/demo/hello" else closed)
        target = ground.space("project") / closed
        target.chmod(0)
        with nobody(), refused("read_failed") as caught:
            ground.spaces.find("demo/hello")
        assert str(target) in caught.value.message
        assert "chmod" in caught.value.hint
        with nobody():
            listing = ground.spaces.list(SpaceName.PROJECT)
        if target.suffix == "":
            assert [error.code for error in listing.refused] == ["read_failed"]
        target.chmod(0o700)


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user who may not read everything, for as long as the block lasts."""
    if not ROOT:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_is_in_the_way_in_one_space_does_not_matter_to_another_type(ground: Ground, place: Path) -> None:
    os.mkfifo(place)
    other = place.with_name("other.py")
    other.touch()
    assert ground.spaces.find("demo/other").item.path == other


def test_a_regular_file_is_an_item_whatever_stands_beside_it(ground: Ground, place: Path) -> None:
    place.touch()
    os.mkfifo(place.with_suffix(".sh"))
    place.with_suffix("").symlink_to(ground.canary)
    assert ground.spaces.find("demo/hello").item.path == place
