"""Reaches files without following a link, with the refusals of rye-mcp (`lilux._trees` does the work).

A link and a file of another kind are `unsafe_path`, what others own or may change is `unsafe_permissions`,
and more bytes than the limit are `too_large`. A missing file is a FileNotFoundError, or None when it is read.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lilux import _files as whole_files
from lilux import _trees
from lilux._footprints import note_way
from rye_mcp.errors import RyeError, printable
from rye_mcp.other_users import TooManyLinks, followed, on_the_way, why_others_exchange

__all__ = [
    "OTHERS",
    "OTHERS_WRITE",
    "Tree",
    "make_user_space",
    "read_private",
    "refusal",
    "require_not_exchanged",
    "translated",
    "wrong_kind",
]

OTHERS_WRITE = 0o022
"""The permissions that let others change who is trusted."""

OTHERS = 0o077
"""Every permission that others can have."""

_PERMISSION_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS}
_USER_SPACE_MODE = 0o700


class Tree(_trees.Tree):
    """A directory, below which everything is reached through no link; what is refused is a RyeError.

    With `forbidden`, this user or root owns everything on the way, and no other user has any of these
    permissions or can exchange the directory itself.
    """

    __slots__ = ()

    def __init__(self, root: Path, *, forbidden: int = 0, root_forbidden: int | None = None) -> None:
        super().__init__(root, forbidden=forbidden, root_forbidden=root_forbidden, or_root=True)

    def above(self) -> tuple[str, ...]:
        """The directories above a private root, and the links to it: who may write there may exchange it."""
        if not self.is_private:
            return ()
        try:
            real, links = followed(str(self.root))
        except TooManyLinks:  # which is never opened
            return ()
        return tuple(each for each in on_the_way(real, links) if each != real)

    def open(self, relative: str = "", *, create_mode: int | None = None) -> int:
        """The descriptor of a directory, which the caller closes; with `create_mode`, it is made."""
        if self.is_private:
            note_way(self.above)
            require_not_exchanged(self.root)
        try:
            return super().open(relative, create_mode=create_mode)
        except FileNotFoundError:
            raise
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, self.root / relative) from exc

    @contextmanager
    def opened(self, relative: str = "", *, create_mode: int | None = None) -> Iterator[int]:
        """The same, for as long as the block lasts. With `create_mode`, the root is made too."""
        if create_mode is not None:
            if self.is_private:
                require_not_exchanged(self.root)
            whole_files.make_directory(self.root, mode=create_mode)
        with _trees.opened(self.open(relative, create_mode=create_mode)) as descriptor:
            yield descriptor

    def open_file(self, relative: str) -> int:
        """The descriptor of a regular file, which the caller closes."""
        try:
            return super().open_file(relative)
        except FileNotFoundError:
            raise
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, self.root / relative) from exc

    def read(self, relative: str, *, limit: int) -> bytes | None:
        """The bytes of a regular file; None if it is missing."""
        try:
            return super().read(relative, limit=limit)
        except OSError as exc:
            raise refusal(exc, self.root / relative) from exc

    def write(
        self, relative: str, data: bytes, *, mode: int, replace: bool = True, create_mode: int | None = None
    ) -> None:
        """Write a file whole; FileExistsError for one that is there, if it may not be replaced."""
        try:
            super().write(relative, data, mode=mode, replace=replace, create_mode=create_mode)
        except FileExistsError:
            raise
        except OSError as exc:
            raise refusal(exc, self.root / relative, "write_failed") from exc


def make_user_space(root: Path) -> None:
    """Make the user space, which no other user can look into; an existing one stays as it is."""
    whole_files.make_directory(root, mode=_USER_SPACE_MODE)


def require_not_exchanged(root: Path) -> None:
    """Refuse a directory that another user could rename, or put another one of this user in the place of."""
    problem = why_others_exchange(str(root))
    if problem is not None:
        what = f"expected that no other user can exchange {printable(root)}, found that {problem}"
        hint = f"namei -l {shlex.quote(str(root))}"
        raise RyeError("unsafe_permissions", what, where=root, hint=hint)


def read_private(file: Path, kind: str, *, limit: int) -> str:
    """The text of a file of this user or root that no other user may read or change, links to it followed."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:  # noqa: PTH123
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise RyeError("unsafe_path", f"expected a file with {kind}, found none", where=file)
            if found.st_mode & OTHERS or found.st_uid not in (os.geteuid(), 0):
                mode = f"{oct(stat.S_IMODE(found.st_mode))} of user {found.st_uid}"
                what = f"expected {kind} that only this user may read, found {mode}: {printable(file)}"
                hint = f"chmod go-rwx {shlex.quote(str(file))}"
                raise RyeError("unsafe_permissions", what, where=file, hint=hint)
            return opened.read(limit).decode("ascii", "replace").strip()
    except OSError as exc:
        raise RyeError("read_failed", f"the system said: {exc.strerror}", where=file) from exc


def wrong_kind(expected: str, mode: int, path: Path) -> RyeError:
    """The error for a file that is not of the kind that it has to be."""
    shown = printable(path)
    what = f"expected {expected}, found {whole_files.kind_of(mode)}: {shown}"
    return RyeError("unsafe_path", what, where=shown)


@contextmanager
def translated(code: str, path: Path) -> Iterator[None]:
    """Errors of the system and of `lilux` are RyeErrors; those of the system have this code.

    What is missing when something is read stays a FileNotFoundError.
    """
    try:
        yield
    except (OSError, _trees.UnsafeError) as exc:
        if code == "read_failed" and isinstance(exc, FileNotFoundError):
            raise
        raise refusal(exc, path, code) from exc


def refusal(exc: OSError | _trees.UnsafeError, path: Path, code: str = "read_failed") -> RyeError:
    """The same error for callers of rye-mcp."""
    if isinstance(exc, _trees.UnsafeError):
        where = exc.attributes["path"]
        return RyeError(exc.attributes["reason"], printable(exc.problem), where=where, hint=exc.advice)
    named = exc.filename
    path = Path(named) if isinstance(named, str) and named.startswith("/") else path
    shown = printable(path)
    is_read = code == "read_failed"
    if exc.errno == errno.EFBIG and is_read:
        return RyeError("too_large", f"{exc.strerror}: {shown}", where=path)
    if exc.errno in (errno.ELOOP, errno.ENOTDIR):
        return RyeError("unsafe_path", f"expected a directory, found something else: {shown}", where=path)
    hint = None
    if isinstance(exc, TimeoutError):
        hint = "try again; if it stays so, end the process of yours that holds the lock: lslocks"
    elif exc.errno in _PERMISSION_ERRORS:
        hint = (
            f"chmod u+rX {shlex.quote(shown)}" if is_read else f"ls -ld {shlex.quote(printable(path.parent))}"
        )
    verb = code.partition("_")[0]
    return RyeError(code, f"expected to {verb} {shown}, found: {exc.strerror}", where=path, hint=hint)
