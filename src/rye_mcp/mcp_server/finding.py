"""The search index of each project, kept as fresh as its files by notices of the system.

Rules:

- A look at all files takes a while where there are many. While the spaces are watched, what was noticed is
  looked at alone, and when nothing was, nothing is.
- A look at everything is taken at first, as long as nobody watches, when a notice does not name an item (of a
  directory that was moved, say), when there are many, and every `LOOK_AGAIN_S`: the system may lose notices.
- After a call that may have written files everything is looked at: its notices may not be here yet.
- A space that is not there, or is taken away, cannot be watched: everything is looked at each time then. The
  same holds where another directory has taken its place, which nobody notices when one above it was moved.
- What is noticed while a search looks is for the next one: nothing is lost between two of them. A search that
  comes meanwhile waits for that look, and one that failed is made up for by the next.
- A look ends when nobody waits for it any more, and with it the processes that help: it finds out when it
  next says how far it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio import to_thread

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, Space, parse_relative_path
from rye_mcp.mcp_server.logs import facts_of

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["LOOK_AGAIN_S", "Finding", "Freshness", "Progress", "looking"]

LOOK_AGAIN_S: Final = 60.0
"""How long it goes on by notices alone."""

MAX_NOTICED: Final = 200
"""From how many files on all are looked at."""

STEP_MS: Final = 15
"""For how long nothing may change before a change is noticed."""

MAX_WAIT_MS: Final = 50
"""How long a change waits at most for others."""

Progress = Callable[[int, int], object]
"""Is told how many files were looked at, and of how many."""

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


class Index(Protocol):
    """What is kept fresh: a catalog, or what stands in for it."""

    def refresh(self, progress: Progress | None = None) -> None:
        """Look at everything."""

    def note_changed(self, *places: ItemPlace) -> None:
        """Look at these files alone."""


class Freshness:
    """What is known of the files of some spaces; used by several threads."""

    def __init__(self, spaces: Iterable[Space], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.spaces = tuple(spaces)
        self._clock = clock
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._directories = self._where_they_are()
        self._noticed: set[ItemPlace] = set()
        self._look_again_at = float("-inf")
        self._is_watched = False

    def watched(self, is_watched: bool) -> None:
        """From now on everything is noticed; or it is not any more."""
        self._is_watched = is_watched
        self.look_again()

    def notice(self, paths: Collection[Path]) -> None:
        """Something happened at these paths."""
        places = [place for path in paths for place in self._places_of(path)]
        with self._lock:
            self._noticed |= {place for place in places if place is not None}
            if None in places or len(self._noticed) > MAX_NOTICED:
                self._look_again_at = float("-inf")
        if any(path == space.root for path in paths for space in self.spaces):
            self.watched(False)

    def look_again(self) -> None:
        """Look at everything the next time."""
        with self._lock:
            self._look_again_at = float("-inf")

    def bring_up_to_date(self, index: Index, progress: Progress | None = None) -> None:
        """Let the index look at what may have changed."""
        with self._looking:
            if self._is_watched and self._where_they_are() != self._directories:
                self.watched(False)
            try:
                self._look(index, progress)
            except BaseException:
                self.look_again()
                raise

    def _look(self, index: Index, progress: Progress | None) -> None:
        with self._lock:
            now = self._clock()
            everything = now >= self._look_again_at
            noticed, self._noticed = self._noticed, set()
            if everything and self._is_watched:
                self._look_again_at = now + LOOK_AGAIN_S
        if everything:
            index.refresh(progress)
        elif noticed:
            index.note_changed(*noticed)

    def _where_they_are(self) -> tuple[tuple[int, int] | None, ...]:
        """Which directories the roots are now; None for one that is not there."""
        return tuple(_identity(space.root) for space in self.spaces)

    def _places_of(self, path: Path) -> Iterator[ItemPlace | None]:
        """The items that a path may be of; None for what may stand for several."""
        for space in self.spaces:
            if not path.is_relative_to(space.root):
                continue
            relative = path.relative_to(space.root)
            if any(part.startswith(".") for part in relative.parts):
                continue  # no item, nor a directory of items
            try:
                item_type, item_id, extension = parse_relative_path(relative.as_posix())
            except RyeError:
                yield None
            else:
                may_be_one = extension and not path.is_dir()  # which may be called as files are
                yield ItemPlace(space, item_type, item_id, extension) if may_be_one else None


class Finding:
    """What is known of the files of each project that one server works with."""

    def __init__(self) -> None:
        self._of: dict[tuple[Space, ...], Freshness] = {}
        self._watches: dict[tuple[Space, ...], anyio.CancelScope] = {}

    def of(self, app: App, beside: Callable[[Callable[[], Awaitable[None]]], None]) -> Freshness:
        """What is known of the files of a project; at first it is begun to watch them, `beside` all else."""
        spaces = app.spaces.accessible()
        known = self._of.get(spaces)
        if known is None:
            known = self._of[spaces] = Freshness(spaces)
            scope = self._watches[spaces] = anyio.CancelScope()
            beside(partial(_watch, known, scope))
        return known

    def forget(self, app: App) -> None:
        """Watch the files of a project no longer, until somebody searches there again."""
        spaces = app.spaces.accessible()
        if self._of.pop(spaces, None) is not None:
            self._watches.pop(spaces).cancel()

    def look_again(self, app: App) -> None:
        """Files of a project may have changed just now."""
        known = self._of.get(app.spaces.accessible())
        if known is not None:
            known.look_again()


async def looking(work: Callable[[Progress], Answer], progress: Progress | None = None) -> Answer:
    """What this comes to in a thread, where others are heard meanwhile; it is ended with who waits for it."""
    given_up = threading.Event()

    def say(done: int, total: int) -> None:
        if given_up.is_set():
            raise _GivenUpError
        if progress is not None:
            progress(done, total)

    answers: list[Answer] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_set_when_cancelled, given_up)
        try:
            answers.append(await to_thread.run_sync(work, say))
        except Exception as exc:  # noqa: BLE001 - it is raised below, as it is, and not as a group of one
            failure = exc
        group.cancel_scope.cancel()
    if failure is not None:
        await anyio.lowlevel.checkpoint()  # who has given up hears of nothing else
        raise failure
    return answers[0]


class _GivenUpError(Exception):
    """Nobody waits any more."""


async def _set_when_cancelled(given_up: threading.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        given_up.set()


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def _watch(freshness: Freshness, scope: anyio.CancelScope) -> None:
    from rye_mcp.mcp_server.watching import watch

    async def noticed(paths: frozenset[Path]) -> None:
        freshness.notice(paths)

    roots = [space.root for space in freshness.spaces]
    if not all(root.is_dir() for root in roots):
        return
    begun = partial(freshness.watched, True)
    try:
        with scope:
            await watch(roots, noticed, step_ms=STEP_MS, max_wait_ms=MAX_WAIT_MS, begun=begun)
    except OSError as exc:
        _log.warning("changes are looked for at each search", extra=facts_of(reason=exc.strerror or str(exc)))
    finally:
        freshness.watched(False)
