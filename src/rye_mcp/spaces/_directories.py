"""Opens the directories of a space, and knows what is in them without looking each time.

Nothing is reached through a link. What is missing, or a file in the place of a directory, is a
FileNotFoundError; everything else that the system refuses is a RyeError. A listing is kept until its
directory changes.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lilux import _trees
from lilux._dataclasses import dataclass
from lilux._footprints import note
from lilux._stamps import SETTLED_NS
from rye_mcp.files import refusal
from rye_mcp.items import EXTENSIONS, MAX_ITEM_BYTES, SHEBANG

__all__ = [
    "Stamp",
    "Way",
    "begins_with_shebang",
    "descend",
    "is_settled",
    "open_directory",
    "opened",
    "read_file",
    "read_with_status",
]


@contextmanager
def opened(root: Path, parts: Sequence[str] = ()) -> Iterator[int]:
    """A descriptor of the directory at `parts` below `root`, for as long as the block lasts."""
    with _trees.opened(open_directory(root, parts)) as descriptor:
        yield descriptor


def open_directory(root: Path, parts: Sequence[str]) -> int:
    """A descriptor of the directory at `parts` below `root`, which the caller closes."""
    current = _open_component(str(root), None, root, ())
    for depth, part in enumerate(parts, start=1):
        with _trees.opened(current) as above:
            current = _open_component(part, above, root, parts[:depth])
    return current


def _open_component(name: str, above: int | None, root: Path, parts: Sequence[str]) -> int:
    """A descriptor of a directory in an open one; `root` and `parts` are what errors call it."""
    try:
        return _trees.open_directory(name, above, root, parts)
    except NotADirectoryError as exc:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), exc.filename) from None
    except FileNotFoundError:
        raise
    except (OSError, _trees.UnsafeError) as exc:
        raise refusal(exc, root.joinpath(*parts)) from exc


def read_file(directory: int, name: str, path: Path, limit: int = MAX_ITEM_BYTES) -> bytes:
    """The whole content of a regular file in an open directory; `path` is what errors call it."""
    return read_with_status(directory, name, path, limit)[0]


def read_with_status(directory: int, name: str, path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """The same, with what the system said about the file when it was opened."""
    try:
        return _trees.read_file(name, directory, path, limit)
    except FileNotFoundError:
        raise
    except (OSError, _trees.UnsafeError) as exc:
        raise refusal(exc, path) from exc


def begins_with_shebang(directory: int, name: str, path: Path) -> bool:
    """Whether a regular file begins with `#!`: only then is it an item without an extension."""
    note(lambda: path)
    try:
        with _trees.opened(os.open(name, _trees.FILE, dir_fd=directory)) as descriptor:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return regular and os.read(descriptor, len(SHEBANG)) == SHEBANG
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise refusal(exc, path) from exc


Stamp = tuple[int, int, int, int]
"""When a file was written and changed, in nanoseconds, its size, and its inode."""

_TICK_NS: Final = 20_000_000
"""How far apart two changes have to be for a clock that counts in parts of a second to tell them apart."""

_COARSE_NS: Final = 2_000_000_000
"""The same for a clock that counts whole seconds, or two."""

_SECOND_NS: Final = 1_000_000_000


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Whether a change that comes after this moment will show in the stamp."""
    latest = max(stamp[:2])
    tick = _TICK_NS if latest % _SECOND_NS else _COARSE_NS
    return latest + tick < now_ns


_MAX_KEPT: Final = 4096
"""How many listings are kept."""

_MAX_NAMES: Final = 1024
"""Up to how many names of a directory are kept; in a larger one, each is asked for."""

_SUFFIXES: Final = tuple(sorted({each for extensions in EXTENSIONS.values() for each in extensions if each}))

_DirectoryStamp = tuple[int, int, int]


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
    """The way to the directory at `parts`, whose descriptor the caller closes; None if it is missing.

    Each directory is opened in the one above it, through no link; a link there is RyeError `unsafe_path`.
    """
    if _is_known_without(root, parts):
        return None
    found: list[Entries] = []
    directory: int | None = None
    try:
        directory = _trees.open_directory(str(root), None, root)
        for depth, part in enumerate(parts, start=1):
            if found and not found[-1].may_hold(part):
                return None
            below = _trees.open_directory(part, directory, root, parts[:depth])
            os.close(directory)
            directory = below
            found.append(entries_of(directory))
        way, directory = Way(directory, found), None
        return way
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, _trees.UnsafeError) as exc:
        raise refusal(exc, root) from exc
    finally:
        if directory is not None:
            os.close(directory)


_kept: dict[tuple[int, int], tuple[_DirectoryStamp, Entries]] = {}


def _is_known_without(root: Path, parts: Sequence[str]) -> bool:
    """Whether the second part is not in the directory of the first one, as it was listed.

    Most ids are looked for in several spaces, and stand in one. Where the root is a link, or anything else is
    not as it was, nobody knows, and who goes there finds out.
    """
    if len(parts) < 2:
        return False
    note(lambda: root)
    note(lambda: root / parts[0])
    try:
        if stat.S_ISLNK(os.lstat(root).st_mode):
            return False
        status = os.lstat(f"{root}/{parts[0]}")
    except OSError:
        return False
    kept = _kept.get((status.st_dev, status.st_ino))
    return kept is not None and kept[0] == _stamp_of(status) and not kept[1].may_hold(parts[1])


def _stamp_of(status: os.stat_result) -> _DirectoryStamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)


def entries_of(directory: int) -> Entries:
    """Return the entries of an open directory."""
    status = os.fstat(directory)
    key = (status.st_dev, status.st_ino)
    stamp = _stamp_of(status)
    kept = _kept.get(key)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    now = time.time_ns()
    listed = os.listdir(directory)
    several = _in_several_cases(listed)
    if now - max(stamp[:2]) <= SETTLED_NS:
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
