"""Opening directories and files of a space without following a link, and reading them within a limit.

Rules:

- The root of a space is opened as it was resolved; below it, every component is opened by its name in the
  directory above it, and none may be a symbolic link (`unsafe_path`). So nothing outside a space is reached,
  whatever is exchanged meanwhile.
- Only regular files are read. A FIFO, a device, a socket or a directory is `unsafe_path`, found out without
  waiting for it, and without opening what it stands for.
- At most one byte more than the limit is read of a file; then it is `too_large`.
- What is not there is FileNotFoundError, which the caller knows how to say. Everything else that the system
  refuses is a RyeError that names the path.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ITEM_BYTES, printable

__all__ = [
    "kind_of",
    "open_component",
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
