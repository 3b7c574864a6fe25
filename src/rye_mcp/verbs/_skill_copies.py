"""Where clients look for skills, and whether what they have there is the skill that was signed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import NO_FILES, SKILL_TEXT, ItemFile, printable
from rye_mcp.spaces import each_file, scan_files, skill_of

__all__ = ["CLIENTS", "changed_copies", "difference"]

CLIENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agents": ".agents/skills",
        "claude": ".claude/skills",
        "codex": ".codex/skills",
        "cursor": ".cursor/skills",
        "github": ".github/skills",
    }
)
"""Where clients look for skills, below a project or below the home of a user."""


def changed_copies(file: ItemFile) -> tuple[RyeError, ...]:
    """What clients have under the name of a verified skill, and is not that skill; the first other file."""
    base = file.space.root.parent
    there = ((each, difference(file, base, each)) for each in CLIENTS.values())
    return tuple(
        _changed(file, base / each, found)
        for each, found in there
        if found is not None and os.path.lexists(base / each / file.item_id)
    )


def difference(file: ItemFile, base: Path, directory: str) -> str | None:
    """The first file of a copy that is not as the skill has it, or what is wrong with all of it."""
    below = f"{directory}/{file.item_id}"
    try:
        stamps = scan_files(base, below)
        if stamps is None:
            return SKILL_TEXT
        copied, own = skill_of(each_file(base, below, stamps)).files, (file.skill or NO_FILES).files
    except RyeError as exc:
        return exc.message
    return next(
        (path for path in sorted(copied.keys() | own.keys()) if copied.get(path) != own.get(path)), None
    )


def _changed(file: ItemFile, directory: Path, found: str) -> RyeError:
    client = next(name for name, each in CLIENTS.items() if directory.as_posix().endswith(each))
    shown = printable(directory / file.item_id)
    what = f"expected {shown} to be the signed skill {file.item_id}, found another in {found}"
    hint = f"look at what changed, then: rye skill link {file.item_id} --to {client} --overwrite"
    return RyeError("content_changed", what, where=shown, item_id=file.item_id, hint=hint)
