"""Remembers what was found out from files for as long as everything that was looked at is unchanged.

Whatever opens, reads or lists files below a directory calls `note` before. Work that is `Remembered` leaves
a footprint, the stamps of all these paths. It is kept only if each later change will show in them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

__all__ = [
    "SETTLED_NS",
    "WHICH_AND_WHOSE",
    "Footprint",
    "Remembered",
    "Stamp",
    "latest_change",
    "note",
    "note_file",
    "note_links",
    "note_names",
    "note_way",
    "stamp_of",
    "unnoted",
]

SETTLED_NS: Final = 2_000_000_000
"""How old a change has to be for its time to tell it from a later one: file systems count in 4 ms, in whole
seconds or, at worst, in two of them.
"""

MAX_PATHS: Final = 400
"""With more paths, looking at all of them takes longer than what they were looked at for."""

MAX_LINKS: Final = 40
"""How many links the kernel follows."""

MAX_KEPT: Final = 1024
"""How many values are kept of one kind of work."""

Stamp = tuple[int, ...]
"""Device, number, mode, owner and group, then size and the times of the last changes, in nanoseconds."""

WHICH_AND_WHOSE: Final = 5
"""How much of a stamp says which directory it is, and whose: what comes and goes in it changes the rest."""

Value = TypeVar("Value")


def stamp_of(path: str | os.PathLike[str], *, follow: bool = True) -> Stamp | None:
    """The stamp of a file, behind every link unless told otherwise; None for what is not there.

    What cannot be looked at has the number of the error as its stamp.
    """
    try:
        found = os.stat(path) if follow else os.lstat(path)  # noqa: PTH116 - several times in every run
    except (FileNotFoundError, ValueError):
        return None
    except OSError as exc:
        return (exc.errno or 0,)
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_uid,
        found.st_gid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def latest_change(stamp: Stamp) -> int:
    """When a file changed last, in nanoseconds."""
    return max(stamp[-2:])


class Footprint:
    """The paths that were looked at since it began, with their stamps from before that."""

    __slots__ = ("_begun_ns", "_stamps")

    def __init__(self) -> None:
        self._begun_ns = time.time_ns()
        self._stamps: dict[str, Stamp | None] = {}

    @property
    def paths(self) -> frozenset[str]:
        """All of them."""
        return frozenset(self._stamps)

    @property
    def is_settled(self) -> bool:
        """Whether each change that comes later will show in a stamp."""
        whole = (stamp for stamp in self._stamps.values() if stamp is not None and not _is_of_way(stamp))
        return len(self._stamps) <= MAX_PATHS and all(
            latest_change(stamp) < self._begun_ns - SETTLED_NS for stamp in whole
        )

    def add(self, path: str) -> None:
        """Note a path, before the first look at it."""
        known = self._stamps.get(path)
        if path not in self._stamps or (known is not None and _is_of_way(known)):
            self._stamps[path] = stamp_of(path, follow=False)

    def add_way(self, path: str) -> None:
        """Note a directory through which a path leads, whatever else is in it."""
        if path not in self._stamps:
            stamp = stamp_of(path, follow=False)
            self._stamps[path] = None if stamp is None else stamp[:WHICH_AND_WHOSE]

    def include(self, other: Footprint) -> None:
        """Take over what other work has looked at, whose value this work has used."""
        for path, stamp in other._stamps.items():
            known = self._stamps.setdefault(path, stamp)
            if known is not None and _is_of_way(known):
                self._stamps[path] = stamp

    def holds(self) -> bool:
        """Whether everything is as it was."""
        for path, stamp in self._stamps.items():
            found = stamp_of(path, follow=False)
            if found != stamp and (found is None or stamp is None or found[:WHICH_AND_WHOSE] != stamp):
                return False
        return True


def _is_of_way(stamp: Stamp) -> bool:
    return len(stamp) == WHICH_AND_WHOSE


_footprint: ContextVar[Footprint | None] = ContextVar("footprint", default=None)


def note(path: Callable[[], str | os.PathLike[str]]) -> None:
    """Say that a path is about to be looked at. It is only made where somebody keeps a footprint."""
    footprint = _footprint.get()
    if footprint is not None:
        footprint.add(os.fspath(path()))


def note_file(path: str, way: Iterable[str]) -> None:
    """Say that a file is about to be looked at. Of the directories on the way, only their identity counts."""
    footprint = _footprint.get()
    if footprint is not None:
        note_way(lambda: way)
        footprint.add(path)


def note_names(paths: Iterable[str]) -> None:
    """Say that names are about to be looked for, each in its directory, which may be behind a link."""
    footprint = _footprint.get()
    if footprint is not None:
        for directory in dict.fromkeys(path.rpartition("/")[0] for path in paths):
            footprint.add(f"{directory}/.")


def note_links(paths: Iterable[str]) -> None:
    """Say that these paths are about to be followed, through whatever links, to what is there."""
    footprint = _footprint.get()
    if footprint is None:
        return
    for path in paths:
        for _ in range(MAX_LINKS):
            footprint.add(path)
            try:
                target = os.readlink(path)  # noqa: PTH115 - several times in every run
            except (OSError, ValueError):
                break
            path = os.path.join(os.path.dirname(path), target)  # noqa: PTH118, PTH120, PLW2901


def note_way(way: Callable[[], Iterable[str]]) -> None:
    """Say that only the identity of these directories counts. They are only found where it matters."""
    footprint = _footprint.get()
    if footprint is not None:
        for directory in way():
            footprint.add_way(directory)


@contextmanager
def unnoted() -> Iterator[None]:
    """A block that looks at nothing but what was noted before."""
    token = _footprint.set(None)
    try:
        yield
    finally:
        _footprint.reset(token)


class Remembered(Generic[Value]):
    """What some work came to, by a key: it is done again when anything that it looked at has changed.

    The work may look at files only through what calls `note`. An error is not remembered, and neither is what
    is not `worth` it. Values of at most `most` keys are kept.
    """

    def __init__(self, *, most: int = MAX_KEPT, worth: Callable[[Value], bool] = lambda value: True) -> None:
        self._most = most
        self._worth = worth
        self._kept: dict[Hashable, tuple[Footprint, Value]] = {}

    def value(self, key: Hashable, work: Callable[[], Value]) -> Value:
        """What the work comes to now; the same object as before when it is unchanged."""
        kept = self._kept.get(key)
        if kept is None or not kept[0].holds():
            kept = _done(work)
            if kept[0].is_settled and self._worth(kept[1]):
                if len(self._kept) >= self._most and key not in self._kept:
                    self._kept.clear()
                self._kept[key] = kept
        around = _footprint.get()
        if around is not None:
            around.include(kept[0])
        return kept[1]


def _done(work: Callable[[], Value]) -> tuple[Footprint, Value]:
    footprint = Footprint()
    token = _footprint.set(footprint)
    try:
        return footprint, work()
    finally:
        _footprint.reset(token)
