"""Attack: two ids that differ only in case; on some file systems, whoever opens one gets the other."""

import os
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from tests.space_helpers import Ground, refused


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write("project", "tools/demo/hello.py")
    if (ground.space("project") / "tools/demo/HELLO.py").exists():
        pytest.skip("this file system does not tell cases apart")
    return ground


def settle(ground: Ground) -> None:
    """Make every directory look as if it had not changed for an hour, so that what is kept of it is used."""
    for path in [ground.space("project"), *ground.space("project").rglob("*")]:
        before = path.stat().st_mtime - 3600
        os.utime(path, (before, before))


@pytest.mark.parametrize(
    "twin",
    ["demo/Hello.py", "demo/HELLO.sh", "Demo/hello.py", "DEMO/hellO.yaml", "Demo/Hello"],
)
def test_twins_are_refused_whichever_is_asked_for(ground: Ground, twin: str) -> None:
    other = ground.write("project", f"tools/{twin}", b"#!/bin/sh\n")
    for item_id in ("demo/hello", twin.partition(".")[0]):
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


def test_a_twin_that_comes_or_goes_is_noticed_at_once(ground: Ground) -> None:
    settle(ground)
    for _ in range(3):
        ground.spaces.find("demo/hello")
        twin = ground.write("project", "tools/demo/Hello.py")
        with refused("ambiguous_item", ground):
            ground.spaces.find("demo/hello")
        twin.unlink()
    ground.spaces.find("demo/hello")


def test_an_answer_does_not_depend_on_what_was_asked_before(ground: Ground) -> None:
    """A directory that changed a moment ago may change again without its time telling."""
    ground.spaces.find("demo/hello")
    demo = ground.space("project") / "tools/demo"
    before = demo.stat()
    ground.write("project", "tools/demo/Hello.py")
    os.utime(demo, ns=(before.st_atime_ns, before.st_mtime_ns))
    with refused("ambiguous_item", ground):
        ground.spaces.find("demo/hello")
