"""Calls of one event loop are admitted one after the other, and no faster than the machine can run them.

What a call does before it runs anything takes about a millisecond, but does not let go of the event loop.
Many calls at once would keep it for as long as all of them take; and what they have started by then takes the
processor away from the server, which would answer nobody for a second.

Rules:

- Who comes while nothing is under way is admitted at once. Otherwise they come in their order, one a round of
  the event loop.
- While as many are under way as there are processors, and the server waits for one, the next one waits too:
  to start more would end nothing sooner. It waits `MAX_WAIT_S` at most, so that tools which take long hold
  up nobody. Fewer calls wait for nobody, however busy others keep the machine.
- A call is under way until its block ends, whichever way that is.

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
"""Waiting longer than this for a processor, since the last call was admitted, is to be short of one."""

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
        self._under_way = 0
        self._last = 0.0
        self._waited = 0

    async def __aenter__(self) -> None:
        """Wait for those who came before, then for a processor."""
        async with self._turns:
            if self._under_way >= self._processors:
                await self._processor()
            elif self._under_way:
                await anyio.lowlevel.checkpoint()
            self._under_way += 1
            if self._under_way >= self._processors:
                self._last, self._waited = time.perf_counter(), self._waited_ns()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nobody is told: who waits looks again by itself."""
        self._under_way -= 1

    async def _processor(self) -> None:
        """Wait until there was one for the event loop since the last call was admitted."""
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
