"""Files that trust rests on, read without being led astray, and kept as long as they do not change.

Rules:

- A file is named by a directory and a path below it. Neither that directory, which is named as it was
  resolved, nor anything below it may be a symbolic link, and the file is a regular one: `unsafe_path`. It is
  read once, and never more than `limit` bytes: `too_large`.
- With `forbidden`, the directory, what is below it and the file belong to this user or to root, and nobody
  else has any of those permissions, or can write above the directory and exchange it: `unsafe_permissions`.
- A file that is missing is None, as an empty one is not.
- `KeptFile` reads again when anything about the file has changed, or when a directory on the way is
  another one, or somebody else's. What changed so recently that the clock of the file system could not tell
  one change from the next is read again each time. As long as the bytes are the same, the value is the same
  object.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

from lilux import _files as whole_files
from rye_mcp.errors import RyeError, printable
from rye_mcp.other_users import why_others_exchange

__all__ = [
    "OTHERS_WRITE",
    "SETTLED_NS",
    "KeptFile",
    "make_user_space",
    "opened_directory",
    "read_below",
    "require_not_exchanged",
    "translated",
    "write_below",
]

OTHERS_WRITE = 0o022
"""The permissions that let others change who is trusted."""

SETTLED_NS = 2_000_000_000
"""How old a change has to be for its time to tell it from a later one: file systems count in 4 ms, in whole
seconds or, at worst, in two of them.
"""

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_FILE_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_LINK_ERRORS = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}
_PERMISSION_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS}
_READ_CHUNK_BYTES = 1 << 20
_OF_A_DIRECTORY = 4
_USER_SPACE_MODE = 0o700

Value = TypeVar("Value")
_Stamp = tuple[tuple[int, ...] | None, ...]


def read_below(
    root: Path, relative: str, *, limit: int, forbidden: int = 0, root_forbidden: int | None = None
) -> bytes | None:
    """The bytes of a file, or None when there is none."""
    directory, _, name = relative.rpartition("/")
    descriptor: int | None = None
    if forbidden:
        require_not_exchanged(root)
    try:
        parent = _open_below(root, directory, forbidden, root_forbidden)
        try:
            descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent)
        finally:
            os.close(parent)
        _require_regular(descriptor, root, relative)
        _require_permissions(descriptor, root, relative, forbidden)
        return _read(descriptor, limit, root, relative)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _refusal("read_failed", root / relative, exc) from exc
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def opened_directory(
    root: Path,
    relative: str = "",
    *,
    forbidden: int = 0,
    root_forbidden: int | None = None,
    create_mode: int | None = None,
    create_root: bool = True,
) -> Iterator[int]:
    """A directory below `root`, which was reached through no symbolic link; FileNotFoundError for none.

    With `create_mode` it is made, and those on the way to it, with exactly that mode; the root too, unless
    `create_root` is off. `root_forbidden` is for a root that is not as private as what is below it.
    """
    if forbidden:
        require_not_exchanged(root)
    if create_mode is not None and create_root:
        whole_files.make_directory(root, mode=create_mode)
    descriptor = _open_below(root, relative, forbidden, root_forbidden, create_mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(
    root: Path, relative: str, forbidden: int, root_forbidden: int | None, create_mode: int | None = None
) -> int:
    """The descriptor of that directory, which the caller closes. Paths are made only for errors."""
    reached = ""
    try:
        descriptor = os.open(root, _DIRECTORY_FLAGS | os.O_NOFOLLOW)
    except OSError as exc:
        raise _refusal("read_failed", root, exc) from exc
    try:
        _require_permissions(
            descriptor, root, reached, forbidden if root_forbidden is None else root_forbidden
        )
        for name in filter(None, relative.split("/")):
            reached = f"{reached}/{name}" if reached else name
            if create_mode is not None:
                _make_directory(name, create_mode, descriptor)
            below = _open_component(name, descriptor, root, reached)
            os.close(descriptor)
            descriptor = below
            _require_permissions(descriptor, root, reached, forbidden)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_component(name: str, above: int, root: Path, reached: str) -> int:
    try:
        return os.open(name, _DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=above)
    except OSError as exc:
        raise _refusal("read_failed", root / reached, exc) from exc


def write_below(
    root: Path,
    relative: str,
    data: bytes,
    *,
    mode: int,
    replace: bool = True,
    create_mode: int | None = None,
) -> None:
    """Write a file whole, below a root that is there; FileExistsError for one that may not be replaced.

    With `create_mode`, the directories between the root and the file are made.
    """
    path = root / relative
    taken: FileExistsError | None = None
    with (
        translated("write_failed", path),
        opened_directory(
            root, relative.rpartition("/")[0], create_mode=create_mode, create_root=False
        ) as directory,
    ):
        try:
            whole_files.write_whole(path, data, mode=mode, replace=replace, directory=directory)
        except FileExistsError as exc:
            taken = exc
    if taken is not None:
        raise taken


def make_user_space(root: Path) -> None:
    """Make the user space, for nobody else to look into; one that is there stays as it is."""
    whole_files.make_directory(root, mode=_USER_SPACE_MODE)


class KeptFile(Generic[Value]):
    """What a file says, read again only when it may say something else."""

    def __init__(
        self,
        root: Path,
        relative: str,
        parse: Callable[[bytes | None, Path], Value],
        *,
        limit: int,
        forbidden: int = 0,
        root_forbidden: int | None = None,
    ) -> None:
        self._root = root
        self._relative = relative
        self._parse = parse
        self._limit = limit
        self._forbidden = forbidden
        self._root_forbidden = root_forbidden
        parts = relative.split("/")
        self._directories = [str(root.joinpath(*parts[:count])) for count in range(len(parts))]
        self._file = str(root / relative)
        self._kept: tuple[_Stamp | None, bytes | None, Value] | None = None

    def value(self) -> Value:
        """What the file says now; the same object as before when it says the same."""
        kept = self._kept
        if kept is not None and kept[0] is not None and kept[0] == self._look():
            return kept[2]
        now = time.time_ns()
        stamp = self._look()
        data = read_below(
            self._root,
            self._relative,
            limit=self._limit,
            forbidden=self._forbidden,
            root_forbidden=self._root_forbidden,
        )
        if kept is not None and kept[1] == data:
            value = kept[2]
        else:
            value = self._parse(data, self._root / self._relative)
        # One that came while it was looked for must not be taken for what is said when it is gone again.
        is_missing = stamp[-1] is None
        is_settled = is_missing == (data is None) and max((stamp[-1] or (0,))[-2:]) < now - SETTLED_NS
        # One assignment, so that threads never see the stamp of one reading beside the value of another.
        self._kept = (stamp if is_settled else None, data, value)
        return value

    def _look(self) -> _Stamp:
        # What else comes and goes in a directory is no change of the file.
        directories = [stamp and stamp[:_OF_A_DIRECTORY] for stamp in map(_stamp_of, self._directories)]
        return (*directories, _stamp_of(self._file))


def _stamp_of(path: str) -> tuple[int, ...] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as exc:
        return (exc.errno or 0,)
    return (
        found.st_ino,
        found.st_dev,
        found.st_mode,
        found.st_uid,  # so far what counts of a directory
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


@contextmanager
def translated(code: str, path: Path) -> Iterator[None]:
    """Errors of the system are RyeErrors: links are `unsafe_path`, others have this code. What is missing
    when something is read stays a FileNotFoundError.
    """
    try:
        yield
    except OSError as exc:
        raise _refusal(code, path, exc) from exc


def _refusal(code: str, path: Path, exc: OSError) -> RyeError:
    """An error of the system in other words; what is missing when something is read is raised again."""
    if code == "read_failed" and isinstance(exc, FileNotFoundError):
        raise exc
    if exc.errno in _LINK_ERRORS:
        what = f"expected files and directories up to {path}, found a symbolic link or something else there"
        return RyeError("unsafe_path", what, where=path)
    verb = code.partition("_")[0]
    hint = f"ls -ld {shlex.quote(str(path.parent))}" if exc.errno in _PERMISSION_ERRORS else None
    if isinstance(exc, TimeoutError):
        hint = "try again; if it stays so, end the process of yours that holds the lock: lslocks"
    return RyeError(code, f"expected to {verb} {path}, found: {exc.strerror}", where=path, hint=hint)


def _make_directory(name: str, mode: int, parent: int) -> None:
    """Make a directory with this mode, unless it is there already; not through a link, whoever is faster."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=parent)
        os.chmod(name, mode, dir_fd=parent)


def require_not_exchanged(root: Path) -> None:
    """Refuse a directory that another user could rename, or put another one of this user in the place of."""
    problem = why_others_exchange(str(root))
    if problem is not None:
        what = f"expected that nobody else can exchange {printable(root)}, found that {problem}"
        hint = f"namei -l {shlex.quote(str(root))}"
        raise RyeError("unsafe_permissions", what, where=root, hint=hint)


def _require_regular(descriptor: int, root: Path, relative: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        path = root / relative
        what = f"expected a regular file at {path}, found a directory, a pipe or a device"
        raise RyeError("unsafe_path", what, where=path)


def _require_permissions(descriptor: int, root: Path, relative: str, forbidden: int) -> None:
    if not forbidden:
        return
    found, path = os.fstat(descriptor), root / relative
    quoted = shlex.quote(str(path))
    if found.st_uid not in (os.geteuid(), 0):
        what = f"expected {path} to belong to this user ({os.geteuid()}), found owner {found.st_uid}"
        hint = f"if it is really yours: chown {os.geteuid()} {quoted}"
        raise RyeError("unsafe_permissions", what, where=path, hint=hint)
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        what = (
            f"expected mode {mode & ~forbidden:04o} of {path}, so that others have no say, found {mode:04o}"
        )
        hint = f"chmod {mode & ~forbidden:04o} {quoted}"
        raise RyeError("unsafe_permissions", what, where=path, hint=hint)


def _read(descriptor: int, limit: int, root: Path, relative: str) -> bytes:
    chunks: list[bytes] = []
    missing = limit + 1
    while missing and (chunk := os.read(descriptor, min(missing, _READ_CHUNK_BYTES))):
        chunks.append(chunk)
        missing -= len(chunk)
    if not missing:
        path = root / relative
        raise RyeError("too_large", f"expected at most {limit} bytes in {path}, found more", where=path)
    return b"".join(chunks)
