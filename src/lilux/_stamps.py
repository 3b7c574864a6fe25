"""Tells by its stamp whether a file may have changed, and keeps what it says for as long as it did not.

A stamp is taken before the file is read. A change that is younger than what the clocks of file systems can
tell apart is not settled: the next look reads again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from lilux._footprints import (
    SETTLED_NS,
    WHICH_AND_WHOSE,
    Stamp,
    latest_change,
    note_file,
    stamp_of,
    unnoted,
)
from lilux._trees import Tree

__all__ = ["SETTLED_NS", "KeptFile", "Stamp", "is_settled", "latest_change", "settled", "stamp_of"]

Value = TypeVar("Value")


def is_settled(stamp: Stamp, now_ns: int | None = None) -> bool:
    """Whether a change that comes after `now_ns`, or after now, will show in the stamp."""
    return latest_change(stamp) < (time.time_ns() if now_ns is None else now_ns) - SETTLED_NS


def settled(stamp: Stamp | None) -> Stamp | None:
    """The same stamp, or None if a later change could have the same one."""
    return stamp if stamp is not None and is_settled(stamp) else None


class _Kept(NamedTuple, Generic[Value]):
    """What was read: the directories on the way to the file, with the stamps of all if changes would show."""

    way: Sequence[str]
    stamps: tuple[Stamp | None, ...] | None
    data: bytes | None
    value: Value


class KeptFile(Generic[Value]):
    """The content of a file of a tree, read again only when the file may have changed.

    As long as the bytes are the same, the value is the same object. A missing file is None, not empty.
    """

    def __init__(
        self, tree: Tree, relative: str, parse: Callable[[bytes | None, Path], Value], *, limit: int
    ) -> None:
        self._tree = tree
        self._relative = relative
        self._parse = parse
        self._limit = limit
        parts = relative.split("/")
        self._below = [str(tree.root.joinpath(*parts[:count])) for count in range(len(parts))]
        self._file = str(tree.root / relative)
        self._kept: _Kept[Value] | None = None

    def value(self) -> Value:
        """The content now; the same object as before when it is unchanged."""
        kept = self._kept
        if kept is not None and kept.stamps is not None and kept.stamps == self._look(kept.way):
            return kept.value
        way = [*self._tree.above(), *self._below]  # which is another one when a link leads elsewhere
        now = time.time_ns()
        stamps = self._look(way)
        with unnoted():
            data = self._tree.read(self._relative, limit=self._limit)
        if kept is not None and kept.data == data:
            value = kept.value
        else:
            value = self._parse(data, self._tree.root / self._relative)
        # A file that came while it was looked for must not be taken for what is said when it is gone again.
        file = stamps[-1]
        would_tell = data is None if file is None else data is not None and is_settled(file, now)
        # One assignment, so that threads never see the stamp of one reading beside the value of another.
        self._kept = _Kept(way, stamps if would_tell else None, data, value)
        return value

    def _look(self, way: Sequence[str]) -> tuple[Stamp | None, ...]:
        """Note what is looked at, and return its stamps."""
        note_file(self._file, way)
        stamps = [stamp_of(path, follow=False) for path in way]
        whose = [stamp and stamp[:WHICH_AND_WHOSE] for stamp in stamps]
        return (*whose, stamp_of(self._file, follow=False))
