"""Taking files and directories from one place to another: in one step where that can be, else by a copy.

Rules:

- On one file system it is one step, and nothing that is there is replaced unnoticed: the new name is
  taken first, by an empty file or directory of its own.
- Between file systems everything is copied first, with modes and times, links as links. Only when all of
  it is there does the old one go. When the copy fails, it goes, and everything is as it was.
- No link is followed. Devices and sockets are not copied: that is refused before anything is.
"""

import errno
import os
import stat

from answers import Refusal, shown
from places import DIRECTORY_FLAGS, FILE_FLAGS, kind_of

__all__ = ["carry", "remove"]

COPY_BYTES = 1 << 20
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def carry(source, source_name, target, target_name, *, replace=False):
    """Take a name in one open directory to a name in another; FileExistsError when that is taken.

    With `replace` a file may take the place of a file.
    """
    status = os.stat(source_name, dir_fd=source, follow_symlinks=False)
    placed = not replace and _take(status, target, target_name)
    try:
        _rename(source, source_name, target, target_name, status, replace=replace)
    except BaseException:
        if placed:
            remove(target, target_name)
        raise


def _take(status, target, name):
    """Take a name, for a file or for a directory."""
    if stat.S_ISDIR(status.st_mode):
        os.mkdir(name, 0o700, dir_fd=target)
    else:
        os.close(os.open(name, NEW_FILE, 0o600, dir_fd=target))
    return True


def _rename(source, source_name, target, target_name, status, *, replace):
    try:
        os.rename(source_name, target_name, src_dir_fd=source, dst_dir_fd=target)
        return
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
    _require_copyable(source, source_name, status)
    beside = f".{os.urandom(8).hex()}.tmp"
    try:
        _copy(source, source_name, target, beside, status)
        os.rename(beside, target_name, src_dir_fd=target, dst_dir_fd=target)
    except BaseException:
        remove(target, beside)
        raise
    remove(source, source_name)


def _require_copyable(directory, name, status):
    """Refuse what cannot be copied, before anything is."""
    if stat.S_ISDIR(status.st_mode):
        below = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
        try:
            for each in os.listdir(below):
                _require_copyable(below, each, os.stat(each, dir_fd=below, follow_symlinks=False))
        finally:
            os.close(below)
    elif not any(is_kind(status.st_mode) for is_kind in (stat.S_ISREG, stat.S_ISLNK, stat.S_ISFIFO)):
        what = f"expected files, directories, links and FIFOs, found a {kind_of(status)}: {shown(name)}"
        raise Refusal(what, "it cannot be copied to another file system: remove it with rye/bash/bash")


def _copy(source, name, target, new_name, status):
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
    elif stat.S_ISDIR(status.st_mode):
        _copy_directory(source, name, target, new_name)
    elif stat.S_ISFIFO(status.st_mode):
        os.mkfifo(new_name, stat.S_IMODE(status.st_mode), dir_fd=target)
    else:
        _copy_file(source, name, target, new_name)
    times = (status.st_atime_ns, status.st_mtime_ns)
    os.utime(new_name, ns=times, dir_fd=target, follow_symlinks=False)


def _copy_directory(source, name, target, new_name):
    os.mkdir(new_name, 0o700, dir_fd=target)
    old = os.open(name, DIRECTORY_FLAGS, dir_fd=source)
    try:
        new = os.open(new_name, DIRECTORY_FLAGS, dir_fd=target)
        try:
            for each in os.listdir(old):
                _copy(old, each, new, each, os.stat(each, dir_fd=old, follow_symlinks=False))
            os.fchmod(new, stat.S_IMODE(os.fstat(old).st_mode))
        finally:
            os.close(new)
    finally:
        os.close(old)


def _copy_file(source, name, target, new_name):
    old = os.open(name, os.O_RDONLY | FILE_FLAGS, dir_fd=source)
    try:
        new = os.open(new_name, NEW_FILE, 0o600, dir_fd=target)
        try:
            while piece := os.read(old, COPY_BYTES):
                view = memoryview(piece)
                while view:
                    view = view[os.write(new, view) :]
            os.fchmod(new, stat.S_IMODE(os.fstat(old).st_mode))
            os.fsync(new)
        finally:
            os.close(new)
    finally:
        os.close(old)


def remove(directory, name):
    """Remove a name and all that is below it; what is gone already is no matter."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=directory)
        return
    below = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
    try:
        for each in os.listdir(below):
            remove(below, each)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=directory)
