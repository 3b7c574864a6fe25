"""Work that is done beside calls, in the event loop that they run in, and that nobody waits for.

Rules:

- It begins a moment later, when whoever asked for it has had the answer; what is over by then never begins.
- It ends when `close` is called or the event loop ends, whichever comes first. Nothing of it is an error.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

import anyio

from lilux import _loops

__all__ = ["BEGINS_AFTER_S", "Background"]

BEGINS_AFTER_S: Final = 0.1
"""How much later it begins."""

_logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[object]]


class Background:
    """What one executor has under way, in each event loop that it was used from."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[Hashable, int], tuple[anyio.CancelScope, anyio.Event]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Work) -> None:
        """Do this, a moment later."""
        self._count += 1
        key = (_loops.running(), self._count)
        scope, is_over = self._under_way[key] = anyio.CancelScope(), anyio.Event()

        async def done() -> None:
            try:
                with scope:
                    await anyio.sleep(BEGINS_AFTER_S)
                    await work()
            except Exception:
                _logger.exception("work in the background has failed")
            finally:
                self._under_way.pop(key, None)
                is_over.set()

        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_task():
            trio.lowlevel.spawn_system_task(done)
            return
        task = asyncio.get_running_loop().create_task(done())
        self._tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all that was started in this event loop is over."""
        for _, is_over in self._here():
            await is_over.wait()

    async def close(self) -> None:
        """End what is under way in this event loop."""
        here = self._here()
        for scope, _ in here:
            scope.cancel()
        for _, is_over in here:
            await is_over.wait()

    def _here(self) -> list[tuple[anyio.CancelScope, anyio.Event]]:
        running = _loops.running()
        return [each for (loop, _), each in self._under_way.items() if loop == running]
