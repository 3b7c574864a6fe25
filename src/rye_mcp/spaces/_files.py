"""Opens directories and files of a space without following a link, and reads them within a limit.

A missing file is FileNotFoundError; everything else that the system refuses is a RyeError with the path.
Listings of directories are kept for as long as the directories do not change.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import EXTENSIONS, MAX_ITEM_BYTES, SHEBANG, printable

__all__ = [
    "Way",
    "begins_with_shebang",
    "descend",
    "kind_of",
    "open_directory",
    "opened",
    "read_file",
    "read_with_status",
    "refusal",
    "unsafe_path",
]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS: Final = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened(root: Path, parts: Sequence[str] = ()) -> Iterator[int]:
    """A descriptor of the directory at `parts` below `root`, for as long as the block lasts."""
    descriptor = open_directory(root, parts)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(root: Path, parts: Sequence[str]) -> int:
    """A descriptor of the directory at `parts` below `root`, which the caller closes."""
    current = open_component(str(root), None, root, ())
    for depth, part in enumerate(parts, start=1):
        above = current
        try:
            current = open_component(part, above, root, parts[:depth])
        finally:
            os.close(above)
    return current


def open_component(name: str, above: int | None, root: Path, parts: Sequence[str]) -> int:
    """A descriptor of a directory in an open one; `root` and `parts` are what errors call it."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except FileNotFoundError:
        raise
    except NotADirectoryError:
        # A link is answered like a file here; only a link is somebody's attempt to lead elsewhere.
        path = root.joinpath(*parts)
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise unsafe_path("a directory", "a symbolic link", path) from None
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    except OSError as exc:
        raise refusal(exc, root.joinpath(*parts)) from exc


def read_file(directory: int, name: str, path: Path, limit: int = MAX_ITEM_BYTES) -> bytes:
    """The whole content of a regular file in an open directory; `path` is what errors call it."""
    return read_with_status(directory, name, path, limit)[0]


def read_with_status(directory: int, name: str, path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """The same, with what the system said about the file when it was opened."""
    try:
        _require_regular(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode, path)
        descriptor = os.open(name, _FILE, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            _require_regular(status.st_mode, path)
            return _read_all(descriptor, status.st_size, path, limit), status
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise refusal(exc, path) from exc


def begins_with_shebang(directory: int, name: str, path: Path) -> bool:
    """Whether a regular file begins with `#!`: only then is it an item without an extension."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return regular and os.read(descriptor, len(SHEBANG)) == SHEBANG
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise refusal(exc, path) from exc


def _require_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        raise unsafe_path("a regular file", kind_of(mode), path)


def _read_all(descriptor: int, size: int, path: Path, limit: int) -> bytes:
    """Everything, in one read as a rule.

    Each read asks for more than there should be: one that gets exactly all of it has met the end.
    """
    chunks: list[bytes] = []
    wanted = min(size, limit) + 1
    room = limit + 1
    while room and (chunk := os.read(descriptor, min(wanted, room))):
        chunks.append(chunk)
        room -= len(chunk)
        wanted = room
        if limit + 1 - room == size:
            break
    if not room:
        raise RyeError(
            "too_large",
            f"expected at most {limit} bytes, found more: {printable(path)}",
            where=printable(path),
        )
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def kind_of(mode: int) -> str:
    """What a file is, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "a file of an unknown kind")


def unsafe_path(expected: str, found: str, path: Path) -> RyeError:
    """The error for what is not the kind of file that it has to be."""
    shown = printable(path)
    return RyeError("unsafe_path", f"expected {expected}, found {found}: {shown}", where=shown)


def refusal(exc: OSError, path: Path) -> RyeError:
    """What the system refused, as an error that says what to do about it."""
    shown = printable(path)
    if isinstance(exc, PermissionError):
        fix = f"chmod u+rX {shlex.quote(shown)}"
        what = f"expected something that you may read, found that you may not: {shown}"
        return RyeError("read_failed", what, where=shown, hint=fix)
    if exc.errno == errno.ELOOP:
        return unsafe_path("a regular file", "a symbolic link", path)
    reason = exc.strerror or type(exc).__name__
    return RyeError(
        "unsafe_path", f"expected something that can be read, found {reason!r}: {shown}", where=shown
    )


_SETTLED_AFTER_NS: Final = 2_000_000_000
"""How long ago a directory must have changed for its listing to be kept; some file systems count by 2 s."""

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


_kept: dict[tuple[int, int], tuple[_DirectoryStamp, Entries]] = {}


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


def _stamp_of(status: os.stat_result) -> _DirectoryStamp:
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
