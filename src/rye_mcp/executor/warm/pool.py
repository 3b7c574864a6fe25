"""The interpreters that wait for calls: how many of each kind, which one fits a call, and when they go.

Two calls are of one kind if the same runtime would run them with the same rights. A call never waits for an
interpreter to be started here; who finds none waiting runs cold. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio

from lilux import _loops
from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import CallSpec, NotParked, SubprocessResult, Zygote
from rye_mcp.executor.admission import Admission, admitted
from rye_mcp.executor.job.bytecode import Background
from rye_mcp.executor.warm.recipe import Recipe

__all__ = ["MAX_KINDS", "Kind", "Pool", "Seat", "Slot", "Taken", "Template", "memory_allows"]

MAX_KINDS: Final = 24
"""For how many kinds of calls interpreters wait; one more takes the place of the one that is idle longest."""

FREE_BYTES: Final = 256 << 20
FREE_SHARE: Final = 0.1
"""How much memory stays free, and which share of all: below that, nothing waits."""

BEGINS_AFTER_S: Final = 0.02
"""How much later than the first call of a kind one is parked: not for a program that makes one call."""

SWEEP_S: Final = 10.0
"""How often idle zygotes are looked for."""

BUSY: Final = "zygote_busy"
"""The code of what has to wait until a call has ended."""

PAUSE_S: Final = 30.0
"""How long nothing is parked for a kind after it went wrong."""

Kind = Hashable

_logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """A parked process, as lilux has it."""

    @property
    def is_waiting(self) -> bool:
        """False once it was called, has ended, or was lost."""
        ...

    async def run(self, call: CallSpec) -> SubprocessResult:
        """Its one call; NotParked when it was gone before."""
        ...

    async def end(self) -> None:
        """Give it up."""
        ...


class Room(Protocol):
    """The private directory that a call will run in."""

    @property
    def root(self) -> Path:
        """Where it is."""
        ...

    def remove(self) -> None:
        """Remove it, with everything in it."""
        ...


@dataclass(slots=True)
class Slot:
    """A zygote, what it was made of, and whether what was forked from it has crashed."""

    zygote: Zygote[SubprocessResult]
    recipe: Recipe
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Seat:
    """A waiting interpreter, with the private directory that it was confined to and what it was made of.

    `missing` are the variables that it gets with its call, as it was forked without them.
    """

    parked: Waiting
    room: Room
    recipe: Recipe
    missing: Mapping[str, str] = field(default_factory=dict)
    slot: Slot | None = None


class Template(Protocol):
    """Makes interpreters wait for calls like one that was prepared."""

    @property
    def keep(self) -> int:
        """How many wait at most."""
        ...

    @property
    def seconds(self) -> float:
        """For how long."""
        ...

    async def seat(self, slots: list[Slot]) -> Seat:
        """One more, forked from one of these zygotes if that can be; NotParked when there can be none."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A seat, or the word for why there is none."""

    seat: Seat | None = None
    why: str | None = None


@dataclass(slots=True)
class _Waiting:
    """The interpreters that wait for calls of one kind, and how many should."""

    seats: deque[Seat] = field(default_factory=deque)
    slots: list[Slot] = field(default_factory=list)
    last_used: float = 0.0
    seconds: float = 0.0
    template: Template | None = None
    wanted: int = 1
    is_filling: bool = False
    paused_until: float = 0.0
    why: str = "none_waiting"


class Pool:
    """The waiting interpreters of one executor, in each event loop that it is used from."""

    def __init__(
        self,
        background: Background,
        *,
        clock: Callable[[], float] = time.monotonic,
        admission: Callable[[], Admission] = admitted,
    ) -> None:
        self._background = background
        self._admission = admission
        self._sweeps = Background()
        self._clock = clock
        self._kinds: dict[Hashable, OrderedDict[Kind, _Waiting]] = {}

    def take(self, kind: Kind) -> Taken:
        """The interpreter that waited longest for a call of this kind."""
        kinds = self._here()
        waiting = kinds.get(kind)
        if waiting is None:
            return Taken(why="first_call")
        kinds.move_to_end(kind)
        while waiting.seats:
            seat = waiting.seats.popleft()
            if seat.parked.is_waiting:
                self._fill(waiting)
                return Taken(seat)
            self._remove([seat])
            waiting.wanted = max(1, waiting.wanted - 1)
        if waiting.template is not None:
            waiting.wanted = min(waiting.wanted + 1, waiting.template.keep)
        return Taken(why=waiting.why)

    def used(self, kind: Kind, template: Template) -> None:
        """A call of this kind has ended: the next ones find interpreters that were made as for this one."""
        kinds = self._here()
        waiting = kinds.setdefault(kind, _Waiting())
        kinds.move_to_end(kind)
        waiting.template, waiting.seconds, waiting.last_used = template, template.seconds, self._clock()
        while len(kinds) > MAX_KINDS:
            _, idle = kinds.popitem(last=False)
            self._clear(idle)
        self._fill(waiting, after=BEGINS_AFTER_S)

    def renew(self, kind: Kind) -> None:
        """Drop the interpreters of this kind: something that they were made of has changed."""
        waiting = self._here().get(kind)
        if waiting is not None:
            self._clear(waiting)

    @property
    def count(self) -> int:
        """How many wait in this event loop."""
        return sum(each.parked.is_waiting for waiting in self._here().values() for each in waiting.seats)

    async def close(self) -> None:
        """End everything that waits in this event loop."""
        kinds = self._kinds.pop(_loops.running(), OrderedDict())
        async with anyio.create_task_group() as tasks:
            for waiting in kinds.values():
                waiting.template = None
                tasks.start_soon(_all_ended, [*waiting.seats], [*waiting.slots])
                waiting.seats.clear()
                waiting.slots.clear()
        await self._sweeps.close()

    def _clear(self, waiting: _Waiting) -> None:
        """Let nothing wait any more."""
        waiting.template = None
        self._remove([*waiting.seats], [*waiting.slots])
        waiting.seats.clear()
        waiting.slots.clear()

    def _sweep_later(self) -> None:
        """Look again for idle zygotes; interpreters that wait for a call end by themselves."""
        here = self._here()

        async def sweep() -> None:
            now = self._clock()
            for waiting in here.values():
                if waiting.slots and now - waiting.last_used >= waiting.seconds:
                    self._clear(waiting)
            if any(waiting.slots for waiting in here.values()):
                self._sweep_later()

        self._sweeps.start(sweep, after=SWEEP_S)

    def _here(self) -> OrderedDict[Kind, _Waiting]:
        return self._kinds.setdefault(_loops.running(), OrderedDict())

    def _fill(self, waiting: _Waiting, after: float = 0.0) -> None:
        """Let as many wait as are wanted: beside the calls, one after the other."""
        if waiting.is_filling or waiting.template is None or self._clock() < waiting.paused_until:
            return
        gone = [seat for seat in waiting.seats if not seat.parked.is_waiting]
        for seat in gone:
            waiting.seats.remove(seat)
        if gone:
            self._remove(gone)
        if len(waiting.seats) >= waiting.wanted:
            return
        waiting.is_filling = True

        async def fill() -> None:
            try:
                await self._filled(waiting)
            finally:
                waiting.is_filling = False
                if waiting.template is None:  # cleared meanwhile
                    self._clear(waiting)

        self._background.start(fill, after=after)

    async def _filled(self, waiting: _Waiting) -> None:
        while (template := await self._template(waiting)) is not None:
            if not memory_allows():
                waiting.why, waiting.paused_until = "memory", self._clock() + PAUSE_S
                return
            had_none = not any(each.slots for each in self._here().values())
            try:
                seat = await template.seat(waiting.slots)
            except NotParked as exc:
                if exc.code == BUSY:  # the call that ends next lets one wait
                    return
                _logger.info("no interpreter waits for the next call: %s", exc.code)
                waiting.why, waiting.paused_until = "not_parked", self._clock() + PAUSE_S
                return
            waiting.why = "none_waiting"
            if had_none and waiting.slots:
                self._sweep_later()
            if waiting.template is None:
                await _ended(seat)
            else:
                waiting.seats.append(seat)

    async def _template(self, waiting: _Waiting) -> Template | None:
        """Return the template for one more, if one is lacking, once no call needs this processor."""
        await self._admission().calm()
        return waiting.template if len(waiting.seats) < waiting.wanted else None

    def _remove(self, seats: list[Seat], slots: Sequence[Slot] = ()) -> None:
        if seats or slots:
            self._background.start(partial(_all_ended, seats, slots), after=0.0)


async def _all_ended(seats: Sequence[Seat], slots: Sequence[Slot]) -> None:
    for seat in seats:
        await _ended(seat)
    for slot in slots:
        await slot.zygote.close()


async def _ended(seat: Seat) -> None:
    from rye_mcp.apart import off_loop

    try:
        await seat.parked.end()
    finally:
        await off_loop(seat.room.remove, shielded=True)


def memory_allows(path: str = "/proc/meminfo") -> bool:
    """Whether enough memory is free for one more process that waits."""
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - of the system, one page
            values = dict(line.split(":", 1) for line in file)
        free, total = (int(values[name].split()[0]) << 10 for name in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError, ValueError):
        return True  # a system that does not tell: what waits is ended when it is idle
    return free > max(FREE_BYTES, int(total * FREE_SHARE))
