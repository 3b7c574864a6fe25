"""Whether git tracks a path: read from the index of every repository around it, without running git.

None if nobody can tell: an index that is split, damaged or too large, or another version control. The rules
are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, Final

from lilux import _files
from lilux._dataclasses import dataclass
from lilux._stamps import Stamp, settled, stamp_of

__all__ = [
    "MAX_INDEX_BYTES",
    "GitIndexes",
    "UnreadableIndexError",
    "index_tracks",
    "names_in",
    "submodules_of",
]

MAX_INDEX_BYTES: Final = 128 << 20
"""How large an index may be: 128 MiB."""

_MAX_NAME: Final = 4096
_MAX_NAMES: Final = MAX_INDEX_BYTES
"""How many bytes a name may have, and all names of an index: each may repeat most of the one before for free.

No path is longer, and an index in which nothing is repeated has room for no more.
"""

_MAX_KEPT = 256
_MAX_LINK_BYTES = 4096
_GITDIR = b"gitdir: "
_OTHERS: Final = (".hg", ".svn", ".jj", ".bzr", "_darcs", ".fslckout", "_FOSSIL_", ".pijul")
"""Directories of other version controls."""

_HEADER: Final = struct.Struct(">4sLL")
_STAT: Final = 40
_MODE: Final = struct.Struct(">24xL12x")
_FLAGS: Final = struct.Struct(">H")
_EXTENSION: Final = struct.Struct(">4sL")
_VERSIONS: Final = (2, 3, 4)
_COMPRESSED: Final = 4
_EXTENDED: Final = 0x4000
_KINDS, _FILE, _LINK, _SPARSE = 0o170000, 0o100000, 0o120000, 0o040000
_SUBMODULE: Final = 0o160000
_WHOLE_SUBMODULE: Final = _SUBMODULE.to_bytes(4, "big")
_SPLIT: Final = b"link"
_DIGESTS: Final = (20, 32)
"""How long the digests of a repository are: SHA1, or SHA256."""


class UnreadableIndexError(ValueError):
    """An index that does not say what is tracked."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """One directory, and the index of its repository, if it has one."""

    stamp: Stamp | None
    index: str | None
    is_unknown: bool


class GitIndexes:
    """Answers about paths, kept while nothing changes."""

    def __init__(self) -> None:
        self._directories: dict[str, _Directory] = {}
        self._answers: dict[tuple[str, Path], tuple[Stamp | None, bool | None]] = {}
        self._parents: dict[Path, tuple[str, ...]] = {}

    def tracks(self, path: Path) -> bool | None:
        """Whether a repository tracks a path, which is absolute and plain; None when that cannot be told."""
        answer: bool | None = False
        for parent in self._parents_of(path):
            directory = self._directory(parent)
            if directory.index is not None:
                said = self._ask(directory.index, path, parent)
                if said:
                    return True
                answer = None if said is None else answer
            answer = None if directory.is_unknown else answer
        return answer

    def _parents_of(self, path: Path) -> tuple[str, ...]:
        parents = self._parents.get(path)
        if parents is None:
            _make_room(self._parents)
            parents = self._parents[path] = tuple(map(str, path.parents))
        return parents

    def _directory(self, path: str) -> _Directory:
        stamp = stamp_of(path)
        kept = self._directories.get(path)
        if kept is None or kept.stamp is None or kept.stamp != stamp:
            _make_room(self._directories)
            kept = self._directories[path] = _looked_at(path, settled(stamp))
        return kept

    def _ask(self, index: str, path: Path, root: str) -> bool | None:
        stamp = stamp_of(index)
        kept = self._answers.get((index, path))
        if kept is None or kept[0] is None or kept[0] != stamp:
            _make_room(self._answers)
            kept = self._answers[index, path] = (settled(stamp), _asked(Path(index), path, Path(root)))
        return kept[1]


def index_tracks(data: bytes, path: bytes) -> bool:
    """Whether the bytes of an index have a path in them; UnreadableIndexError when they do not say."""
    wanted = path.lower()
    for kind, raw in _entries(data):
        name = raw.lower()
        if name == wanted or name.startswith(wanted + b"/"):
            return True
        if kind == _LINK and wanted.startswith(name + b"/"):
            return True
        if kind == _SPARSE and wanted.startswith(name):
            raise UnreadableIndexError("expected every file in the index, found a sparse directory")
    return False


def submodules_of(data: bytes) -> list[bytes]:
    """The paths of the submodules in the bytes of an index; UnreadableIndexError when they do not say."""
    if _WHOLE_SUBMODULE not in data and _SPLIT not in data:
        return []
    return [name for kind, name in _entries(data) if kind == _SUBMODULE]


def names_in(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The paths of the files in the bytes of an index, and those of links and submodules.

    UnreadableIndexError when they do not say.
    """
    files: list[bytes] = []
    others: list[bytes] = []
    for kind, name in _entries(data):
        if kind == _SPARSE:
            raise UnreadableIndexError("expected every file in the index, found a sparse directory")
        (files if kind == _FILE else others).append(name)
    return files, others


# --- directories ---


def _looked_at(directory: str, stamp: Stamp | None) -> _Directory:
    git = f"{directory}/.git"
    unknown = any(os.path.lexists(f"{directory}/{name}") for name in _OTHERS)
    if not os.path.lexists(git):
        return _Directory(stamp, None, unknown)
    if os.path.isdir(git):  # noqa: PTH112 - never raises
        return _Directory(stamp, f"{git}/index", unknown)
    try:
        line = _files.read_capped(Path(git), _MAX_LINK_BYTES).removesuffix(b"\n")
    except (OSError, ValueError):
        return _Directory(stamp, None, is_unknown=True)
    if not line.startswith(_GITDIR) or b"\n" in line or b"\0" in line:
        return _Directory(stamp, None, is_unknown=True)
    administration = os.path.join(directory, os.fsdecode(line.removeprefix(_GITDIR)))  # noqa: PTH118
    return _Directory(stamp, f"{administration}/index", unknown)


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MAX_KEPT:
        kept.clear()


def _asked(index: Path, path: Path, root: Path) -> bool | None:
    try:
        data = _files.read_capped(index, MAX_INDEX_BYTES)
    except FileNotFoundError:  # a repository in which nothing was ever added
        return False if index.parent.is_dir() else None
    except (OSError, ValueError):
        return None
    try:
        return index_tracks(data, os.fsencode(path.relative_to(root)))
    except UnreadableIndexError:
        return None


# --- bytes ---


def _entries(data: bytes) -> list[tuple[int, bytes]]:
    """The kind and path of each entry, by the digests under which everything ends where the index does."""
    if len(data) < _HEADER.size:
        raise UnreadableIndexError("expected an index, found less than its header")
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in _VERSIONS:
        raise UnreadableIndexError("expected an index of version 2, 3 or 4, found something else")
    for digest in _DIGESTS:
        try:
            entries, end = _read(data, version, count, digest)
            extensions = _extensions(data, end, len(data) - digest)
        except (struct.error, IndexError, ValueError):
            continue
        if _SPLIT in extensions:
            raise UnreadableIndexError("expected a whole index, found one that is split")
        return entries
    raise UnreadableIndexError("expected an index whose entries fit, found something else")


def _read(data: bytes, version: int, count: int, digest: int) -> tuple[list[tuple[int, bytes]], int]:
    entries: list[tuple[int, bytes]] = []
    position, name, total = _HEADER.size, b"", 0
    for _ in range(count):
        start = position
        (mode,) = _MODE.unpack_from(data, position)
        position += _STAT + digest
        (flags,) = _FLAGS.unpack_from(data, position)
        position += 4 if flags & _EXTENDED else 2
        if version == _COMPRESSED:
            dropped, position = _number(data, position)
            if dropped > len(name):
                raise ValueError("a name that is shorter than nothing")
            kept = name[: len(name) - dropped]
        else:
            kept = b""
        end = data.index(b"\0", position)
        total += len(kept) + end - position
        if len(kept) + end - position > _MAX_NAME or total > _MAX_NAMES:
            raise ValueError("names that are longer than paths can be")
        name = kept + data[position:end]
        position = end + 1 if version == _COMPRESSED else start + ((end - start) // 8 + 1) * 8
        entries.append((mode & _KINDS, name))
    return entries, position


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and what follows it."""
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 0x7F)
        if value > _MAX_NAME:
            raise ValueError("a number that is larger than a name is long")
    return value, position + 1


def _extensions(data: bytes, position: int, end: int) -> list[bytes]:
    names = []
    while position < end:
        name, size = _EXTENSION.unpack_from(data, position)
        names.append(name)
        position += _EXTENSION.size + size
    if position != end:
        raise ValueError("extensions that do not fit")
    return names
