"""Attack: a file of the project, called like an executor of the system for tools of others to rest on."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from tests.space_helpers import Ground, refused

PRIMITIVE = "rye/core/primitives/subprocess"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write("system", f"tools/{PRIMITIVE}.py", b"the real one")
    return ground


@pytest.mark.parametrize("space", ["project", "user"])
@pytest.mark.parametrize("path", ["zzz/subprocess.py", "subprocess.py", "subprocess.yaml", "a/subprocess.sh"])
@pytest.mark.parametrize("seen_from", [None, *SpaceName])
def test_a_bare_name_of_the_system_means_the_file_of_the_system(
    ground: Ground, space: str, path: str, seen_from: SpaceName | None
) -> None:
    canary = ground.write(space, f"tools/{path}", b"evil")
    found = ground.spaces.find_executor("subprocess", seen_from=seen_from)
    assert (found.item.item_id, found.item.content) == (PRIMITIVE, b"the real one")
    assert canary.read_bytes() == b"evil"


def test_several_of_that_name_in_the_system_are_ambiguous_and_no_way_to_the_project(ground: Ground) -> None:
    ground.write("system", "tools/rye/other/subprocess.py")
    ground.write("project", "tools/zzz/subprocess.py", b"evil")
    with refused("ambiguous_item", ground):
        ground.canary.write_bytes(ground.spaces.find_executor("subprocess").item.content)


def test_a_link_of_that_name_in_the_system_is_no_way_to_the_project(ground: Ground) -> None:
    real = ground.space("system") / f"tools/{PRIMITIVE}.py"
    real.unlink()
    real.symlink_to(ground.canary)
    ground.write("project", "tools/zzz/subprocess.py", b"evil")
    with refused("unsafe_path", ground):
        ground.canary.write_bytes(ground.spaces.find_executor("subprocess").item.content)


def test_a_whole_id_is_looked_for_by_precedence(ground: Ground) -> None:
    ground.write("user", f"tools/{PRIMITIVE}.py", b"of the user")
    assert ground.spaces.find_executor(PRIMITIVE).item.content == b"of the user"
    assert ground.spaces.find_executor(PRIMITIVE, seen_from=SpaceName.SYSTEM).item.content == b"the real one"
