"""The private directories of a process, which hold what it is about to run.

Everything is reached by its name in an open directory, without following a link. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.other_users import upwards

__all__ = [
    "DIRECTORY_MODE",
    "Place",
    "Station",
    "TreeWriter",
    "copy_file",
    "made_directory",
    "open_private",
    "opened_private",
    "places",
    "remove_files",
    "remove_tree",
    "sweep",
    "unwrite",
]

_NAME: Final = re.compile(r"rye-[0-9a-f]{16}")
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_ATTEMPTS = 16
_BLOCK_BYTES = 1 << 20


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
                if (made := _made_and_locked(above)) is not None:
                    name, descriptor = made
                    return cls(place, f"{place.path}/{name}", descriptor)
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


def _made_and_locked(above: int) -> tuple[str, int] | None:
    """A new directory, which is locked; None when a sweep was faster, which it can be until then."""
    name = f"rye-{os.urandom(8).hex()}"
    try:
        descriptor = made_directory(name, above)
    except FileNotFoundError:
        return None
    if _is_locked(descriptor, name, above):
        return name, descriptor
    os.close(descriptor)
    return None


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


DIRECTORY_MODE: Final = 0o700
"""The permissions of every directory in a private tree."""

_LOOK: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROUNDS = 8


def open_private(name: str, above: int, *, to_pass: bool = False) -> int:
    """A descriptor of a directory, which the caller closes; no link is followed.

    One `to_pass` to what is in it may be unreadable.
    """
    return os.open(name, _LOOK if to_pass else _trees.DIRECTORY, dir_fd=above)


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
        descriptor = os.open(name, _trees.NEW_FILE, mode, dir_fd=self.directory(above))
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
            descriptor = os.open(name, _trees.DIRECTORY, dir_fd=parent)
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
        descriptor = os.open(name, _trees.DIRECTORY, dir_fd=above)
    except PermissionError:
        _give_access(name, above)
        return os.open(name, _trees.DIRECTORY, dir_fd=above)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) & DIRECTORY_MODE != DIRECTORY_MODE:
        os.fchmod(descriptor, DIRECTORY_MODE)
    return descriptor


def _write_all(descriptor: int, content: bytes) -> None:
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, memoryview(content)[written:])


def copy_file(source: int, name: str, directory: int, *, mode: int) -> None:
    """Make a file in an open directory with all that an open file has, from its beginning on."""
    target = os.open(name, _trees.NEW_FILE, mode, dir_fd=directory)
    try:
        offset = 0
        while sent := os.sendfile(target, source, offset, _BLOCK_BYTES):
            offset += sent
    finally:
        os.close(target)


def remove_files(name: str, above: int, files: Iterable[str], *, empty: Iterable[str] = ()) -> bool:
    """Remove a directory with these files and `empty` directories and no others; whether that went well."""
    opened: dict[str, int] = {}
    try:
        opened[""] = os.open(name, _trees.DIRECTORY, dir_fd=above)
        for directory in empty:
            os.rmdir(directory, dir_fd=opened[""])
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
        known = os.open(last, _trees.DIRECTORY, dir_fd=_opened_below(directory, opened))
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
