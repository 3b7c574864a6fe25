"""What stands in a directory, kept for as long as the directory is left alone.

An item is found by its id, without listing anything. But two questions need a listing: whether there is a
name that differs only in case, and which of the many extensions of an id are worth a look. What is kept of
one is kept only when the directory has not changed for a while: a directory's time cannot tell two changes of
one instant apart.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rye_mcp.items import EXTENSIONS
from rye_mcp.spaces._files import open_component

__all__ = ["Entries", "Way", "descend", "entries_of"]

_SETTLED_AFTER_NS: Final = 2_000_000_000
"""How long ago a directory must have changed for its listing to be kept; some file systems count by 2 s."""

_MAX_KEPT: Final = 4096
"""How many listings are kept."""

_MAX_NAMES: Final = 1024
"""Up to how many names of a directory are kept; in a larger one, each is asked for."""

_SUFFIXES: Final = tuple(sorted({each for extensions in EXTENSIONS.values() for each in extensions if each}))

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Entries:
    """The names of a directory. `names` is None when nobody knows how long they will be right.

    `in_several_cases` are those, with and without extension, that are there in more than one case; lower.
    """

    names: frozenset[str] | None
    in_several_cases: frozenset[str]

    def may_hold(self, name: str) -> bool:
        """Whether it is worth looking for a name."""
        return self.names is None or name in self.names

    def extensions(self, name: str, known: Sequence[str]) -> Sequence[str]:
        """The extensions with which it is worth looking for a name."""
        names = self.names
        return known if names is None else [each for each in known if name + each in names]


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a directory: its descriptor, and what stands in each directory below the root."""

    directory: int
    entries: Sequence[Entries]


def descend(root: Path, parts: Sequence[str]) -> Way | None:
    """The way to the directory at `parts`, whose descriptor the caller closes; None where there is none.

    Each directory is opened in the one above it, through no link; a link there is RyeError `unsafe_path`.
    """
    if _is_known_without(root, parts):
        return None
    found: list[Entries] = []
    directory: int | None = None
    try:
        directory = open_component(str(root), None, root, ())
        for depth, part in enumerate(parts, start=1):
            if found and not found[-1].may_hold(part):
                return None
            below = open_component(part, directory, root, parts[:depth])
            os.close(directory)
            directory = below
            found.append(entries_of(directory))
        way, directory = Way(directory, found), None
        return way
    except FileNotFoundError:
        return None
    finally:
        if directory is not None:
            os.close(directory)


_kept: dict[tuple[int, int], tuple[_Stamp, Entries]] = {}


def _is_known_without(root: Path, parts: Sequence[str]) -> bool:
    """Whether the second part is not in the directory of the first one, as it was listed.

    Most ids are looked for in several spaces, and stand in one. Where the root is a link, or anything else is
    not as it was, nobody knows, and who goes there finds out.
    """
    if len(parts) < 2:
        return False
    try:
        if stat.S_ISLNK(os.lstat(root).st_mode):
            return False
        status = os.lstat(f"{root}/{parts[0]}")
    except OSError:
        return False
    kept = _kept.get((status.st_dev, status.st_ino))
    return kept is not None and kept[0] == _stamp_of(status) and not kept[1].may_hold(parts[1])


def _stamp_of(status: os.stat_result) -> _Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)


def entries_of(directory: int) -> Entries:
    """What stands in an open directory."""
    status = os.fstat(directory)
    key = (status.st_dev, status.st_ino)
    stamp = _stamp_of(status)
    kept = _kept.get(key)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    now = time.time_ns()
    listed = os.listdir(directory)
    several = _in_several_cases(listed)
    if now - max(stamp[:2]) <= _SETTLED_AFTER_NS:
        return Entries(None, several)
    entries = Entries(frozenset(listed) if len(listed) <= _MAX_NAMES else None, several)
    if len(_kept) >= _MAX_KEPT:
        _kept.clear()
    _kept[key] = (stamp, entries)
    return entries


def _in_several_cases(names: list[str]) -> frozenset[str]:
    stems = {name.rpartition(".")[0] for name in names if name.endswith(_SUFFIXES)}
    seen: set[str] = set()
    twice: set[str] = set()
    for name in stems.union(names):
        folded = name.lower()
        (twice if folded in seen else seen).add(folded)
    return frozenset(twice)
