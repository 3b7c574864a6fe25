"""Items that are read in a row share the way to their directory, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.items import ItemPlace, ItemType, Space, SpaceName
from rye_mcp.spaces import Reader
from tests.trust_world import refused


@pytest.fixture
def space(tmp_path: Path) -> Space:
    for name in ("a/one.py", "a/two.py", "b/one.py"):
        path = tmp_path / "tools" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="ascii")
    return Space(SpaceName.PROJECT, tmp_path)


def place(space: Space, item_id: str) -> ItemPlace:
    return ItemPlace(space, ItemType.TOOL, item_id, ".py")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_each_is_the_file_of_its_own_directory_and_nothing_stays_open(space: Space) -> None:
    before = descriptors()
    with Reader() as reader:
        for item_id in ("a/one", "a/two", "b/one", "a/one"):
            assert reader.read(place(space, item_id)).content.decode() == f"{item_id}.py"
            assert descriptors() == before + 1
    assert descriptors() == before


def test_what_is_gone_or_led_elsewhere_is_refused_and_the_next_one_is_read(space: Space) -> None:
    (space.root / "tools/c").symlink_to(space.root / "tools/a")
    (space.root / "tools/a/two.py").unlink()
    with Reader() as reader:
        refused("item_not_found", lambda: reader.read(place(space, "a/two")))
        refused("item_not_found", lambda: reader.read(place(space, "nowhere/one")))
        refused("unsafe_path", lambda: reader.read(place(space, "c/one")))
        assert reader.read(place(space, "b/one")).content == b"b/one.py"
