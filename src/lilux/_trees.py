"""Opens, reads and writes below a directory without following a symbolic link.

What is missing is a FileNotFoundError. A link, a file of another kind, and one that others own or may change
are an `UnsafeError`. More bytes than the limit are an OSError (EFBIG). Every error names the whole path.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lilux import _files
from lilux._footprints import note
from lilux.primitives.errors import IntegrityError

__all__ = [
    "DIRECTORY",
    "FILE",
    "NEW_FILE",
    "Tree",
    "UnsafeError",
    "open_directory",
    "open_file",
    "opened",
    "read_file",
    "read_in",
    "require_private",
    "wrong_kind",
]

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags with which a directory is opened."""

FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags with which a file is read: a pipe without a writer does not make the reader wait."""

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags with which a file is made that must not be there yet."""


class UnsafeError(IntegrityError):
    """A file or a directory that cannot be relied on.

    `problem` is the message without the advice, which is the command that fixes it, with its condition.
    """

    def __init__(
        self, problem: str, *, reason: str, path: Path, remedy: str | None = None, condition: str = ""
    ) -> None:
        known = {} if remedy is None else {"remedy": remedy}
        self.problem = problem
        self.advice = None if remedy is None else f"{condition}{remedy}"
        message = problem if remedy is None else f"{problem}; to fix it: {self.advice}"
        super().__init__(message, reason=reason, path=path, **known)


def wrong_kind(expected: str, found: str, path: Path) -> UnsafeError:
    """The error for a file that is not of the kind that it has to be."""
    return UnsafeError(f"expected {expected}, found {found}: {path}", reason="unsafe_path", path=path)


def open_directory(name: str, above: int | None, root: Path, parts: Sequence[str] = ()) -> int:
    """The descriptor of a directory, which the caller closes; NotADirectoryError for a file.

    `above` is the open directory that it is in. Errors call it by its `parts` below `root`: a path takes
    longer to make than a directory to open.
    """
    note(lambda: root.joinpath(*parts))
    try:
        return os.open(name, DIRECTORY, dir_fd=above)
    except NotADirectoryError as exc:
        # The system answers a link like a file; only a link is an attempt to lead elsewhere.
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise wrong_kind("a directory", "a symbolic link", root.joinpath(*parts)) from exc
        raise NotADirectoryError(exc.errno, exc.strerror, str(root.joinpath(*parts))) from exc
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(root.joinpath(*parts))) from exc


def open_file(name: str, above: int, path: Path) -> tuple[int, os.stat_result]:
    """The descriptor of a regular file in an open directory, which the caller closes, and its status.

    Nothing but a regular file is opened: opening a device can do something.
    """
    note(lambda: path)
    try:
        _require_regular(os.stat(name, dir_fd=above, follow_symlinks=False), path)
        descriptor = os.open(name, FILE, dir_fd=above)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise wrong_kind("a regular file", "a symbolic link", path) from exc
        raise OSError(exc.errno, exc.strerror, str(path)) from exc
    found = os.fstat(descriptor)
    try:
        _require_regular(found, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, found


def read_file(name: str, above: int, path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file in an open directory, and its status."""
    descriptor, found = open_file(name, above, path)
    try:
        return _files.read(descriptor, found.st_size, limit, path), found
    finally:
        os.close(descriptor)


@contextmanager
def opened(descriptor: int) -> Iterator[int]:
    """A descriptor that is closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def require_private(descriptor: int, path: Path, *, forbidden: int, or_root: bool = False) -> None:
    """UnsafeError for what others own, or have one of the `forbidden` permissions for."""
    found, quoted = os.fstat(descriptor), shlex.quote(str(path))
    if found.st_uid != os.geteuid() and not (or_root and found.st_uid == 0):
        raise UnsafeError(
            f"expected {path} to belong to this user ({os.geteuid()}), found owner {found.st_uid}",
            reason="unsafe_permissions",
            path=path,
            remedy=f"chown {os.geteuid()} {quoted}",
            condition="if it is really yours: ",
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        wanted = mode & ~forbidden
        raise UnsafeError(
            f"expected mode {wanted:04o} of {path}, so that others have no say, found {mode:04o}",
            reason="unsafe_permissions",
            path=path,
            remedy=f"chmod {wanted:04o} {quoted}",
        )


def read_in(directory: int, path: Path, *, limit: int, forbidden: int = 0) -> bytes:
    """The bytes of a regular file in an open directory; `path` is the whole path of the file."""
    descriptor, found = open_file(path.name, directory, path)
    with opened(descriptor):
        if forbidden:
            require_private(descriptor, path, forbidden=forbidden)
        return _files.read(descriptor, found.st_size, limit, path)


class Tree:
    """A directory, below which everything is reached through no symbolic link.

    Nobody else may have one of the `forbidden` permissions for a directory on the way or for a file, and this
    user owns them, or root if `or_root` says so; 0 checks neither. `root_forbidden` is for a root that is
    not as private.
    """

    __slots__ = ("_forbidden", "_or_root", "_root_forbidden", "root")

    def __init__(
        self,
        root: Path,
        *,
        forbidden: int = 0,
        root_forbidden: int | None = None,
        or_root: bool = False,
    ) -> None:
        self.root = root
        self._forbidden = forbidden
        self._or_root = or_root
        self._root_forbidden = forbidden if root_forbidden is None else root_forbidden

    @property
    def is_private(self) -> bool:
        """Whether anything is asked of permissions."""
        return bool(self._forbidden)

    def above(self) -> tuple[str, ...]:
        """The paths above the root that say whether it is private: none, for a tree that looks only below."""
        return ()

    def open(self, relative: str = "", *, create_mode: int | None = None) -> int:
        """The descriptor of a directory, which the caller closes.

        With `create_mode`, it is made with exactly this mode, and so are those between the root and it.
        """
        descriptor = open_directory(str(self.root), None, self.root)
        parts = tuple(filter(None, relative.split("/")))
        try:
            self._require(descriptor, (), self._root_forbidden)
            for depth, name in enumerate(parts, start=1):
                if create_mode is not None:
                    _make_directory(name, create_mode, descriptor)
                below = open_directory(name, descriptor, self.root, parts[:depth])
                os.close(descriptor)
                descriptor = below
                self._require(descriptor, parts[:depth], self._forbidden)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def opened(self, relative: str = "") -> Iterator[int]:
        """The same, for as long as the block lasts."""
        with opened(self.open(relative)) as descriptor:
            yield descriptor

    def open_file(self, relative: str) -> int:
        """The descriptor of a regular file, which the caller closes."""
        above, _, name = relative.rpartition("/")
        with opened(self.open(above)) as directory:
            descriptor, _ = open_file(name, directory, self.root / relative)
        try:
            self._require(descriptor, (relative,), self._forbidden)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, relative: str, *, limit: int) -> bytes | None:
        """The bytes of a regular file; None if it is missing."""
        try:
            descriptor = self.open_file(relative)
        except FileNotFoundError:
            return None
        with opened(descriptor):
            return _files.read(descriptor, os.fstat(descriptor).st_size, limit, self.root / relative)

    def write(
        self, relative: str, data: bytes, *, mode: int, replace: bool = True, create_mode: int | None = None
    ) -> None:
        """Write a file whole; FileExistsError for one that is there, if it may not be replaced."""
        with opened(self.open(relative.rpartition("/")[0], create_mode=create_mode)) as directory:
            _files.write_whole(self.root / relative, data, mode=mode, replace=replace, directory=directory)

    def _require(self, descriptor: int, parts: Sequence[str], forbidden: int) -> None:
        if forbidden:
            require_private(
                descriptor, self.root.joinpath(*parts), forbidden=forbidden, or_root=self._or_root
            )


def _require_regular(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise wrong_kind("a regular file", _files.kind_of(found.st_mode), path)


def _make_directory(name: str, mode: int, above: int) -> None:
    """Make a directory with this mode, unless it is there; never through a link that somebody else makes."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=above)
        os.chmod(name, mode, dir_fd=above)
