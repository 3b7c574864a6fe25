"""Notices changes of files, and keeps the search index of each project as fresh as its files.

While the spaces are watched, only what was noticed is looked at. Everything is looked at first, after a call
that may have written files, every `LOOK_AGAIN_S`, and as long as a space cannot be watched: the system may
lose notices. What runs leave behind is no change. A look ends when nobody waits for it any more.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio import to_thread

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, Space, parse_relative_path
from rye_mcp.mcp_server.logs import facts_of

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = [
    "CHANGE_STEP_MS",
    "LOOK_AGAIN_S",
    "Changed",
    "FileChanges",
    "Freshness",
    "Progress",
    "looking",
    "watch",
]

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

Changed = Callable[[frozenset[Path]], Awaitable[None]]
"""Is told which paths have changed."""

Beside = Callable[[Callable[[], Awaitable[None]]], None]
"""Begins work that nobody waits for."""

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


class Index(Protocol):
    """Is kept fresh: a catalog, or a stand-in."""

    def refresh(self, progress: Progress | None = None) -> None:
        """Look at everything."""

    def note_changed(self, *places: ItemPlace) -> None:
        """Look at these files alone."""


class Freshness:
    """The state of the files of some spaces; used by several threads."""

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
        """Return the identities of the root directories; None for a missing one."""
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


@dataclass(eq=False, slots=True)
class _Watched:
    """The spaces of a project, and whether they are watched still."""

    freshness: Freshness
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_watching: bool = True


class _Listener:
    """Tells of changes in one project, of those together that come together: the index is told of each."""

    def __init__(self, changed: Changed, app: App, beside: Beside) -> None:
        self.app = app
        self.beside = beside
        self.is_listening = True
        self._changed = changed
        self._paths: set[Path] = set()
        self._noticed = anyio.Event()

    def is_for(self, spaces: tuple[Space, ...]) -> bool:
        """Whether it tells of changes in these spaces."""
        return self.is_listening and self.app.spaces.accessible() == spaces

    def add(self, paths: frozenset[Path]) -> None:
        """Something happened at these paths."""
        self._paths |= paths
        self._noticed.set()

    async def run(self) -> None:
        """Tell, until it is cancelled."""
        try:
            while True:
                await self._noticed.wait()
                await self._until_quiet()
                paths, self._paths = frozenset(self._paths), set()
                await self._changed(paths)
        finally:
            self.is_listening = False

    async def _until_quiet(self) -> None:
        with anyio.move_on_after(CHANGE_WAIT_MS / 1000):
            while self._noticed.is_set():
                self._noticed = anyio.Event()
                with anyio.move_on_after(CHANGE_STEP_MS / 1000):
                    await self._noticed.wait()
        self._noticed = anyio.Event()


class FileChanges:
    """Watches the files of each project that one server works with, each once."""

    def __init__(self) -> None:
        self._watched: dict[tuple[Space, ...], _Watched] = {}
        self._listener: _Listener | None = None

    def freshness_of(self, app: App, beside: Beside) -> Freshness:
        """Return the freshness of a project's files, which are watched from then on, `beside` all else."""
        spaces = app.spaces.accessible()
        if spaces not in self._watched:
            self._begin(app, spaces, beside)
        return self._watched[spaces].freshness

    def tell(self, app: App, changed: Changed, beside: Beside) -> None:
        """Tell of changes in this project, and in no other one any more, also of whom its user trusts."""
        spaces = app.spaces.accessible()
        if self._listener is None or not self._listener.is_listening:
            self._listener = _Listener(changed, app, beside)
            beside(self._listener.run)
        self._listener.app = app
        if spaces not in self._watched or not self._watched[spaces].is_watching:
            self._begin(app, spaces, beside)

    def forget(self, app: App) -> None:
        """Watch the files of a project no longer, until somebody searches there again."""
        spaces = app.spaces.accessible()
        watched = self._watched.pop(spaces, None)
        if watched is None:
            return
        watched.scope.cancel()
        listener = self._listener
        if listener is not None and listener.is_for(spaces):  # in another directory of the same path
            self._begin(listener.app, spaces, listener.beside)

    def look_again(self, app: App) -> None:
        """Files of a project may have changed just now."""
        known = self._watched.get(app.spaces.accessible())
        if known is not None:
            known.freshness.look_again()

    def _begin(self, app: App, spaces: tuple[Space, ...], beside: Beside) -> None:
        watched = self._watched[spaces] = _Watched(Freshness(spaces))
        beside(partial(self._watch, watched, app.settings.state / "projects"))

    async def _watch(self, watched: _Watched, decisions: Path) -> None:
        freshness = watched.freshness
        roots = [space.root for space in freshness.spaces]
        begun = partial(freshness.watched, True) if all(root.is_dir() for root in roots) else None

        async def noticed(paths: frozenset[Path]) -> None:
            freshness.notice(paths)
            if self._listener is not None and self._listener.is_for(freshness.spaces):
                self._listener.add(paths)

        try:
            with watched.scope:
                every = [*roots, decisions]
                await watch(every, noticed, step_ms=STEP_MS, max_wait_ms=MAX_WAIT_MS, begun=begun)
        except OSError as exc:
            reason = facts_of(reason=exc.strerror or str(exc))
            _log.warning("changes are looked for at each search", extra=reason)
            if self._listener is not None and self._listener.is_for(freshness.spaces):
                _log.warning("changes are not announced", extra=reason)
        finally:
            watched.is_watching = False
            freshness.watched(False)


async def looking(work: Callable[[Progress], Answer], progress: Progress | None = None) -> Answer:
    """The result of this function in a thread, which ends when the caller is cancelled."""
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
        await anyio.lowlevel.checkpoint()  # a cancelled caller gets no further changes
        raise failure
    return answers[0]


class _GivenUpError(Exception):
    """Nobody waits any more."""


async def _set_when_cancelled(event: threading.Event | anyio.Event) -> None:
    """Let a thread know: cancelling does not reach it before it wakes by itself."""
    try:
        await anyio.sleep_forever()
    finally:
        event.set()


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


CHANGE_STEP_MS: Final = 100
"""For how long nothing may change before a change is told."""

CHANGE_WAIT_MS: Final = 1000
"""How long a change waits at most for others."""

BEGUN_MS: Final = 1000
"""After how long without a change it is known that changes are seen."""

_OF_THE_LOG: Final = ("runs.sqlite3", "receipts.mark")
_OF_RUNS: Final = frozenset({"lockfiles", "outputs", "results", "live"})
_OF_ITEMS: Final = frozenset(item_type.directory for item_type in ItemType)


async def watch(
    roots: Sequence[Path],
    changed: Changed,
    *,
    step_ms: int = CHANGE_STEP_MS,
    max_wait_ms: int = CHANGE_WAIT_MS,
    begun: Callable[[], None] | None = None,
) -> None:
    """Tell of changes below these directories, those that are there, until it is cancelled.

    `begun` is called when changes are seen from then on; never where none of the directories is there.
    """
    from watchfiles import awatch
    from watchfiles._rust_notify import WatchfilesRustInternalError

    there = [root for root in roots if root.is_dir()]
    if not there:
        await anyio.sleep_forever()
    stop = anyio.Event()
    how: dict[str, Any] = {"step": step_ms, "debounce": max_wait_ms, "ignore_permission_denied": True}
    if begun is not None:
        how |= {"rust_timeout": BEGUN_MS, "yield_on_timeout": True}
    notices = awatch(*there, watch_filter=partial(_counts, there), stop_event=stop, **how)
    failure: OSError | None = None
    async with _a_thread_more(), anyio.create_task_group() as group:
        group.start_soon(_set_when_cancelled, stop)
        try:
            async for changes in notices:
                if begun is not None:
                    begun()
                    begun = None
                if changes:
                    await changed(frozenset(Path(path) for _, path in changes))
        except WatchfilesRustInternalError as exc:
            failure = OSError(errno.EIO, str(exc))
        except OSError as exc:
            failure = exc  # as it is, and not as a group of one
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def _a_thread_more() -> AsyncIterator[None]:
    """A watcher keeps a thread all the time, so it has a limiter of its own."""
    threads = to_thread.current_default_thread_limiter()
    threads.total_tokens += 1
    try:
        yield
    finally:
        threads.total_tokens -= 1


def _counts(roots: Sequence[Path], _: object, path: str) -> bool:
    changed = Path(path)
    for root in roots:
        if changed.is_relative_to(root):
            parts = changed.relative_to(root).parts
            is_of_runs = not _OF_ITEMS & set(parts[:1]) and bool(_OF_RUNS & set(parts))
            return not (is_of_runs or "__pycache__" in parts or changed.name.startswith(_OF_THE_LOG))
    return True
