"""Where a process keeps what it is about to run, and what is left there by those that crashed.

Rules:

- A station is a directory of this process alone, with a name that nobody can guess, in the first place that
  will do: `$XDG_RUNTIME_DIR/rye`, `/dev/shm`, the temporary directory. A place that somebody else may change
  will not do, nor one that is prepared as something else: a link, somebody else's, open to others. One that
  everybody may write to has to keep them from each other's files (the sticky bit).
- Programs that are to be started themselves need a place without `noexec`.
- A station is locked for as long as its process lives, and the system lets go of the lock when that ends,
  however it ends. So whoever gets the lock of a station knows that nobody needs it any more, and removes it.
  A station is used only when it is still there after it was locked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.executor._private_trees import made_directory, opened_private, remove_tree
from rye_mcp.items import printable

__all__ = ["Place", "Station", "places", "sweep"]

_NAME: Final = re.compile(r"rye-[0-9a-f]{16}")
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - checked like any other place
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that stations can be in; `made` says that it is ours alone, and may have to be made."""

    path: str
    made: bool = False

    def open(self) -> int:
        """A descriptor of it; RyeError `unsafe_permissions` or `write_failed` when it will not do."""
        try:
            if self.made:
                self._make()
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if self.made else 0)
            descriptor = os.open(self.path, flags)
        except OSError as exc:
            raise _not_writable(self.path, exc) from exc
        try:
            self._require_ours(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _make(self) -> None:
        above, _, name = self.path.rpartition("/")
        with suppress(FileExistsError), opened_private(above or "/") as directory:
            os.close(made_directory(name, directory))

    def _require_ours(self, found: os.stat_result) -> None:
        mode, own = stat.S_IMODE(found.st_mode), os.geteuid()
        if self.made:
            good = found.st_uid == own and not mode & _OTHERS
        else:
            good = found.st_uid in (own, 0) and (not mode & _OTHERS_WRITE or bool(mode & stat.S_ISVTX))
        if not good:
            expected = "mode 0700 and you as its owner" if self.made else "a directory that is safe to share"
            shown = printable(self.path)
            what = f"expected {expected}, found mode {mode:04o} and the owner {found.st_uid}: {shown}"
            raise RyeError("unsafe_permissions", what, where=shown, hint=f"ls -ld {shlex.quote(shown)}")


def places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """The places that are looked at, in this order."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    own = (Place(f"{os.path.realpath(runtime)}/rye", made=True),) if _is_private(runtime) else ()
    shared = (Place(os.path.realpath(each)) for each in (_SHARED_MEMORY, tempfile.gettempdir()))
    return (*own, *shared)


def _is_private(directory: str) -> bool:
    """Whether a directory is there, and nobody else may put anything into it."""
    try:
        found = os.stat(directory)  # noqa: PTH116 - it may be no path at all
    except (OSError, ValueError):
        return False
    return (
        os.path.isabs(directory)  # noqa: PTH117 - it may be no path at all
        and stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not stat.S_IMODE(found.st_mode) & _OTHERS_WRITE
    )


class Station:
    """A directory of this process, locked as long as it is open."""

    def __init__(self, place: Place, path: str, descriptor: int) -> None:
        self.place = place
        self.path = path
        self.descriptor = descriptor
        self.executable = not os.fstatvfs(descriptor).f_flag & os.ST_NOEXEC

    @classmethod
    def open(cls, place: Place) -> Station:
        """Make a station in a place; RyeError when none can be there."""
        above = place.open()
        try:
            for _ in range(_ATTEMPTS):
                name = f"rye-{secrets.token_hex(8)}"
                descriptor = made_directory(name, above)
                if _is_locked(descriptor, name, above):
                    return cls(place, f"{place.path}/{name}", descriptor)
                os.close(descriptor)
        except OSError as exc:
            raise _not_writable(place.path, exc) from exc
        finally:
            os.close(above)
        raise _not_writable(place.path, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))

    @property
    def stands(self) -> bool:
        """Whether it is still where it was made."""
        try:
            found = os.lstat(self.path)
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(self.descriptor))

    def close(self) -> None:
        """Remove it, with everything in it."""
        name = self.path.rpartition("/")[2]
        with suppress(OSError, RyeError):
            above = self.place.open()
            try:
                if self.stands:
                    remove_tree(name, above)
            finally:
                os.close(above)
        os.close(self.descriptor)


def _is_locked(descriptor: int, name: str, above: int) -> bool:
    """Lock a new station; false when a sweep was faster."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
    except (BlockingIOError, FileNotFoundError):
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def sweep(place: Place) -> int:
    """Remove the stations of processes that are no more; how many there were. None of it is an error."""
    try:
        above = place.open()
    except RyeError:
        return 0
    try:
        return sum(_remove_if_abandoned(name, above) for name in list(_stations(above)))
    finally:
        os.close(above)


def _stations(above: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(above) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry.name


def _remove_if_abandoned(name: str, above: int) -> bool:
    try:
        with opened_private(name, above) as descriptor:
            if os.fstat(descriptor).st_uid != os.geteuid():
                return False
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(name, above)
    except OSError:
        return False
    return True


def _not_writable(path: str, exc: OSError) -> RyeError:
    shown = printable(path)
    what = f"expected room for what is about to run in {shown}, found: {exc.strerror}"
    return RyeError("write_failed", what, where=shown)
