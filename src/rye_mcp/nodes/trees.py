"""The files of a project on their way to a node, as blobs by their SHA-256, and there.

A server lists them with a call; the worker asks for the blobs that it does not keep yet. The list and each
blob are checked: nothing of them leads out of the directory that they are written to.

>>> [each.relative for each in read_list(list_of(ProjectTree((TreeFile("a/b", b"x", False),))))]
['a/b']
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, Final

import anyio
import msgspec

from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.workspace import MAX_FILES, MAX_TREE_BYTES, ProjectTree, TreeFile, is_inside

__all__ = [
    "MAX_KEPT_BYTES",
    "Arriving",
    "Blobs",
    "Listed",
    "list_of",
    "pieces_of",
    "read_list",
    "split",
    "write_tree",
]

MAX_KEPT_BYTES: Final = 256 << 20
"""How many bytes of blobs a worker keeps for its next calls."""

MAX_LIST_BYTES: Final = 16 << 20

_PIECE_BYTES: Final = 256 << 10
_MAX_DIGITS: Final = 8
"""How many bytes a number of a file takes at most in what a worker wants."""

_FILE: Final = 0o600
_EXECUTABLE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Listed:
    """One file of a list."""

    relative: str
    size: int
    digest: str
    executable: bool


def list_of(tree: ProjectTree) -> bytes:
    """The list of the files of a tree."""
    return msgspec.json.encode(
        [(each.relative, len(each.content), each.digest, each.executable) for each in tree.files]
    )


def read_list(data: bytes) -> tuple[Listed, ...]:
    """The files that a server lists; RyeError `node_refused` for a list that it would not have made."""
    try:
        rows = msgspec.json.decode(data, type=list[tuple[str, int, str, bool]])
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise _refused("a path, a size, a SHA256 and a flag for each file") from exc
    if len(rows) > MAX_FILES or sum(max(row[1], 0) for row in rows) > MAX_TREE_BYTES:
        raise _refused(f"at most {MAX_FILES} files and {MAX_TREE_BYTES} bytes")
    for relative, size, digest, _ in rows:
        if not is_inside(relative) or size < 0 or len(digest) != 64:
            raise _refused("paths of files below the project")
    found = tuple(Listed(*row) for row in rows)
    ways = sorted(each.relative.split("/") for each in found)
    if any(one == other[: len(one)] for one, other in pairwise(ways)):
        raise _refused("each file once, and none that is a directory, too")
    return found


def _refused(expected: str) -> RyeError:
    return RyeError("node_refused", f"expected a list with {expected}, found another one")


def pieces_of(files: Sequence[TreeFile], wanted: Any) -> Iterator[bytes]:
    """What a worker wants of the files, by their numbers, in pieces; RyeError `lost` for other numbers."""
    try:
        if len(wanted) > _MAX_DIGITS * len(files) + _MAX_DIGITS:
            raise ValueError
        numbers = msgspec.json.decode(wanted, type=list[int])
    except (msgspec.DecodeError, ValueError) as exc:
        raise RyeError("lost", "expected numbers of files of the list, found something else") from exc
    if len({*numbers}) != len(numbers) or not all(0 <= each < len(files) for each in numbers):
        raise RyeError("lost", "expected numbers of files of the list, each once, found others")
    piece = bytearray()
    for number in numbers:
        content = memoryview(files[number].content)
        while content:
            room = _PIECE_BYTES - len(piece)
            piece += content[:room]
            content = content[room:]
            if len(piece) == _PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
    if piece:
        yield bytes(piece)


class Arriving:
    """What arrives of the files of one call: their list, then the blobs that were asked for."""

    def __init__(self) -> None:
        self.list = b""
        self._listed = anyio.Event()
        self._filled = anyio.Event()
        self._expected = 0
        self._blobs = bytearray()

    def hear_list(self, data: bytes) -> None:
        """Take the list; RyeError `lost` for a second one, or one that is too long."""
        if self._listed.is_set() or len(data) > MAX_LIST_BYTES:
            raise RyeError("lost", "expected one list of files, found another one")
        self.list = data
        self._listed.set()

    def hear_blobs(self, data: bytes) -> None:
        """Take a piece of the blobs; RyeError `lost` for more than was asked for."""
        self._blobs += data
        if len(self._blobs) > self._expected:
            raise RyeError("lost", "expected as many bytes of files as were asked for, found more")
        if len(self._blobs) == self._expected:
            self._filled.set()

    async def listed(self) -> bytes:
        """The list, once it is there."""
        await self._listed.wait()
        return self.list

    def expect(self, size: int) -> None:
        """Take note of how many bytes are asked for."""
        self._expected = size
        if not size:
            self._filled.set()

    async def filled(self) -> bytes:
        """All of them, once they are there."""
        await self._filled.wait()
        found, self._blobs = bytes(self._blobs), bytearray()
        return found


class Blobs:
    """The blobs that a worker keeps, in a private directory; the one that was used longest ago goes first.

    A tool of the same user that nothing confines can write there, so each blob is compared with its digest.
    """

    def __init__(self, directory: Path, *, limit: int = MAX_KEPT_BYTES) -> None:
        self._directory = directory
        self._limit = limit
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def known(self, listed: Sequence[Listed]) -> dict[str, bytes]:
        """Those of these files that are kept, by their digests."""
        with self._lock:
            digests = {each.digest for each in listed if each.digest in self._sizes}
            found = {digest: self._read(digest) for digest in digests}
        return {digest: content for digest, content in found.items() if content is not None}

    def keep(self, blobs: Mapping[str, bytes]) -> None:
        """Keep blobs, as far as there is room for them: no call depends on it."""
        with self._lock:
            for digest, content in blobs.items():
                if not self._write(digest, content):
                    break
                self._sizes[digest] = len(content)
            while sum(self._sizes.values()) > self._limit:
                oldest, _ = self._sizes.popitem(last=False)
                self._forget(oldest)

    def _write(self, digest: str, content: bytes) -> bool:
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            (self._directory / digest).write_bytes(content)
        except OSError:  # a full disk, or a tool that has put something there
            self._forget(digest)
            return False
        return True

    def _forget(self, digest: str) -> None:
        with suppress(OSError):  # it goes with the worker
            (self._directory / digest).unlink()

    def _read(self, digest: str) -> bytes | None:
        try:
            content = (self._directory / digest).read_bytes()
        except OSError:
            content = None
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            del self._sizes[digest]
            return None
        self._sizes.move_to_end(digest)
        return content


def split(data: bytes, wanted: Sequence[Listed]) -> dict[str, bytes]:
    """The blobs that have arrived, by their digests; RyeError `content_changed` for one that is another."""
    found, at = {}, 0
    for each in wanted:
        content = data[at : at + each.size]
        at += each.size
        if hashlib.sha256(content).hexdigest() != each.digest:
            what = f"expected {each.relative!a} of the project as it was listed, found other bytes"
            raise RyeError("content_changed", what)
        found[each.digest] = content
    return found


def write_tree(directory: Path, listed: Sequence[Listed], blobs: Mapping[str, bytes]) -> None:
    """Write the files into an empty private directory; RyeError `write_failed`.

    None is larger than it is listed: all of them together take no more room than a list may say.
    """
    try:
        for each in listed:
            if len(blobs[each.digest]) != each.size:
                what = f"expected {each.size} bytes in {each.relative!a} of the project, found another size"
                raise RyeError("content_changed", what)
            path = directory / each.relative
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, _trees.NEW_FILE, _EXECUTABLE if each.executable else _FILE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(blobs[each.digest])
    except OSError as exc:
        what = f"expected room on the node for the files of the project, found: {exc.strerror}"
        raise RyeError("write_failed", what) from exc
