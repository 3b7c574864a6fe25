"""Looks for changes of the spaces, and of whom is trusted, while there is somebody to tell.

Rules:

- The system tells of changes (`watchfiles`); nothing is read until it does.
- Changes that come together are told together. Which files changed is only a hint: whoever is told looks for
  themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import anyio

__all__ = ["STEP_MS", "watch"]

STEP_MS: Final = 100
"""For how long nothing may change before a change is told."""

MAX_WAIT_MS: Final = 1000
"""How long a change waits at most for others."""

BEGUN_MS: Final = 1000
"""After how long without a change it is known that changes are seen."""

_PASSED_OVER: Final = frozenset({"lockfiles", "outputs", "__pycache__"})


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

    there = [root for root in roots if root.is_dir()]
    if not there:
        await anyio.sleep_forever()
    stop = anyio.Event()
    notices = awatch(
        *there,
        watch_filter=_counts,
        step=step_ms,
        debounce=max_wait_ms,
        rust_timeout=BEGUN_MS if begun else None,
        yield_on_timeout=begun is not None,
        stop_event=stop,
        ignore_permission_denied=True,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(_set_when_cancelled, stop)
        async for changes in notices:
            if begun is not None:
                begun()
                begun = None
            if changes:
                await changed(frozenset(Path(path) for _, path in changes))


async def _set_when_cancelled(stop: anyio.Event) -> None:
    """End the thread that waits for changes: cancelling does not reach it before it wakes by itself."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def _counts(_: object, path: str) -> bool:
    return not _PASSED_OVER & set(Path(path).parts) and "runs.sqlite3" not in path
