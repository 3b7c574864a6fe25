"""Reads the files beside an item that a tool rests on; most of them are not items.

Links and limits are treated as for items. One directory stays open at a time, so reading many files of one is
cheap.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Final

from lilux._dataclasses import dataclass
from lilux._footprints import note
from rye_mcp.errors import RyeError
from rye_mcp.files import refusal, wrong_kind
from rye_mcp.items import path_below, printable
from rye_mcp.spaces._directories import open_directory, read_with_status

__all__ = ["MAX_LISTED_NAMES", "SourceFile", "SourceName", "SourceTree"]

MAX_LISTED_NAMES: Final = 20_000
"""How many names a listing may come across."""

MAX_DEPTH: Final = 32
"""How many directories deep a listing goes."""

_NOT_LISTED = "__pycache__"


@dataclass(frozen=True, slots=True)
class SourceName:
    """Something in a directory, which nobody has opened yet; `relative` is its path below the root."""

    relative: str
    mode: int

    @property
    def is_regular(self) -> bool:
        """Whether it is a file that can be read; a link is not."""
        return stat.S_ISREG(self.mode)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read: its content, and whether its owner may execute it."""

    path: Path
    content: bytes = field(repr=False)
    executable: bool


class SourceTree:
    """The files below the root of a space, or below another directory; to be used in a `with` block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directory = ""
        self._descriptor: int | None = None

    def __enter__(self) -> SourceTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def read(self, relative: str, *, limit: int) -> SourceFile | None:
        """A file; None if it is missing."""
        directory, _, name = relative.rpartition("/")
        path = path_below(self._root, relative)
        try:
            content, status = read_with_status(self._open(directory), name, path, limit)
        except FileNotFoundError:
            return None
        return SourceFile(path, content, bool(status.st_mode & stat.S_IXUSR))

    def holds(self, relative: str) -> bool:
        """Whether there is a regular file; what else may stand there is no file."""
        directory, _, name = relative.rpartition("/")
        note(lambda: self._root / relative)
        try:
            mode = os.stat(name, dir_fd=self._open(directory), follow_symlinks=False).st_mode
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise refusal(exc, self._root / relative) from exc
        return stat.S_ISREG(mode)

    def list(
        self, directory: str, *, recursive: bool = True, without: Collection[str] = ()
    ) -> list[SourceName]:
        """All that is no directory in a directory, and below it, by path; nothing when it is not there.

        `without` are names of directories that are not entered.
        """
        found: list[SourceName] = []
        waiting = [(directory, 0)]
        while waiting:
            current, depth = waiting.pop()
            for entry in self._entries(current):
                relative = f"{current}/{entry.name}" if current else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    found.append(_named(entry, relative))
                elif recursive and entry.name not in without:
                    waiting.append((relative, depth + 1))
            if len(found) + len(waiting) > MAX_LISTED_NAMES or depth > MAX_DEPTH:
                raise self._too_much(directory)
        return sorted(found, key=lambda each: each.relative)

    def _entries(self, directory: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self._open(directory)) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and entry.name != _NOT_LISTED:
                        yield entry
        except FileNotFoundError:
            return
        except OSError as exc:
            raise refusal(exc, self._root / directory) from exc

    def _open(self, directory: str) -> int:
        if self._descriptor is None or directory != self._directory:
            self._close()
            parts = tuple(filter(None, directory.split("/")))
            self._descriptor, self._directory = open_directory(self._root, parts), directory
        return self._descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _too_much(self, directory: str) -> RyeError:
        shown = printable(self._root / directory)
        what = (
            f"expected at most {MAX_LISTED_NAMES} files, in at most {MAX_DEPTH} directories on top of each "
            f"other, found more: {shown}"
        )
        return RyeError("too_large", what, where=shown)

    def unsafe(self, name: SourceName) -> RyeError:
        """The error for something that stands where a file has to."""
        return wrong_kind("a regular file", name.mode, self._root / name.relative)


def _named(entry: os.DirEntry[str], relative: str) -> SourceName:
    if entry.is_file(follow_symlinks=False):
        return SourceName(relative, stat.S_IFREG)
    return SourceName(relative, entry.stat(follow_symlinks=False).st_mode)
