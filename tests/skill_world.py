"""What tests of skills share: writing a skill into a space, reading it, signing it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import Role
from rye_mcp.trust.sign import sign_item
from tests.trust_world import World

__all__ = ["FILES", "TEXT", "directory_of", "read", "write", "written"]

TEXT = """\
---
name: brew-tea
description: Brews tea. Use it when somebody is thirsty.
---
Boil water. See references/leaves.md.
"""

FILES: Mapping[str, str] = {
    "SKILL.md": TEXT,
    "references/leaves.md": "Green, black, white.\n",
    "scripts/kettle.sh": "echo hot\n",
}


def directory_of(world: World, name: str = "brew-tea", space: SpaceName = SpaceName.PROJECT) -> Path:
    """Where a skill is, or would be."""
    return world.space(space).root / "skills" / name


def write(directory: Path, files: Mapping[str, str | bytes] = FILES) -> Path:
    """Write the files of a skill, wherever that is."""
    for path, content in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def read(world: World, name: str = "brew-tea", space: SpaceName = SpaceName.PROJECT) -> ItemFile:
    """A skill, as it is found."""
    spaces = Spaces(world.space(), world.space(SpaceName.USER), world.space(SpaceName.SYSTEM))
    return spaces.find(name, ItemType.SKILL, only=space).item


def written(
    world: World,
    files: Mapping[str, str | bytes] = FILES,
    name: str = "brew-tea",
    space: SpaceName = SpaceName.PROJECT,
    *,
    signed: bool = True,
) -> ItemFile:
    """A skill that stands in a space, signed by this user or not, as it is found from then on."""
    write(directory_of(world, name, space), files)
    if signed:
        sign_item(read(world, name, space), world.key(), world.trust(), role=Role.SKILL)
    return read(world, name, space)
