"""Writes files whole or not at all, reads them within a limit, and locks directories.

`write_whole` leaves the old file or the new one, never a part of either; only a killed process leaves a
temporary file (`.lilux-….tmp`). A link in the target's place is replaced, never written through. Errors of
the system are OSErrors with the whole path.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "kind_of",
    "lock",
    "make_directory",
    "open_directory",
    "publish",
    "read",
    "read_capped",
    "real_path",
    "staged",
    "sync_directory",
    "write_whole",
]

LOCK_TIMEOUT_S = 10.0
"""How long to wait for another process that holds a lock."""

_LOCK_POLL_S = 0.005
_LOCK_FILE = ".lilux-lock.tmp"
_OTHERS_READ = 0o044

# What file systems without locks on directories answer (NFS: EBADF), and without fsync of directories.
_NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_FSYNC = {errno.EINVAL, errno.EOPNOTSUPP}

_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def write_whole(
    path: str | Path,
    data: bytes,
    *,
    mode: int,
    durable: bool = True,
    replace: bool = True,
    directory: int | None = None,
) -> None:
    """Write a file with exactly this mode; with `replace=False`, FileExistsError when there is one already.

    `directory` is the open parent directory, for those who have checked it and want that very one.
    """
    path = Path(path)
    if directory is not None:
        _write_in(directory, path, data, mode=mode, durable=durable, replace=replace)
        return
    with open_directory(path.parent) as parent:
        _write_in(parent, path, data, mode=mode, durable=durable, replace=replace)


def read_capped(path: str | Path, limit: int) -> bytes:
    """The bytes of a regular file, also behind a link; OSError (EFBIG) for more than `limit`."""
    path = Path(path)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    with _opened(path, flags) as descriptor:
        found = os.fstat(descriptor)
        _require_regular(found.st_mode, path)
        with _named(path):
            return read(descriptor, found.st_size, limit, path)


@contextmanager
def open_directory(path: str | Path) -> Iterator[int]:
    """The descriptor of a directory, also behind a link, for as long as the block lasts."""
    with _opened(Path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY) as descriptor:
        yield descriptor


def read(descriptor: int, size: int, limit: int, path: Path) -> bytes:
    """Everything in a file that was just opened, in one read as a rule; OSError (EFBIG) above the limit.

    `size` is what the system says it is. Each read asks for more than there should be: one that gets exactly
    all of it has met the end.
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
        raise OSError(errno.EFBIG, f"expected at most {limit} bytes, found more", str(path))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def make_directory(path: str | Path, *, mode: int) -> None:
    """Make a directory with exactly this mode, and those above it without a way in; leave what exists."""
    path = Path(path)
    _make_above(path)
    try:
        path.mkdir(mode)
    except FileExistsError:
        return
    path.chmod(mode)
    with open_directory(path.parent) as parent:
        sync_directory(parent)


def _make_above(path: Path) -> None:
    """Make the directories above a path; others cannot write to them, whatever the umask is."""
    missing = [each for each in path.parents if not each.is_dir()]
    for each in reversed(missing):
        each.mkdir(0o755, exist_ok=True)


@contextmanager
def lock(directory: int, *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Keep other users of this lock out of an open directory; TimeoutError when one of them stays in too
    long.

    A user who can read a file can hold a lock on it for ever. So a directory into which only this user can
    look is locked itself; in every other one it is a file that only this user can open, which is removed
    again. The lock ends with the process. A file system that has no locks is used without.
    """
    found = os.fstat(directory)
    is_private = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_READ
    operation = (fcntl.LOCK_SH if shared and is_private else fcntl.LOCK_EX) | fcntl.LOCK_NB
    take = _take_directory if is_private else _take_file
    deadline = time.monotonic() + timeout_s
    while (held := take(directory, operation)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(
                errno.ETIMEDOUT, f"expected a lock within {timeout_s:g} s, another process holds it"
            )
        time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        with suppress(OSError):
            if held == directory:
                fcntl.flock(directory, fcntl.LOCK_UN)
            else:
                os.unlink(_LOCK_FILE, dir_fd=directory)
        if held != directory:
            os.close(held)


def _take_directory(directory: int, operation: int) -> int | None:
    """The descriptor that holds the lock; None while another process has it."""
    return directory if _try_lock(directory, operation) else None


def _take_file(directory: int, operation: int) -> int | None:
    """The same, by a file in the directory: its own, and still there when it is locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(_LOCK_FILE, flags, 0o600, dir_fd=directory)
    except PermissionError:
        if _is_of_another(directory):
            return None
        raise
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            os.unlink(_LOCK_FILE, dir_fd=directory)
            return None
        raise
    try:
        is_own = _is_own(descriptor, directory)
        if is_own and _try_lock(descriptor, operation) and _is_own(descriptor, directory):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_of_another(directory: int) -> bool:
    """Whether another user has the lock of a directory that both write to, or had it just now."""
    try:
        return os.stat(_LOCK_FILE, dir_fd=directory, follow_symlinks=False).st_uid != os.geteuid()
    except FileNotFoundError:
        return os.access(".", os.W_OK, dir_fd=directory)


def _is_own(descriptor: int, directory: int) -> bool:
    """Whether a file is the one to lock, and no other user can open it; any other file is removed."""
    opened = os.fstat(descriptor)
    try:
        named = os.stat(_LOCK_FILE, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
        return False
    is_own = stat.S_ISREG(opened.st_mode) and opened.st_uid == os.geteuid() and opened.st_nlink == 1
    if is_own and not opened.st_mode & 0o077:
        return True
    os.unlink(_LOCK_FILE, dir_fd=directory)
    return False


def _try_lock(directory: int, operation: int) -> bool:
    try:
        fcntl.flock(directory, operation)
    except BlockingIOError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LOCKS:
            raise
    return True


def _write_in(directory: int, path: Path, data: bytes, *, mode: int, durable: bool, replace: bool) -> None:
    with staged(path, data, mode=mode, durable=durable, directory=directory) as temporary:
        publish(temporary, path, directory=directory, replace=replace)
    if durable:
        sync_directory(directory)


@contextmanager
def staged(path: Path, data: bytes, *, mode: int, durable: bool = True, directory: int) -> Iterator[str]:
    """The name of a filled temporary file beside `path`, to be published before the block ends or never.

    For those who have several files to publish, and want none of them when one does not fit on the disk.
    """
    temporary = f".lilux-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with _named(path):
        descriptor = os.open(temporary, flags, mode, dir_fd=directory)
    try:
        with _named(path):
            _fill(descriptor, data, mode=mode, durable=durable)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)


def publish(temporary: str, path: Path, *, directory: int, replace: bool = True) -> None:
    """Give a staged file its name; with `replace=False`, FileExistsError when there is one already."""
    put = os.replace if replace else os.link
    with _named(path):
        put(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)


def _fill(descriptor: int, data: bytes, *, mode: int, durable: bool) -> None:
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        if durable:
            os.fsync(descriptor)


def sync_directory(directory: int) -> None:
    """Put the names of a directory on the disk, as far as the file system can."""
    try:
        os.fsync(directory)
    except OSError as exc:
        if exc.errno not in _NO_FSYNC:
            raise


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    with _named(path):
        descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def real_path(path: str) -> str:
    """The path behind every link, as `os.path.realpath` says it. The kernel knows that of what is there."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return os.path.realpath(path)
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - in every call
        return found if os.path.exists(found) else os.path.realpath(path)  # noqa: PTH110
    finally:
        os.close(descriptor)


def kind_of(mode: int) -> str:
    """Name the kind of a file in words."""
    return _KINDS.get(stat.S_IFMT(mode), "a file of an unknown kind")


def _require_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, f"expected a regular file, found {kind_of(mode)}", str(path))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was asked for, not the temporary one, and in full."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(path)) from exc
