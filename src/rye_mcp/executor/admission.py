"""Lets the calls of one event loop in one after the other, and no faster than the machine can run them.

Many calls at once would keep the event loop for as long as all of them prepare, and their programs would take
the processors away from the server. The rules are in `docs/architecture/execution.md`.

    async with admitted():
        ...
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

import anyio
import anyio.lowlevel
from anyio.lowlevel import RunVar

__all__ = ["Admission", "admitted"]

MAX_WAIT_S: Final = 0.02
"""How long one call waits for a processor to be free."""

STARVED_NS: Final = 1_000_000
"""An event loop that has waited longer than this since the last call was admitted is short of a processor."""

LOOK_S: Final = 0.01
"""How long to wait between two looks at whether there is one."""

_STATISTICS: Final = Path("/proc/thread-self/schedstat")


def admitted() -> Admission:
    """The block of a call in the event loop that is running: it begins when it is the call's turn."""
    try:
        return _admissions.get()
    except LookupError:
        admission = Admission(_waited_ns, len(os.sched_getaffinity(0)))
        _admissions.set(admission)
        return admission


class Admission:
    """The turns of one event loop; `waited_ns` tells for how long it has waited for a processor so far."""

    def __init__(self, waited_ns: Callable[[], int], processors: int) -> None:
        self._waited_ns = waited_ns
        self._processors = processors
        self._turns = anyio.Lock(fast_acquire=True)
        self._calls = 0  # those that wait for their turn are among them
        self._under_way = 0
        self._calm: anyio.Event | None = None
        self._last = 0.0
        self._waited = 0

    async def __aenter__(self) -> None:
        """Wait for the calls that came before, then for a processor."""
        self._calls += 1
        try:
            await self._turn()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Calls that wait poll; there is no notification."""
        self._under_way -= 1
        self._leave()

    async def calm(self) -> None:
        """Wait until there are no more calls than processors: for work that must not take one from a call."""
        while self._calls > self._processors:
            self._calm = self._calm or anyio.Event()
            await self._calm.wait()

    def _leave(self) -> None:
        self._calls -= 1
        if self._calm is not None and self._calls <= self._processors:
            self._calm.set()
            self._calm = None

    async def _turn(self) -> None:
        async with self._turns:
            if self._under_way >= self._processors:
                await self._processor()
            elif self._under_way:
                await anyio.lowlevel.checkpoint()
            self._under_way += 1
            if self._under_way >= self._processors:
                self._last, self._waited = time.perf_counter(), self._waited_ns()

    async def _processor(self) -> None:
        """Wait until the event loop has had a processor since the last call was admitted, or for too long."""
        deadline = self._last + MAX_WAIT_S
        if time.perf_counter() < deadline:
            await anyio.lowlevel.checkpoint()
        waited = self._waited_ns()
        while time.perf_counter() < deadline and waited - self._waited > STARVED_NS:
            self._waited = waited
            await anyio.sleep(LOOK_S)
            waited = self._waited_ns()


def _waited_ns() -> int:
    """For how long this thread was ready to go on, so far, but had no processor."""
    try:
        return int(_STATISTICS.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


_admissions: Final[RunVar[Admission]] = RunVar("rye_mcp.executor.admission")
