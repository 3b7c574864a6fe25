"""Directories that are nobody else's: made, filled and removed without being led astray.

Rules:

- Everything is reached by its name in an open directory, without following a link. What a program did to a
  tree meanwhile (links, modes, depth, names) leads nowhere else, neither when it is filled nor when it is
  removed.
- A file is created, never opened for writing when it is there; it gets exactly its mode, whatever the umask
  is. Nothing is synced to a disk: a tree does not outlive the machine.
- What was only written is removed again by name (`remove_files`), which is quick; whatever else there may be
  is for `remove_tree`.
- Removing takes the same few descriptors for a tree of any depth, and gives up without an error: what it
  could not remove is left for the next sweep.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

__all__ = [
    "DIRECTORY_MODE",
    "TreeWriter",
    "made_directory",
    "open_private",
    "opened_private",
    "remove_files",
    "remove_tree",
    "unwrite",
]

DIRECTORY_MODE: Final = 0o700
"""The permissions of every directory in a private tree."""

_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROUNDS = 8


def open_private(name: str, above: int, *, to_pass: bool = False) -> int:
    """A descriptor of a directory, which the caller closes; no link is followed.

    One `to_pass` to what is in it may be unreadable.
    """
    return os.open(name, _LOOK if to_pass else _OPEN_DIRECTORY, dir_fd=above)


@contextmanager
def opened_private(name: str, above: int) -> Iterator[int]:
    """The same, for as long as the block lasts."""
    descriptor = open_private(name, above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class TreeWriter:
    """Fills a private directory, which the caller has opened."""

    def __init__(self, root: int) -> None:
        self._directories: dict[str, int] = {"": root}

    def write(self, relative: str, content: bytes, mode: int) -> None:
        """Create a file, and the directories above it."""
        above, _, name = relative.rpartition("/")
        descriptor = os.open(name, _CREATE, mode, dir_fd=self.directory(above))
        try:
            os.fchmod(descriptor, mode)
            _write_all(descriptor, content)
        finally:
            os.close(descriptor)

    def directory(self, relative: str) -> int:
        """The descriptor of a directory, which is made when it is not there."""
        known = self._directories.get(relative)
        if known is not None:
            return known
        above, _, name = relative.rpartition("/")
        parent = self.directory(above)
        try:
            descriptor = made_directory(name, parent)
        except FileExistsError:
            descriptor = os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
        self._directories[relative] = descriptor
        return descriptor

    def close(self) -> None:
        """Close every directory but the root."""
        for relative, descriptor in self._directories.items():
            if relative:
                os.close(descriptor)
        self._directories.clear()


def made_directory(name: str, above: int) -> int:
    """Make a private directory, whatever the umask is; its descriptor, which the caller closes."""
    os.mkdir(name, DIRECTORY_MODE, dir_fd=above)
    try:
        descriptor = os.open(name, _OPEN_DIRECTORY, dir_fd=above)
    except PermissionError:
        _give_access(name, above)
        return os.open(name, _OPEN_DIRECTORY, dir_fd=above)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) & DIRECTORY_MODE != DIRECTORY_MODE:
        os.fchmod(descriptor, DIRECTORY_MODE)
    return descriptor


def _write_all(descriptor: int, content: bytes) -> None:
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, memoryview(content)[written:])


def remove_files(name: str, above: int, files: Iterable[str]) -> bool:
    """Remove a directory in which there are these files and no others; whether that went well."""
    opened: dict[str, int] = {}
    try:
        opened[""] = os.open(name, _OPEN_DIRECTORY, dir_fd=above)
        for relative in files:
            directory, _, last = relative.rpartition("/")
            os.unlink(last, dir_fd=_opened_below(directory, opened))
        for relative in reversed(opened):
            if relative:
                directory, _, last = relative.rpartition("/")
                os.rmdir(last, dir_fd=opened[directory])
        os.rmdir(name, dir_fd=above)
    except OSError:
        return False
    finally:
        for descriptor in opened.values():
            os.close(descriptor)
    return True


def _opened_below(relative: str, opened: dict[str, int]) -> int:
    """The descriptor of a directory, and of those on the way to it, each of them before what is in it."""
    known = opened.get(relative)
    if known is None:
        directory, _, last = relative.rpartition("/")
        known = os.open(last, _OPEN_DIRECTORY, dir_fd=_opened_below(directory, opened))
        opened[relative] = known
    return known


def unwrite(root: int, files: Iterable[str]) -> None:
    """Remove what there is of some files in an open directory: a part of one would be worse than none."""
    opened = {"": root}
    try:
        for relative in files:
            directory, _, last = relative.rpartition("/")
            with suppress(FileNotFoundError):
                os.unlink(last, dir_fd=_opened_below(directory, opened))
    finally:
        for relative, descriptor in opened.items():
            if relative:
                os.close(descriptor)


def remove_tree(name: str, above: int) -> None:
    """Remove a directory with everything in it.

    Directories further down are moved up, one level at a time, so that none is ever deeper than two.
    """
    with suppress(OSError), _opened_for_removal(name, above) as top:
        names = count()
        for _ in range(_ROUNDS):
            if not _empty(top, names):
                break
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)


def _empty(top: int, names: Iterator[int]) -> bool:
    """Remove what is in a directory; whether there was anything."""
    waiting = list(_entries(top))
    found = bool(waiting)
    while waiting:
        name, is_directory = waiting.pop()
        if not is_directory:
            _unlink(name, top)
            continue
        with suppress(OSError), _opened_for_removal(name, top) as directory:
            for below, below_is_directory in list(_entries(directory)):
                if not below_is_directory:
                    _unlink(below, directory)
                elif moved := _moved_up(below, directory, top, names):
                    waiting.append((moved, True))
        with suppress(OSError):
            os.rmdir(name, dir_fd=top)
    return found


def _entries(directory: int) -> Sequence[tuple[str, bool]]:
    with suppress(OSError), os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    return ()


def _unlink(name: str, directory: int) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)


def _moved_up(name: str, directory: int, top: int, names: Iterator[int]) -> str | None:
    with suppress(OSError):
        _give_access(name, directory)  # without it, a directory cannot be told that it has another parent
        moved = f".{next(names):x}"  # where that is taken, the next round finds it free
        os.rename(name, moved, src_dir_fd=directory, dst_dir_fd=top)
        return moved
    return None


@contextmanager
def _opened_for_removal(name: str, above: int) -> Iterator[int]:
    _give_access(name, above)
    with opened_private(name, above) as descriptor:
        yield descriptor


def _give_access(name: str, above: int) -> None:
    """Make a directory one that its owner may list and change. No link is followed: this is the very one."""
    descriptor = os.open(name, _LOOK, dir_fd=above)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & DIRECTORY_MODE != DIRECTORY_MODE:
            Path(f"/proc/self/fd/{descriptor}").chmod(DIRECTORY_MODE)
    finally:
        os.close(descriptor)
