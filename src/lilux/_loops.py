"""The event loop that is running, asyncio or trio, as far as a connection needs it; and whose work it does.

What is kept for a loop is kept under the name that `running` gives it. A `Loop` watches a descriptor with
callbacks, and tells when the loop ends: of asyncio by an asynchronous generator that `asyncio.run` closes, of
trio by a system task that is cancelled. `on_behalf_of` says whose work is done: what is scarce is shared out
between callers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Flag", "Loop", "Watch", "Watched", "bind", "caller", "is_trio", "on_behalf_of", "running"]

Finish = Callable[[], Awaitable[None]]


class Flag(Protocol):
    """Set once, waited for by any number of tasks."""

    def set(self) -> None:
        """Let those go on who wait."""
        ...

    def is_set(self) -> bool:
        """True once it was set."""
        ...

    async def wait(self) -> object:
        """Wait until it is set."""
        ...


class Watched(Protocol):
    """Gets the callbacks. Neither method may raise."""

    def readable(self) -> None:
        """The descriptor can be read."""
        ...

    def writable(self) -> bool:
        """The descriptor can be written, as was asked for; True to be called again."""
        ...


class Watch(Protocol):
    """One watched descriptor. Reading is watched until `stop`."""

    def want_write(self) -> None:
        """Call `writable` as soon as the descriptor can be written."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call this when the tasks that can run now have run."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call this after a while, if the loop still runs then."""
        ...

    def stop(self) -> None:
        """Watch nothing any more. Must come before the descriptor is closed."""
        ...


class Loop(Protocol):
    """One running event loop."""

    def is_over(self) -> bool:
        """True when the loop will run nothing any more."""
        ...

    def flag(self) -> Flag:
        """A flag for tasks of this loop."""
        ...

    def watch(self, descriptor: int, watched: Watched) -> Watch:
        """Watch a descriptor. To be called inside the loop."""
        ...

    async def at_end(self, finish: Finish) -> object:
        """Run `finish` when the loop is ending; the caller keeps what is returned."""
        ...


def running() -> Hashable:
    """The event loop that runs this task."""
    if is_trio():
        return sys.modules["trio"].lowlevel.current_trio_token()  # type: ignore[no-any-return]
    return asyncio.get_running_loop()


def is_trio() -> bool:
    """Whether it is one of trio, and not of asyncio."""
    trio = sys.modules.get("trio")
    return trio is not None and trio.lowlevel.in_trio_task()


def bind(loop: Hashable) -> Loop:
    """The loop that `running` has named."""
    return _AsyncioLoop(loop) if isinstance(loop, asyncio.AbstractEventLoop) else _TrioLoop()


class _AsyncioLoop:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def is_over(self) -> bool:
        return self._loop.is_closed()

    def flag(self) -> Flag:
        return asyncio.Event()

    def watch(self, descriptor: int, watched: Watched) -> Watch:
        return _AsyncioWatch(self._loop, descriptor, watched)

    async def at_end(self, finish: Finish) -> object:
        # A generator that begins after the loop has closed its generators gets a warning and no end.
        if getattr(self._loop, "_asyncgens_shutdown_called", False):
            return None
        generator = _wait_for_close(finish)
        await anext(generator)
        return generator


async def _wait_for_close(finish: Finish) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await finish()


class _AsyncioWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, watched: Watched) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._watched = watched
        loop.add_reader(descriptor, watched.readable)

    def want_write(self) -> None:
        self._loop.add_writer(self._descriptor, self._write)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, callback)

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)

    def _write(self) -> None:
        if not self._watched.writable():
            self._loop.remove_writer(self._descriptor)


class _TrioLoop:
    def is_over(self) -> bool:
        return False  # its last act is `at_end`

    def flag(self) -> Flag:
        import trio

        return trio.Event()

    def watch(self, descriptor: int, watched: Watched) -> Watch:
        return _TrioWatch(descriptor, watched)

    async def at_end(self, finish: Finish) -> object:
        import trio

        return trio.lowlevel.spawn_system_task(_wait_for_cancel, finish)


async def _wait_for_cancel(finish: Finish) -> None:
    import trio

    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await finish()


class _TrioWatch:
    """Its tasks are shielded: they serve what others still have under way at the end of the loop."""

    def __init__(self, descriptor: int, watched: Watched) -> None:
        import trio

        self._lowlevel = trio.lowlevel
        self._call_soon = trio.lowlevel.current_trio_token().run_sync_soon
        self._descriptor = descriptor
        self._watched = watched
        self._stopped = False
        self._spawn(self._keep_reading)

    def want_write(self) -> None:
        self._spawn(self._keep_writing)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._call_soon(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._lowlevel.spawn_system_task(_call_after, delay_s, callback)

    def stop(self) -> None:
        self._stopped = True
        self._lowlevel.notify_closing(self._descriptor)

    def _spawn(self, task: Finish) -> None:
        self._lowlevel.spawn_system_task(_until_stopped, task)

    async def _keep_reading(self) -> None:
        while not self._stopped:
            await self._lowlevel.wait_readable(self._descriptor)
            self._watched.readable()

    async def _keep_writing(self) -> None:
        more = True
        while more and not self._stopped:
            await self._lowlevel.wait_writable(self._descriptor)
            more = self._watched.writable()


async def _call_after(delay_s: float, callback: Callable[[], None]) -> None:
    import trio

    await trio.sleep(delay_s)
    callback()


async def _until_stopped(task: Finish) -> None:
    import contextlib

    import trio

    with trio.CancelScope(shield=True), contextlib.suppress(trio.ClosedResourceError):
        await task()


_caller: ContextVar[str] = ContextVar("caller", default="")


@contextmanager
def on_behalf_of(whose: str) -> Iterator[None]:
    """Count what is done in the block, and what is begun there, as work of this caller."""
    token = _caller.set(whose)
    try:
        yield
    finally:
        _caller.reset(token)


def caller() -> str:
    """On whose behalf this is done; one and the same caller where nobody said so."""
    return _caller.get()
