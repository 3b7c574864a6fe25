"""Attack: an item id that is a path, an option, a pattern or anything else that leads somewhere."""

from pathlib import Path
from typing import Any

import pytest

from rye_mcp.items import ItemPlace, ItemType, SpaceName
from tests.space_helpers import Ground, refused

HOSTILE: list[Any] = [
    "",
    "/",
    "../../canary",
    "demo/../../../canary",
    "demo/..",
    "./canary",
    "demo//hello",
    "demo/hello/",
    "demo/hello\n",
    "demo/hello\x00.py",
    "demo\\hello",
    "~/canary",
    "$HOME/canary",
    "file:///etc/passwd",
    "C:\\canary",
    "-rf",
    "--help",
    "demo/*",
    "demo/[a-z]",
    "demo/hello;id",
    "demo/$(id)",
    "demo/hello ",
    "demo/héllo",
    "demo/hello\u202e",
    "demo/hel\u200blo",
    "\uff44emo/hello",
    "\u2024\u2024/canary",
    "demo/__pycache__/hello",
    ".git/hooks/update",
    "demo/.hidden",
    "/".join("a" * 9),
    "a" * 65,
    "a/" * 100_000,
    "\ud800",
    None,
    0,
    True,
    b"demo/hello",
    ["demo", "hello"],
    {"id": "demo/hello"},
    Path("demo/hello"),
]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write("project", "tools/demo/hello.py")
    return ground


@pytest.mark.parametrize("item_id", HOSTILE, ids=lambda value: ascii(value)[:30])
def test_a_hostile_id_is_refused_by_every_door(ground: Ground, item_id: Any) -> None:
    spaces = ground.spaces
    with refused("invalid_id", ground):
        spaces.find(item_id)
    with refused("invalid_id", ground):
        spaces.find(item_id, ItemType.DIRECTIVE, only=SpaceName.PROJECT)
    with refused("invalid_id", ground):
        spaces.find_executor(item_id)
    with refused("invalid_id", ground) as caught:
        spaces.read(ItemPlace(ground.as_space(SpaceName.PROJECT), ItemType.TOOL, item_id, ".py"))
    assert len(str(caught.value.as_dict())) < 1000


@pytest.mark.parametrize("extension", [".py/../../../../canary.py", "/../../canary.py", ".txt", ".PY", "."])
def test_a_hostile_extension_is_refused(ground: Ground, extension: str) -> None:
    with refused("invalid_id", ground):
        ground.spaces.read(
            ItemPlace(ground.as_space(SpaceName.PROJECT), ItemType.TOOL, "demo/hello", extension)
        )
