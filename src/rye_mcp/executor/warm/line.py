"""The calls that wait until a zygote is free, in their order, and how long that is worth waiting for.

A call waits if it would have to wait longer for an interpreter of its own: the calls before it would start
theirs as well, and the processors would be shared by all of them.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio

from lilux._dataclasses import dataclass

if TYPE_CHECKING:
    from rye_mcp.executor.warm.pool import Seat
    from rye_mcp.executor.warm.recipe import Slot

__all__ = ["PROCESSORS", "Line", "Place"]

_WEIGHT: Final = 0.2
"""How much the last call counts in how long calls take."""

PROCESSORS: Final = len(os.sched_getaffinity(0))


@dataclass(slots=True)
class Place:
    """The place of one call, and what it got."""

    came: anyio.Event
    got: Slot | Seat | None = None


class Line:
    """The calls of one kind that wait for a zygote."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.start_s = 0.0
        """How long the start of an interpreter took."""
        self.busy_s = 0.0
        """How long a zygote is busy with a call."""
        self.cold = 0
        """How many calls start one now, as they found none."""
        self._clock = clock
        self._places: deque[Place] = deque()

    def is_worth_it(self, zygotes: int) -> bool:
        """Whether one of so many zygotes is free earlier than an interpreter would be started."""
        starts = self.cold + len(self._places) + 1
        return zygotes > 0 and self._turn_s(zygotes) <= self.start_s * max(1.0, starts / PROCESSORS)

    def is_long(self, zygotes: int) -> bool:
        """Whether one more zygote would be there before it is the turn of the next call."""
        return self._turn_s(zygotes) > self.start_s > 0

    async def wait(self, give_back: Callable[[Slot | Seat], None], zygotes: int) -> Slot | Seat | None:
        """What the call gets when it is its turn; None if that takes twice as long as it should.

        A call that is given up gives back what it got in the same moment.
        """
        limit = 2 * max(self._turn_s(zygotes), self.start_s)
        place = Place(anyio.Event())
        self._places.append(place)
        try:
            with anyio.move_on_after(limit):
                await place.came.wait()
        except BaseException:
            if place.got is not None:
                give_back(place.got)
            raise
        finally:
            if place.got is None:
                self._places.remove(place)
        return place.got

    def serve(self, found: Slot | Seat) -> bool:
        """Give it to the call that came first; False if there is none."""
        if not self._places:
            return False
        place = self._places.popleft()
        place.got = found
        place.came.set()
        return True

    def was_busy(self, since: float) -> None:
        """A zygote is free that a call had since then."""
        took = self._clock() - since
        self.busy_s += (took - self.busy_s) * (_WEIGHT if self.busy_s else 1.0)

    def _turn_s(self, zygotes: int) -> float:
        """How long the next call would have to wait for its turn."""
        return (len(self._places) + 1) * self.busy_s / zygotes
