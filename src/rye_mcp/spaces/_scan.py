"""A cheap look at a space: which files there are, and whether they are those of the last time.

Rules:

- Nothing is opened but directories, and no name is taken apart: what is seen here may be an item by its
  extension and kind. Whoever reads it finds out whether it is one.
- A stamp is what the system says about a file. A file with the same stamp holds the same bytes, unless it was
  changed within the time that its file system's clock cannot tell apart; `is_settled` says whether it could.
- No link is followed, and nothing deeper than an item can be is looked at. What cannot be looked at is not
  there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, EXTENSIONS, MAX_ID_SEGMENTS, ItemType, is_item_id
from rye_mcp.spaces._files import opened

__all__ = ["Entering", "Stamp", "is_settled", "scan_below"]

Stamp = tuple[int, int, int, int]
"""When a file was written and changed, in nanoseconds, its size, and its inode."""

Entering = Callable[[tuple[str, ...]], None]
"""Told of each directory right before it is looked at."""

_TICK_NS: Final = 20_000_000
"""How far apart two changes have to be for a clock that counts in parts of a second to tell them apart."""

_COARSE_NS: Final = 2_000_000_000
"""The same for a clock that counts whole seconds, or two."""

_SECOND_NS: Final = 1_000_000_000


def scan_below(
    root: Path, item_type: ItemType, parts: tuple[str, ...], entering: Entering = lambda _: None
) -> dict[str, Stamp]:
    """Path in the space → stamp, of every file at `parts` and below that may be an item of this type."""
    found: dict[str, Stamp] = {}
    waiting = [parts]
    extensions = EXTENSIONS[item_type]
    while waiting:
        directory = waiting.pop()
        entering(directory)
        below = _look_into(root, directory, extensions, found)
        waiting += [(*directory, name) for name in below if len(directory) < MAX_ID_SEGMENTS]
    return found


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Whether a change that comes after this moment will show in the stamp."""
    latest = max(stamp[:2])
    tick = _TICK_NS if latest % _SECOND_NS else _COARSE_NS
    return latest + tick < now_ns


def _look_into(
    root: Path, parts: tuple[str, ...], extensions: tuple[str, ...], found: dict[str, Stamp]
) -> list[str]:
    """Take note of the files of one directory; its directories are returned."""
    below: list[str] = []
    prefix = "/".join(parts) + "/"
    try:
        with opened(root, parts) as directory, os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if is_item_id(name):
                        below.append(name)
                elif _may_be_an_item(name, extensions) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found[prefix + name] = (
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                        status.st_size,
                        status.st_ino,
                    )
    except (OSError, RyeError):
        pass  # it is not there, or nobody can ask for what is in it
    return below


def _may_be_an_item(name: str, extensions: tuple[str, ...]) -> bool:
    if not name.isascii():
        return False  # no id has such a name, and no index can hold one that is no text
    _, dot, ending = name.rpartition(".")
    return (dot + ending if dot else "") in extensions and name != DEPENDENCY_MANIFEST_NAME
