"""A file system of a program, as sshfs is one: it shows a directory at another place.

    python fuse_file_system.py DEVICE DIRECTORY MOUNT_POINT [alike]

The time of the last change is that of the last writing, which programs can set, as in protocols without it.
With "alike", names that differ in case alone are one name, as on drives of Windows.
It answers one request at a time, says "ready" when it can, and ends when it is no longer mounted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

MAX_WRITE: Final = 1 << 17
_HEADER: Final = struct.Struct("<IIQQIIIHH")
_ATTRIBUTES: Final = struct.Struct("<6Q10I")
_ENTRY: Final = struct.Struct("<4Q2I")
_SETATTR: Final = struct.Struct("<2I6Q8I")
_READ: Final = struct.Struct("<QQIIQII")
_MODE, _OWNER, _GROUP, _SIZE, _MTIME, _MTIME_NOW = 1, 2, 4, 8, 32, 256
_NO_ANSWER: Final = (2, 36, 42)


class FileSystem:
    """The answers to the requests of the kernel; an OSError is an answer too."""

    are_cases_alike = False

    def __init__(self, directory: Path) -> None:
        self.paths = {1: directory}
        self.numbers = {directory: 1}
        self.last = 1

    def answer(self, code: int, node: int, body: bytes) -> bytes:
        """The answer to a request about a node."""
        handler = _HANDLERS.get(code)
        if handler is None:
            raise OSError(errno.ENOSYS, "unknown")
        return handler(self, self.paths.get(node, Path()), body)

    def initialize(self, _: Path, body: bytes) -> bytes:
        ahead = struct.unpack_from("<3I", body)[2]
        return struct.pack("<4I2H2I2HI7I", 7, 31, ahead, 0, 0, 0, MAX_WRITE, 1, 0, 0, 0, *[0] * 7)

    def attributes(self, path: Path) -> bytes:
        found = path.lstat()
        (seconds, rest), number = divmod(found.st_mtime_ns, 10**9), self.numbers[path]
        times = (int(found.st_atime), seconds, seconds, 0, rest, rest)
        of_file = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_rdev, 4096, 0)
        return _ATTRIBUTES.pack(number, found.st_size, found.st_blocks, *times, *of_file)

    def entry(self, path: Path) -> bytes:
        path.lstat()
        if path not in self.numbers:
            self.last += 1
            self.numbers[path], self.paths[self.last] = self.last, path
        return _ENTRY.pack(self.numbers[path], 0, 0, 0, 0, 0) + self.attributes(path)

    def look_up(self, path: Path, body: bytes) -> bytes:
        return self.entry(_named(path, body))

    def get_attributes(self, path: Path, _: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self.attributes(path)

    def set_attributes(self, path: Path, body: bytes) -> bytes:
        wanted = _SETATTR.unpack_from(body)
        valid, size, mtime, mtime_rest = wanted[0], wanted[3], wanted[6], wanted[9]
        if valid & _MODE:
            path.chmod(stat.S_IMODE(wanted[11]))
        if valid & (_OWNER | _GROUP):
            os.lchown(path, *(wanted[at] if valid & bit else -1 for at, bit in ((13, _OWNER), (14, _GROUP))))
        if valid & _SIZE:
            os.truncate(path, size)
        if valid & _MTIME and not valid & _MTIME_NOW:
            at = mtime * 10**9 + mtime_rest
            os.utime(path, ns=(at, at), follow_symlinks=False)
        return self.get_attributes(path, b"")

    def make(self, path: Path, body: bytes) -> bytes:
        mode, _, umask = struct.unpack_from("<3I", body)
        path = _named(path, body[16:])
        os.mknod(path, mode & ~umask)
        return self.entry(path)

    def make_directory(self, path: Path, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<2I", body)
        path = _named(path, body[8:])
        path.mkdir(mode & ~umask)
        return self.entry(path)

    def make_link(self, path: Path, body: bytes) -> bytes:
        name, target = body.split(b"\0")[:2]
        path = _named(path, name)
        path.symlink_to(os.fsdecode(target))
        return self.entry(path)

    def create(self, path: Path, body: bytes) -> bytes:
        _, mode, umask = struct.unpack_from("<3I", body)
        path = _named(path, body[16:])
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode & ~umask))
        return self.entry(path) + _OPENED

    def rename(self, path: Path, body: bytes, *, names_at: int = 8) -> bytes:
        names = body[names_at:].split(b"\0")
        old, new = _named(path, names[0]), _named(self.paths[struct.unpack_from("<Q", body)[0]], names[1])
        old.rename(new)
        for known, number in list(self.numbers.items()):
            if known.is_relative_to(old):
                moved = new / known.relative_to(old)
                self.numbers[moved], self.paths[number] = self.numbers.pop(known), moved
        return b""

    def remove(self, path: Path, body: bytes) -> bytes:
        path = _named(path, body)
        (path.rmdir if stat.S_ISDIR(path.lstat().st_mode) else path.unlink)()
        self.numbers.pop(path, None)
        return b""

    def read(self, path: Path, body: bytes) -> bytes:
        _, offset, size, *_ = _READ.unpack_from(body)
        with path.open("rb") as file:
            return os.pread(file.fileno(), size, offset)

    def write(self, path: Path, body: bytes) -> bytes:
        _, offset, size, *_ = _READ.unpack_from(body)
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), body[_READ.size : _READ.size + size], offset)
        return struct.pack("<II", size, 0)

    def read_directory(self, path: Path, body: bytes) -> bytes:
        _, offset, size, *_ = _READ.unpack_from(body)
        listed = b""
        names = sorted(os.fsencode(each.name) for each in path.iterdir())
        for at, name in list(enumerate(names, 1))[offset:]:
            entry = struct.pack("<QQII", at + 1, at, len(name), 0) + name
            entry += b"\0" * (-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed


def _named(path: Path, body: bytes) -> Path:
    wanted = os.fsdecode(body.split(bytes(1))[0])
    there = path.iterdir() if FileSystem.are_cases_alike else ()
    return next((each for each in there if each.name.lower() == wanted.lower()), path / wanted)


_OPENED: Final = struct.pack("<QII", 0, 0, 0)
_HANDLERS: Final[dict[int, Callable[[FileSystem, Path, bytes], bytes]]] = {
    1: FileSystem.look_up,
    3: FileSystem.get_attributes,
    4: FileSystem.set_attributes,
    5: lambda _, path, body: os.fsencode(path.readlink()),
    6: FileSystem.make_link,
    8: FileSystem.make,
    9: FileSystem.make_directory,
    10: FileSystem.remove,
    11: FileSystem.remove,
    12: FileSystem.rename,
    14: lambda _, path, body: _OPENED,
    15: FileSystem.read,
    16: FileSystem.write,
    17: lambda _, path, body: struct.pack(
        "<5Q10I", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, *[0] * 7
    ),
    18: lambda _, path, body: b"",
    25: lambda _, path, body: b"",
    26: FileSystem.initialize,
    27: lambda _, path, body: _OPENED,
    28: FileSystem.read_directory,
    29: lambda _, path, body: b"",
    35: FileSystem.create,
    45: lambda self, path, body: self.rename(path, body, names_at=16),
}
"""By the number of the request, of version 7 of the protocol."""


def serve(device: int, files: FileSystem) -> None:
    """Answer until nothing is mounted any more."""
    while True:
        try:
            request = os.read(device, MAX_WRITE + 4096)
        except OSError as exc:
            if exc.errno == errno.ENODEV:
                return
            raise
        _, code, unique, node, *_ = _HEADER.unpack_from(request)
        if code in _NO_ANSWER:
            continue
        failed, answer = 0, b""
        try:
            answer = files.answer(code, node, request[_HEADER.size :])
        except OSError as exc:
            failed = exc.errno or errno.EIO
        os.write(device, struct.pack("<IiQ", 16 + len(answer), -failed, unique) + answer)


def main(device: str, directory: str, mount_point: str, cases: str = "") -> None:
    """Mount and serve."""
    FileSystem.are_cases_alike = cases == "alike"
    opened = os.open(device, os.O_RDWR)
    options = f"fd={opened},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"project", os.fsencode(mount_point), b"fuse", 0, f"{options},allow_other".encode()):
        raise OSError(ctypes.get_errno(), f"{mount_point} could not be mounted")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    serve(opened, FileSystem(Path(directory)))


if __name__ == "__main__":
    main(*sys.argv[1:])
