"""Looks for changes of the spaces, and of whom is trusted, while there is somebody to tell.

Rules:

- The system tells of changes (`watchfiles`); nothing is read until it does.
- Changes that come together are told together. Which files changed is only a hint: whoever is told looks for
  themselves.
- What runs leave behind is no change. It is known by where it is below a directory that is watched, whatever
  the directory itself lies in, and never stands among items.
- Who waits for changes takes a thread of nobody else.
- That changes cannot be seen, or no longer, is an OSError.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from rye_mcp.items import ItemType

__all__ = ["STEP_MS", "watch"]

STEP_MS: Final = 100
"""For how long nothing may change before a change is told."""

MAX_WAIT_MS: Final = 1000
"""How long a change waits at most for others."""

BEGUN_MS: Final = 1000
"""After how long without a change it is known that changes are seen."""

_OF_RUNS: Final = frozenset({"lockfiles", "outputs"})
_OF_ITEMS: Final = frozenset(item_type.directory for item_type in ItemType)


async def watch(
    roots: Sequence[Path],
    changed: Callable[[frozenset[Path]], Awaitable[None]],
    *,
    step_ms: int = STEP_MS,
    max_wait_ms: int = MAX_WAIT_MS,
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
    notices = awatch(
        *there,
        watch_filter=partial(_counts, there),
        step=step_ms,
        debounce=max_wait_ms,
        rust_timeout=BEGUN_MS if begun else None,
        yield_on_timeout=begun is not None,
        stop_event=stop,
        ignore_permission_denied=True,
    )
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
    """Who waits for changes keeps a thread all the time; nobody else shall have one fewer for that."""
    threads = to_thread.current_default_thread_limiter()
    threads.total_tokens += 1
    try:
        yield
    finally:
        threads.total_tokens -= 1


async def _set_when_cancelled(stop: anyio.Event) -> None:
    """End the thread that waits for changes: cancelling does not reach it before it wakes by itself."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def _counts(roots: Sequence[Path], _: object, path: str) -> bool:
    changed = Path(path)
    for root in roots:
        if changed.is_relative_to(root):
            parts = changed.relative_to(root).parts
            is_of_runs = not _OF_ITEMS & set(parts[:1]) and bool(_OF_RUNS & set(parts))
            return not (is_of_runs or "__pycache__" in parts or changed.name.startswith("runs.sqlite3"))
    return True
