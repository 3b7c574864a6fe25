"""Calls of one event loop are admitted one a round, so that everybody else is heard between two of them.

What a call does before it runs anything takes less than a millisecond, but does not let go of the event loop.
Many calls at once would keep it for as long as all of them take.

Rules:

- Who comes alone is admitted at once. Otherwise one is admitted each round of the event loop, in the order in
  which they came; a turn of who has given up meanwhile just passes.
- Nothing has to be given back: an admitted call does its work before it waits for anything.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
from anyio.lowlevel import RunVar

__all__ = ["admitted"]


async def admitted() -> None:
    """Wait for one's turn in the event loop that is running."""
    try:
        admission = _admissions.get()
    except LookupError:
        admission = _Admission(_next_round())
        _admissions.set(admission)
    if not admission.enter_alone():
        await admission.enter()


class _Admission:
    """The turns of one event loop; `next_round` calls something back in its next round."""

    def __init__(self, next_round: Callable[[Callable[[], None]], object]) -> None:
        self._next_round = next_round
        self._waiting: deque[anyio.Event] = deque()
        self._is_taken = False

    def enter_alone(self) -> bool:
        """Take this round, unless somebody has."""
        if self._is_taken:
            return False
        self._is_taken = True
        self._next_round(self._begin_round)
        return True

    async def enter(self) -> None:
        """Wait for a round of one's own."""
        turn = anyio.Event()
        self._waiting.append(turn)
        await turn.wait()

    def _begin_round(self) -> None:
        self._is_taken = bool(self._waiting)
        if self._waiting:
            self._waiting.popleft().set()
            self._next_round(self._begin_round)


_admissions: Final[RunVar[_Admission]] = RunVar("rye_mcp.executor.admission")


def _next_round() -> Callable[[Callable[[], None]], object]:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        soon: Callable[[Callable[[], None]], object] = trio.lowlevel.current_trio_token().run_sync_soon
        return soon
    return asyncio.get_running_loop().call_soon
