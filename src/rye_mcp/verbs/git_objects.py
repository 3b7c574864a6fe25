"""Files as the last commits have them: read from a repository's objects, without running git.

Rules:

- No git is run: a repository's configuration can make git run programs, and a partial clone makes even
  `git cat-file` fetch. Loose objects and packs (index version 2) are read as bytes.
- Every repository around the directory is asked, from the directory up, through worktrees and alternates. Its
  submodules count as directories of it, as the commit says that they are. Above the project, one to which
  another user can write (`/tmp/.git`) says nothing.
- Besides the last commit, those before it are read up to one that the caller knows, by their first parents.
- All of it is written by others: every size, depth and count is limited, and the bytes that are unpacked and
  put together for one answer have a limit together. Only regular files are opened.
- What cannot be read is left out, without an error: this only ever adds to what else is known. The caller is
  told where a limit is the reason.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.items import MAX_ITEM_BYTES
from rye_mcp.other_users import why_others_write

__all__ = ["LastCommit", "last_commits"]

_MAX_OBJECT_BYTES: Final = 8 << 20
_MAX_SMALL_BYTES: Final = 4096
_MAX_REFS_BYTES: Final = 16 << 20
_MAX_COMMITS: Final = 500
_MAX_ENTRIES: Final = 100_000
_MAX_WANTED_BYTES: Final = 64 << 20
_MAX_WORK_BYTES: Final = 512 << 20
_LOOKUP_BYTES: Final = 4096
_MAX_DIRECTORIES: Final = 4_000
_MAX_DEPTH: Final = 16
_MAX_DELTAS: Final = 100
_MAX_PACKS: Final = 200
_MAX_PLACES: Final = 12
_MAX_NAMES_OF_NAMES: Final = 5
_CHUNK: Final = 64 << 10

_ID: Final = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_REF: Final = re.compile(rb"ref: (refs/[^\0-\x20\x7f~^:?*\[\\]{1,1000})")
_PARENT: Final = re.compile(rb"tree [0-9a-f]{40,64}\nparent ([0-9a-f]{40}(?:[0-9a-f]{24})?)\n")
_GITDIR: Final = b"gitdir: "
_NAME: Final = re.compile(rb"(\d{5,6}) ([^/\0]{1,4096})\0")
_DIRECTORY, _FILE, _SUBMODULE = re.compile(rb"0?40000"), re.compile(rb"100[0-7]{3}"), b"160000"
_NO_NAMES: Final = (b".", b"..")
_MAGIC: Final = b"\xfftOc\0\0\0\x02"
_FANOUT: Final = 8
_NAMES: Final = _FANOUT + 256 * 4
_COMMIT, _TREE, _BLOB, _BY_OFFSET, _BY_NAME = 1, 2, 3, 6, 7
_KINDS: Final = {b"commit": _COMMIT, b"tree": _TREE, b"blob": _BLOB}

Places = tuple[str, ...]
"""Directories that objects are looked for in: those of the repository, and of its alternates."""


class _UnreadableError(ValueError):
    """A repository that cannot be read."""


class _LimitError(_UnreadableError):
    """A repository that could be read with more work than is allowed."""


class _TooLargeError(_LimitError):
    """An object that is larger than what was looked for can be."""


@dataclass(slots=True)
class _Objects:
    """The objects of a repository, and how many bytes may still be unpacked and put together to read them."""

    places: Places
    left: int = _MAX_WORK_BYTES

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _LimitError("expected objects that are read with less work")


_CANNOT: Final = (OSError, ValueError, zlib.error, struct.error, IndexError, RecursionError)


def last_commits(project: Path, below: str) -> Iterator[LastCommit]:
    """The last commit of each repository around a project, to read a directory of the project in it."""
    real = Path(os.path.realpath(project))
    directory = real / below
    for root in (directory, *directory.parents):
        own = root / ".git"
        if os.path.lexists(own) and (root.is_relative_to(real) or why_others_write(str(own)) is None):
            with suppress(*_CANNOT):
                repository = _Repository.at(root)
                inside = directory.relative_to(root).parts
                yield LastCommit(repository.head().decode(), inside, repository.objects, directory)


@contextmanager
def _told(on_limit: Callable[[], object]) -> Iterator[None]:
    """Leave out what cannot be read, and tell of a limit."""
    try:
        yield
    except _LimitError:
        on_limit()
    except _CANNOT:
        return


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last commit of a repository, by its name, and the directory in it that is looked at.

    `directory` is where that is in the working tree.
    """

    name: str
    inside: tuple[str, ...]
    places: Places
    directory: Path

    def files(
        self,
        wanted: Callable[[str], bool],
        known: Container[str] = (),
        on_limit: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[str, bytes]]:
        """The wanted files below the directory, by their paths from there: all, or those that are not in a
        known commit before it. Then it is also those of the commits between the two.

        `on_limit` is told when there may be more, which the limits did not let be read.
        """
        objects = _Objects(self.places)
        room, walk = _MAX_WANTED_BYTES, _Walk(objects, self.directory)
        before, commits = self._since(known, objects)
        if before is not None:
            with suppress(*_CANNOT):
                for _ in walk.new_files(before, self.inside):
                    pass
        for commit in commits:
            with _told(on_limit):
                for path, name in walk.new_files(commit, self.inside):
                    if not wanted(path):
                        continue
                    if room < 0:
                        raise _LimitError("expected fewer bytes of files")
                    with _told(on_limit), suppress(_TooLargeError):  # no item is that large
                        content = _read(objects, name, _BLOB, MAX_ITEM_BYTES)
                        room -= len(content)
                        yield path, content

    def _since(self, known: Container[str], objects: _Objects) -> tuple[str | None, list[str]]:
        """The nearest known commit and those after it, the last first; the last alone where none is near."""
        commits = [self.name]
        with suppress(*_CANNOT):
            while len(commits) <= _MAX_COMMITS:
                head = _read(objects, commits[-1], _COMMIT, _MAX_OBJECT_BYTES)
                parent = _PARENT.match(head)
                if parent is None:
                    break
                if (name := parent[1].decode()) in known:
                    return name, commits
                commits.append(name)
        return None, [self.name]


# --- the repository ---


@dataclass(frozen=True, slots=True)
class _Repository:
    """Where the parts of a repository are; those of a worktree are in two places."""

    own: Path
    common: Path
    objects: Places

    @classmethod
    def at(cls, root: Path) -> _Repository:
        """That of a working tree."""
        own = root / ".git"
        if own.is_file():
            link = _small(own).removesuffix(b"\n")
            if not link.startswith(_GITDIR):
                raise _UnreadableError("expected a link to a repository, found something else")
            own = root / os.fsdecode(link.removeprefix(_GITDIR))
        common = own
        if (own / "commondir").is_file():
            common = own / os.fsdecode(_small(own / "commondir").removesuffix(b"\n"))
        return cls(own, common, _places(common / "objects"))

    def head(self) -> bytes:
        """The id of the last commit."""
        line = _small(self.own / "HEAD").strip()
        for _ in range(_MAX_NAMES_OF_NAMES):
            if (found := _REF.fullmatch(line)) is not None:
                line = self._resolved(found[1])
        if not _ID.fullmatch(line):
            raise _UnreadableError("expected a commit, found none")
        return line

    def _resolved(self, ref: bytes) -> bytes:
        if b".." in ref:
            raise _UnreadableError("expected the name of a branch, found something else")
        for directory in (self.own, self.common):
            with suppress(OSError):
                return _small(directory / os.fsdecode(ref)).strip()
        packed = b"\n" + _whole(self.common / "packed-refs", _MAX_REFS_BYTES) + b"\n"
        found = packed.find(b" " + ref + b"\n")
        return packed[packed.rfind(b"\n", 0, found + 1) + 1 : max(found, 0)]


def _places(objects: Path) -> Places:
    """A directory of objects, and its alternates, each of which may have some of its own."""
    places = [objects]
    for place in places:
        with suppress(*_CANNOT):
            lines = _small(place / "info/alternates").split(b"\n")
            others = (place / os.fsdecode(line) for line in lines if line and not line.startswith(b"#"))
            places += islice((each for each in others if each not in places), _MAX_PLACES - len(places))
    return tuple(map(str, places))


@dataclass(slots=True)
class _Walk:
    """A walk through several commits, which lists each file and directory once, within one set of limits."""

    objects: _Objects
    directory: Path
    seen: set[tuple[str, str]] = field(default_factory=set)
    entries: int = 0
    directories: int = 0

    def new_files(self, commit: str, inside: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Each file below a directory that was not listed yet, with the id of its content."""
        tree = self._tree_of(commit)
        for part in inside:
            listed = _entries(self.objects, tree)
            entries = {name: entry for mode, name, entry in listed if _DIRECTORY.fullmatch(mode)}
            if os.fsencode(part) not in entries:
                return
            tree = entries[os.fsencode(part)]
        yield from self._below(tree)

    def _below(self, tree: str) -> Iterator[tuple[str, str]]:
        directories = [("", tree, 0)]
        while directories:
            above, tree, depth = directories.pop()
            if (above, tree) in self.seen:
                continue
            self.seen.add((above, tree))
            self._count(directories=1)
            for mode, name, entry in _entries(self.objects, tree):
                path = above + os.fsdecode(name)
                self._count(entries=1)
                if _DIRECTORY.fullmatch(mode) and depth < _MAX_DEPTH:
                    directories.append((f"{path}/", entry, depth + 1))
                elif mode == _SUBMODULE and depth < _MAX_DEPTH and name not in _NO_NAMES:
                    directories += [(f"{path}/", each, depth + 1) for each in self._trees_of(path, entry)]
                elif _FILE.fullmatch(mode) and (path, entry) not in self.seen:
                    self.seen.add((path, entry))
                    yield path, entry

    def _tree_of(self, commit: str) -> str:
        head = _read(self.objects, commit, _COMMIT, _MAX_OBJECT_BYTES)
        line = head.partition(b"\n")[0].removeprefix(b"tree ")
        if not _ID.fullmatch(line):
            raise _UnreadableError("expected the tree of a commit, found none")
        return line.decode()

    def _trees_of(self, path: str, pinned: str) -> Iterator[str]:
        """The tree of the commit that a submodule is pinned to, if the submodule is there."""
        with suppress(*_CANNOT):
            places = self.objects.places
            others = [each for each in _Repository.at(self.directory / path).objects if each not in places]
            self.objects.places += tuple(others)[: _MAX_PLACES - len(places)]
            yield self._tree_of(pinned)

    def _count(self, *, directories: int = 0, entries: int = 0) -> None:
        self.directories += directories
        self.entries += entries
        if self.directories > _MAX_DIRECTORIES or self.entries > _MAX_ENTRIES:
            raise _LimitError("expected fewer files")


def _entries(objects: _Objects, tree: str) -> Iterator[tuple[bytes, bytes, str]]:
    """The entries of a directory: mode, name, and the id of what is there."""
    data = _read(objects, tree, _TREE, _MAX_OBJECT_BYTES)
    length, position = len(tree) // 2, 0
    while position < len(data):
        found = _NAME.match(data, position)
        if found is None or len(data) < found.end() + length:
            raise _UnreadableError("expected the entries of a directory, found something else")
        position = found.end() + length
        yield found[1], found[2], data[found.end() : position].hex()


# --- objects ---


def _read(objects: _Objects, name: str, kind: int, limit: int) -> bytes:
    """The bytes of an object of this kind."""
    found, data = _object(objects, name, limit, 0)
    if found != kind:
        raise _UnreadableError("expected another kind of object")
    return data


def _object(objects: _Objects, name: str, limit: int, deltas: int) -> tuple[int, bytes]:
    for place in objects.places:
        with suppress(FileNotFoundError):
            return _loose(objects, Path(place, name[:2], name[2:]), limit)
    for place in objects.places:
        for index in _indexes(place):
            objects.spend(_LOOKUP_BYTES)
            with suppress(FileNotFoundError), _opened(Path(index)) as descriptor:
                offset = _offset(descriptor, bytes.fromhex(name))
                if offset is not None:
                    return _packed(objects, f"{index[:-4]}.pack", offset, limit, deltas, len(name) // 2)
    raise _UnreadableError("expected an object, found none")


def _indexes(place: str) -> list[str]:
    with suppress(OSError):
        names = [name for name in os.listdir(f"{place}/pack") if name.endswith(".idx")]  # noqa: PTH208
        return [f"{place}/pack/{name}" for name in sorted(names)[:_MAX_PACKS]]
    return []


def _loose(objects: _Objects, path: Path, limit: int) -> tuple[int, bytes]:
    with _opened(path) as descriptor:
        data = _inflated(objects, descriptor, 0, limit + 64)
    header, _, content = data.partition(b"\0")
    kind, _, size = header.partition(b" ")
    if kind not in _KINDS or size != str(len(content)).encode():
        raise _UnreadableError("expected an object, found something else")
    return _KINDS[kind], content


def _packed(
    objects: _Objects, pack: str, offset: int, limit: int, deltas: int, length: int
) -> tuple[int, bytes]:
    """An entry of a pack, with what it differs from if it is a difference. Ids have this length."""
    if deltas > _MAX_DELTAS:
        raise _LimitError("expected fewer differences on top of each other")
    with _opened(Path(pack)) as descriptor:
        head = os.pread(descriptor, 128, offset)
        kind, position = (head[0] >> 4) & 7, 1
        while head[position - 1] & 0x80:
            position += 1
        if kind in _KINDS.values():
            return kind, _inflated(objects, descriptor, offset + position, limit)
        base = offset
        if kind == _BY_OFFSET:
            back, position = _distance(head, position)
            base -= back
            if not 0 < base < offset:
                raise _UnreadableError("expected a difference from what is before it")
            change = _inflated(objects, descriptor, offset + position, limit)
            found, data = _packed(objects, pack, base, _MAX_OBJECT_BYTES, deltas + 1, length)
        elif kind == _BY_NAME:
            name = head[position : position + length].hex()
            change = _inflated(objects, descriptor, offset + position + length, limit)
            found, data = _object(objects, name, _MAX_OBJECT_BYTES, deltas + 1)
        else:
            raise _UnreadableError("expected a commit, a tree or a file")
    return found, _changed(objects, data, change, limit)


def _offset(descriptor: int, name: bytes) -> int | None:
    """Where in its pack an object is, by the index of the pack."""
    if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
        raise _UnreadableError("expected an index of version 2")
    total = _number(descriptor, _FANOUT + 255 * 4)
    low = 0 if name[0] == 0 else _number(descriptor, _FANOUT + (name[0] - 1) * 4)
    high = _number(descriptor, _FANOUT + name[0] * 4)
    while low < high:
        middle = (low + high) // 2
        found = os.pread(descriptor, len(name), _NAMES + middle * len(name))
        if found == name:
            after = _NAMES + total * (len(name) + 4)
            offset = _number(descriptor, after + middle * 4)
            if not offset & 0x80000000:
                return offset
            wide = after + total * 4 + (offset & 0x7FFFFFFF) * 8
            return int(struct.unpack(">Q", os.pread(descriptor, 8, wide))[0])
        low, high = (middle + 1, high) if found < name else (low, middle)
    return None


def _number(descriptor: int, position: int) -> int:
    return int(struct.unpack(">L", os.pread(descriptor, 4, position))[0])


def _distance(data: bytes, position: int) -> tuple[int, int]:
    value = data[position] & 0x7F
    while data[position] & 0x80:
        position += 1
        value = ((value + 1) << 7) | (data[position] & 0x7F)
    return value, position + 1


def _size(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position


def _changed(objects: _Objects, base: bytes, change: bytes, limit: int) -> bytes:
    """Apply a delta to its base."""
    before, position = _size(change, 0)
    size, position = _size(change, position)
    if size > limit:
        raise _TooLargeError("expected a smaller object")
    if before != len(base):
        raise _UnreadableError("expected a difference that fits")
    objects.spend(size)
    parts = bytearray()
    while position < len(change) and len(parts) <= size:
        order = change[position]
        position += 1
        if order & 0x80:
            values = []
            for bit in range(7):
                is_there = bool(order & (1 << bit))
                values.append(change[position] if is_there else 0)
                position += is_there
            start = int.from_bytes(bytes(values[:4]), "little")
            count = int.from_bytes(bytes(values[4:]), "little") or 0x10000
            parts += base[start : start + count]
        else:
            parts += change[position : position + order]
            position += order
    if len(parts) != size:
        raise _UnreadableError("expected a difference that fits")
    return bytes(parts)


# --- files ---


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A regular file; opening anything else does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _UnreadableError("expected a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _whole(path: Path, limit: int) -> bytes:
    with _opened(path) as descriptor:
        data = os.pread(descriptor, limit + 1, 0)
    if len(data) > limit:
        raise _UnreadableError("expected a shorter file")
    return data


def _small(path: Path) -> bytes:
    return _whole(path, _MAX_SMALL_BYTES)


def _inflated(objects: _Objects, descriptor: int, position: int, limit: int) -> bytes:
    """Unpack the data at this position; never more than the limit, whatever size it claims."""
    stream, parts, size = zlib.decompressobj(), [], 0
    while not stream.eof:
        data = stream.unconsumed_tail
        if not data:
            data = os.pread(descriptor, _CHUNK, position)
            position += len(data)
        if not data:
            raise _UnreadableError("expected the end of an object, found that of the file")
        part = stream.decompress(data, limit + 1 - size)
        parts.append(part)
        size += len(part)
        objects.spend(len(part))
        if size > limit:
            raise _TooLargeError("expected a smaller object")
    return b"".join(parts)
