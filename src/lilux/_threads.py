"""Threads for short work of asyncio loops: the way there and back costs less than `anyio.to_thread`.

A thread that has nothing to do waits for the next work, of any loop, and ends after `IDLE_S`. The caller
limits how many work at a time. A process that ends waits for work that is under way.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

__all__ = ["IDLE_S", "in_thread"]

IDLE_S: Final = 10.0
"""How long a thread waits for work."""

Answer = TypeVar("Answer")

_Settle = Callable[["asyncio.Future[Any]", Any], None]
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", contextvars.Context, Callable[[], Any]]


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Do the work in a thread, with the context of this task, and return its answer.

    A task that is cancelled meanwhile leaves the thread alone: shield it if the work must be over on return.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
    thread.jobs.put((loop, answer, contextvars.copy_context(), work))
    return await answer


class _Thread:
    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._working = threading.Lock()
        threading.Thread(target=self._serve, name="lilux-thread", daemon=True).start()

    def _serve(self) -> None:
        _at_work.add(self._working)
        while True:
            try:
                job = self.jobs.get(timeout=IDLE_S)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:
                    continue  # somebody has just chosen it
                _at_work.discard(self._working)
                return
            with self._working:
                self._do(*job)
            del job

    def _do(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[Any],
        context: contextvars.Context,
        work: Callable[[], Any],
    ) -> None:
        settle: _Settle = _succeed
        try:
            found = context.run(work)
        except StopIteration as exc:  # a future takes any other
            settle, found = _fail, RuntimeError("the work raised StopIteration")
            found.__cause__ = exc
        except BaseException as exc:  # noqa: BLE001 - it is the caller's
            settle, found = _fail, exc
        _idle.append(self)
        try:
            loop.call_soon_threadsafe(settle, answer, found)
        except RuntimeError:  # the loop is closed, and nobody waits for the answer
            return
        finally:
            del found


def _succeed(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():
        answer.set_result(found)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


_idle: Final[list[_Thread]] = []
"""Those that wait for work; the last one, whose memory is at hand, is the next to get some."""

_at_work: Final[set[threading.Lock]] = set()
"""The locks of all threads. Each holds its own as long as it works."""


def _let_finish() -> None:
    """Wait for what is being written, as for that of every thread that is no daemon; nothing more begins."""
    for working in tuple(_at_work):
        working.acquire()


def _forget() -> None:
    """The child of a fork has none of the threads."""
    _idle.clear()
    _at_work.clear()


atexit.register(_let_finish)
os.register_at_fork(after_in_child=_forget)
