"""Where a process keeps what it is about to run, and what is left there by those that crashed.

Rules:

- A station is a directory of this process alone, with a name that nobody can guess, in the first place that
  will do. The places are in directories of this user: runtime (`$XDG_RUNTIME_DIR`, `/run/user/UID`), state,
  cache, and the cache in the home directory that the system knows.
- No other user may write into a place or into a directory above it, since interpreters look for packages in
  all of them (`/tmp/node_modules`). So `/tmp` and `/dev/shm` will not do, whether or not they are sticky.
- A place itself is a directory of mode 0700 that belongs to this user, and no link.
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
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.executor._private_trees import made_directory, open_private, opened_private, remove_tree
from rye_mcp.items import printable
from rye_mcp.other_users import upwards

__all__ = ["Place", "Station", "places", "sweep"]

_NAME: Final = re.compile(r"rye-[0-9a-f]{16}")
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that stations can be in: `made` below `base`, where each directory may have to be made."""

    base: str
    made: str

    @property
    def path(self) -> str:
        """The whole path."""
        return f"{self.base.rstrip('/')}/{self.made}"

    def require(self) -> None:
        """Refuse, as `open` does, what will not do as far as that can be told while nothing is made."""
        owners = {os.geteuid(), 0, Path(os.sep).stat().st_uid}
        there = [path for path in upwards(self.path) if os.path.lexists(path)]
        for path in there:
            is_place = path == self.path
            forbidden = _OTHERS if is_place else _OTHERS_WRITE
            _require(
                path, Path(path).stat(), owners={os.geteuid()} if is_place else owners, forbidden=forbidden
            )
        if not os.access(there[0], os.W_OK | os.X_OK):
            raise _not_writable(self.path, OSError(errno.EACCES, os.strerror(errno.EACCES)))

    def open(self) -> int:
        """A descriptor of it; RyeError `unsafe_permissions` or `write_failed` when it will not do."""
        try:
            return self._entered()
        except OSError as exc:
            raise _not_writable(self.path, exc) from exc

    def _entered(self) -> int:
        """Go to the place from the root of the file system, and look at each directory on the way."""
        parts = Path(self.path).parts
        first_made = len(parts) - len(Path(self.made).parts)
        descriptor = os.open(parts[0], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # Whoever owns the root of the file system could do anything; in a user namespace that is not uid 0.
        trusted = {os.geteuid(), 0, os.fstat(descriptor).st_uid}
        try:
            for depth, name in enumerate(parts[1:], start=1):
                found = os.fstat(descriptor)
                _require("/".join(parts[:depth])[1:] or "/", found, owners=trusted, forbidden=_OTHERS_WRITE)
                if depth >= first_made:
                    _make(name, descriptor)
                above = descriptor
                descriptor = open_private(name, above, to_pass=depth < len(parts) - 1)
                os.close(above)
            _require(self.path, os.fstat(descriptor), owners={os.geteuid()}, forbidden=_OTHERS)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _make(name: str, above: int) -> None:
    with suppress(FileExistsError):
        os.close(made_directory(name, above))


def _require(path: str, found: os.stat_result, *, owners: set[int], forbidden: int) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid in owners and not mode & forbidden:
        return
    is_place = forbidden == _OTHERS
    expected = "mode 0700 and you as its owner" if is_place else "that no other user can write here"
    shown = printable(path)
    what = f"expected {expected}, found mode {mode:04o} and the owner {found.st_uid}: {shown}"
    hint = "set XDG_RUNTIME_DIR to a directory of yours (0700), above which only you and root may write"
    raise RyeError("unsafe_permissions", what, where=shown, hint=hint)


def places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """The places that are looked at, in this order."""
    home = environment.get("HOME", "")
    own = (
        (environment.get("XDG_RUNTIME_DIR"), "rye"),
        (f"/run/user/{os.geteuid()}", "rye"),
        (environment.get("XDG_STATE_HOME"), "rye/running"),
        (home, ".local/state/rye/running"),
        (environment.get("XDG_CACHE_HOME"), "rye/running"),
        (home, ".cache/rye/running"),
        (_home_of_user(), ".cache/rye/running"),
    )
    named = ((base, made) for base, made in own if base and base[0] == "/" and "\0" not in base)
    return tuple(dict.fromkeys(Place(os.path.realpath(base), made) for base, made in named))


def _home_of_user() -> str:
    """The home directory of this user, whatever the environment says; empty for none."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


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
