"""Attack: two ids that differ only in case; on some file systems, whoever opens one gets the other."""

import time
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from tests.file_helpers import count_time_in
from tests.space_helpers import Ground, refused

TICK_NS = 1_000_000_000


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write("project", "tools/demo/hello.py")
    if (ground.space("project") / "tools/demo/HELLO.py").exists():
        pytest.skip("this file system does not tell cases apart")
    return ground


@pytest.mark.parametrize(
    "path",
    ["demo/Hello.py", "demo/HELLO.sh", "Demo/hello.py", "DEMO/hellO.yaml", "Demo/Hello"],
)
def test_ids_that_differ_only_in_case_are_refused(ground: Ground, path: str) -> None:
    other = ground.write("project", f"tools/{path}", b"#!/bin/sh\n")
    for item_id in ("demo/hello", path.partition(".")[0]):
        with refused("ambiguous_item", ground) as caught:
            ground.spaces.find(item_id)
        assert str(other) in caught.value.message
        assert "demo/hello.py" in caught.value.message
    with refused("ambiguous_item", ground):
        ground.spaces.find_executor("hello")
    listing = ground.spaces.list(SpaceName.PROJECT)
    assert listing.items == ()
    assert [error.code for error in listing.refused] == ["ambiguous_item"]


@pytest.mark.parametrize(
    "path",
    ["demo/Hello.txt", "demo/Hello/inside.py", "Demo/other.py", "demo/HELLO", "demo/hello2.py", "Hello.py"],
)
def test_what_is_no_second_item_is_in_nobodys_way(ground: Ground, path: str) -> None:
    ground.write("project", f"tools/{path}", b"no shebang\n")
    assert ground.spaces.find("demo/hello").item.item_id == "demo/hello"


def test_twins_in_different_spaces_are_two_items(ground: Ground) -> None:
    ground.write("user", "tools/demo/Hello.py")
    assert ground.spaces.find("demo/hello").item.space.name is SpaceName.PROJECT
    assert ground.spaces.find("demo/Hello").item.space.name is SpaceName.USER


def test_a_twin_that_comes_or_goes_is_noticed_though_directories_are_kept_in_mind(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 1_980_000_000)  # 2 s without a change count
    spaces = ground.spaces
    for _ in range(3):
        time.sleep(0.03)  # until the directory counts as left alone
        spaces.find("demo/hello")
        assert spaces.find("demo/hello").item.item_id == "demo/hello"
        other = ground.write("project", "tools/demo/Hello.py")
        with refused("ambiguous_item", ground):
            spaces.find("demo/hello")
        time.sleep(0.03)
        with refused("ambiguous_item", ground):
            spaces.find("demo/hello")
        other.unlink()
        spaces.find("demo/hello")


def test_what_changed_just_now_is_not_kept_in_mind(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a directory counts in milliseconds on many systems: two changes may look like one."""
    count_time_in(TICK_NS, monkeypatch)
    while time.time_ns() % TICK_NS > TICK_NS / 2:
        time.sleep(0.01)
    for number in range(50):
        ground.write("project", f"tools/d{number}/hello.py")
        ground.spaces.find(f"d{number}/hello")
        ground.write("project", f"tools/d{number}/Hello.py")
        with refused("ambiguous_item"):
            ground.spaces.find(f"d{number}/hello")
