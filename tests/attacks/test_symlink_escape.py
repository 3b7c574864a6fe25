"""Attack: a symbolic link in a space, which makes an item of what lies outside of it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, SpaceName
from tests.space_helpers import CANARY, TOOL, Ground, refused


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


def link(ground: Ground, path: str, target: Path | str, space: str = "project") -> Path:
    place = ground.space(space) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    return place


@pytest.mark.parametrize("target", ["../../../../canary.py", "ABSOLUTE", "missing.py", "real.py", "hello.py"])
def test_a_link_in_the_place_of_a_file_is_refused_wherever_it_leads(ground: Ground, target: str) -> None:
    ground.write("project", "tools/demo/real.py")
    place = link(ground, "tools/demo/hello.py", ground.canary if target == "ABSOLUTE" else target)
    with refused("unsafe_path", ground) as caught:
        ground.spaces.find("demo/hello")
    assert str(place) in caught.value.message
    assert "symbolic link" in caught.value.message


@pytest.mark.parametrize("component", ["tools", "tools/demo", "tools/demo/deep"])
def test_a_link_in_the_place_of_a_directory_is_refused(ground: Ground, component: str) -> None:
    outside = ground.root / "outside"
    below = Path("tools/demo/deep/hello.py").relative_to(component)
    (outside / below.parent).mkdir(parents=True)
    (outside / below).write_bytes(CANARY)
    link(ground, component, outside)
    with refused("unsafe_path", ground):
        ground.spaces.find("demo/deep/hello")
    space = ground.as_space(SpaceName.PROJECT)
    with refused("unsafe_path", ground):
        ground.spaces.read(ItemPlace(space, ItemType.TOOL, "demo/deep/hello", ".py"))
    listing = ground.spaces.list(SpaceName.PROJECT)
    assert listing.items == ()


def test_a_link_does_not_give_way_to_the_next_space(ground: Ground) -> None:
    link(ground, "tools/demo/hello.py", ground.canary)
    ground.write("user", "tools/demo/hello.py")
    with refused("unsafe_path", ground):
        ground.spaces.find("demo/hello")


def test_a_link_is_not_found_by_its_bare_name_and_hides_nothing(ground: Ground) -> None:
    link(ground, "tools/demo/git.py", ground.canary)
    ground.write("user", "tools/mine/git.py")
    with refused("unsafe_path", ground):
        ground.spaces.find_executor("git")


def test_a_link_without_extension_is_no_item(ground: Ground) -> None:
    ground.canary.write_bytes(b"#!/bin/sh\n" + CANARY)
    link(ground, "tools/demo/hello", ground.canary)
    with pytest.raises(RyeError) as caught:
        ground.spaces.find("demo/hello")
    assert caught.value.code == "unsafe_path"


def test_links_are_never_listed_but_reported(ground: Ground) -> None:
    ground.write("project", "tools/demo/real.py")
    for name in ("one.py", "two.md", "three"):
        link(ground, f"tools/demo/{name}", ground.canary)
    listing = ground.spaces.list(SpaceName.PROJECT)
    assert [place.item_id for place in listing.items] == ["demo/real"]
    assert {error.code for error in listing.refused} == {"unsafe_path"}
    assert [Path(str(error.where)).name for error in listing.refused] == ["one.py", "three"]


def test_a_root_that_became_a_link_is_refused(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.py")
    spaces = ground.spaces
    ground.space("project").rename(ground.root / "moved")
    ground.space("project").symlink_to(ground.root / "moved")
    with refused("unsafe_path", ground):
        spaces.find("demo/hello")


def test_a_directory_that_is_exchanged_for_a_link_meanwhile_never_leads_outside(ground: Ground) -> None:
    """Two threads race; whatever happens, the bytes are those of the space, or it is an error."""
    ground.write("project", "tools/demo/hello.py", TOOL)
    outside = ground.root / "outside"
    outside.mkdir()
    (outside / "hello.py").write_bytes(CANARY)
    demo, away = ground.space("project") / "tools/demo", ground.space("project") / "away"
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            demo.rename(away)
            demo.symlink_to(outside)
            demo.unlink()
            away.rename(demo)

    thread = threading.Thread(target=exchange)
    thread.start()
    codes: set[str] = set()
    spaces = ground.spaces
    try:
        for _ in range(1000):
            try:
                assert spaces.find("demo/hello").item.content == TOOL
            except RyeError as exc:
                codes.add(exc.code)
    finally:
        stop.set()
        thread.join()
    assert codes <= {"unsafe_path", "item_not_found"}
    assert (outside / "hello.py").read_bytes() == CANARY


def put_link(place: Path, canary: Path) -> None:
    place.symlink_to(canary)


def put_fifo(place: Path, _: Path) -> None:
    os.mkfifo(place)


def put_directory(place: Path, _: Path) -> None:
    place.mkdir()


@pytest.mark.parametrize("put", [put_link, put_fifo, put_directory])
def test_a_file_that_is_exchanged_once_it_was_looked_at_is_looked_at_again(
    ground: Ground, put: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between looking and opening cannot be hit at will: looking sees an earlier file."""
    target = ground.space("project") / "tools/demo/hello.py"
    target.parent.mkdir(parents=True)
    put(target, ground.canary)
    place = ItemPlace(ground.as_space(SpaceName.PROJECT), ItemType.TOOL, "demo/hello", ".py")
    before = ground.canary.stat()
    spaces = ground.spaces
    with monkeypatch.context() as patch, refused("unsafe_path"):
        patch.setattr(os, "stat", lambda *_, **__: before)
        spaces.read(place)
    assert ground.canary.read_bytes() == CANARY


def test_a_file_that_is_exchanged_for_a_link_meanwhile_is_never_followed(ground: Ground) -> None:
    target = ground.write("project", "tools/demo/hello.py", TOOL)
    regular, odd = ground.root / "regular", ground.root / "odd"
    regular.write_bytes(TOOL)
    place = ItemPlace(ground.as_space(SpaceName.PROJECT), ItemType.TOOL, "demo/hello", ".py")
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            odd.symlink_to(ground.canary)
            odd.replace(target)
            os.link(regular, odd)
            odd.replace(target)

    thread = threading.Thread(target=exchange)
    thread.start()
    codes: set[str] = set()
    spaces = ground.spaces
    try:
        for _ in range(3000):
            try:
                assert spaces.read(place).content == TOOL
            except RyeError as exc:
                codes.add(exc.code)
    finally:
        stop.set()
        thread.join()
    assert codes <= {"unsafe_path"}
    assert ground.canary.read_bytes() == CANARY


def test_a_hard_link_is_a_file_like_any_other(ground: Ground) -> None:
    """Package managers make them; what it holds has to be signed for this id like anything else."""
    original = ground.write("user", "tools/original.py", TOOL)
    target = ground.space("project") / "tools/demo/hello.py"
    target.parent.mkdir(parents=True)
    os.link(original, target)
    assert ground.spaces.find("demo/hello").item.content == TOOL
