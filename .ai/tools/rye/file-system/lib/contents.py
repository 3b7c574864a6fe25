"""The content of files: read within limits, and written whole or not at all.

Rules:

- A file is written beside itself and takes its name in one step; its mode and its owner stay. Whoever reads
  meanwhile reads the old one or the new one.
- A file that another process has locked is not replaced. Locks are waited for, for a short time: two edits at
  once both count.
- A file that cannot be written by its owner is not replaced either, although the system would allow it.
- Files are known by the SHA256 of their content.
"""

import os
import stat
import time

from answers import Refusal
from places import MAX_BYTES

__all__ = ["Held", "digest", "is_binary", "read_all", "read_descriptor", "write_whole"]

LOCK_SECONDS = 2.0
"""How long a lock is waited for."""

LOCK_POLL_SECONDS = 0.02
PIECE_BYTES = 1 << 20


def digest(content):
    """What a content is known by."""
    import hashlib  # takes longer than most calls that do not need it

    return hashlib.sha256(content).hexdigest()


def is_binary(content):
    """Whether this is no text: no text has a NUL byte."""
    return b"\0" in content


def read_all(place, limit=MAX_BYTES):
    """The content of the file in a place."""
    descriptor = place.open()
    try:
        return read_descriptor(descriptor, place, limit)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor, place, limit=MAX_BYTES):
    """The content of an open file from where it stands."""
    pieces, total = [], 0
    while piece := os.read(descriptor, PIECE_BYTES):
        total += len(piece)
        if total > limit:
            what = f"expected at most {limit} bytes, found {os.fstat(descriptor).st_size}: {place.shown}"
            raise Refusal(what, "read a part of it, or work on it with rye/bash/bash")
        pieces.append(piece)
    return b"".join(pieces)


class Held:
    """A file that is to be replaced: locked, and read once. Only what was read is replaced."""

    def __init__(self, place, limit=MAX_BYTES):
        self.place = place
        self.descriptor = _locked(place)
        try:
            self.status = os.fstat(self.descriptor)
            if not self.status.st_mode & 0o222:
                what = f"expected a file that may be written, found one that may only be read: {place.shown}"
                raise Refusal(what, "change its mode first: chmod u+w")
            self.content = read_descriptor(self.descriptor, place, limit)
        except BaseException:
            os.close(self.descriptor)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.close(self.descriptor)

    def require_hash(self, expected):
        """Refuse a file that is not the one that was read before."""
        found = digest(self.content)
        if expected is not None and expected != found:
            what = f"expected {self.place.shown} as it was read ({expected}), found it changed ({found})"
            raise Refusal(what, "read it again with rye/file-system/read, and look at what changed")

    def replace(self, content):
        """Put a content in the place of the one that was read."""

        def still_the_same():
            status = self.place.status()
            if status is None or _identity(status) != _identity(self.status):
                what = f"expected {self.place.shown} as it was read, found that it changed just now"
                raise Refusal(what, "try again")

        write_whole(self.place, content, like=self.status, before=still_the_same)


def write_whole(place, content, *, like=None, before=None, create_only=False):
    """Write a file, whole or not at all: with the mode and the owner of `like`, when there is one."""
    name = f".{place.name[:80]}.{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666 if like is None else 0o600, dir_fd=place.directory)
    try:
        try:
            _write(descriptor, content)
            if like is not None:
                _resemble(descriptor, like)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if before is not None:
            before()
        if create_only:
            _take_free_name(place, name)
        else:
            os.rename(name, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except BaseException:
        os.unlink(name, dir_fd=place.directory)
        raise


def _write(descriptor, content):
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _resemble(descriptor, status):
    found = os.fstat(descriptor)
    if (found.st_uid, found.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except PermissionError:
            status_mode = stat.S_IMODE(status.st_mode) & 0o777  # not for another owner: set-user-ID
            os.fchmod(descriptor, status_mode)
            return
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _take_free_name(place, name):
    """Give a written file its name, unless somebody has it."""
    directory = place.directory
    try:
        os.link(name, place.name, src_dir_fd=directory, dst_dir_fd=directory)
    except FileExistsError:
        raise exists(place) from None
    except PermissionError:  # a file system without hard links
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(place.name, flags, dir_fd=directory))
        except FileExistsError:
            raise exists(place) from None
        os.rename(name, place.name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    os.unlink(name, dir_fd=directory)


def exists(place):
    """The refusal of a name that is taken."""
    return Refusal(
        f"expected nothing at {place.shown}, found something", "choose another name, or change what is there"
    )


def _locked(place):
    """The open file of a place, with every lock on it that there is."""
    import fcntl

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        descriptor = _opened(place)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = place.status()
            if status is not None and (status.st_dev, status.st_ino) == _file(os.fstat(descriptor)):
                return descriptor
        except (BlockingIOError, PermissionError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() > deadline:
            what = f"expected a file that nobody has locked, found that another process has: {place.shown}"
            raise Refusal(what, "wait until that process is done with it, and try again")
        time.sleep(LOCK_POLL_SECONDS)


def _opened(place):
    try:
        return place.open(os.O_RDWR)
    except PermissionError:
        return place.open()


def _file(status):
    return status.st_dev, status.st_ino


def _identity(status):
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
