"""The interpreters that wait for calls: how many of each kind, which one fits a call, and when they go.

Two calls are of one kind if the same runtime would run them with the same rights. A call that finds none
waiting has one forked, or waits for a zygote as long as a start would take. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio

from lilux import _loops
from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import CallSpec, NotParked, SubprocessResult
from rye_mcp.executor.admission import Admission, admitted
from rye_mcp.executor.job.bytecode import Background
from rye_mcp.executor.warm.line import Line
from rye_mcp.executor.warm.recipe import Recipe, Slot

__all__ = ["MAX_KINDS", "Kind", "Pool", "Seat", "Taken", "Template", "memory_allows"]

MAX_KINDS: Final = 24
"""For how many kinds of calls interpreters wait; one more takes the place of the one that is idle longest."""

FREE_BYTES: Final = 256 << 20
FREE_SHARE: Final = 0.1
"""How much memory stays free, and which share of all: below that, nothing waits."""

BEGINS_AFTER_S: Final = 0.02
"""How much later than the first call of a kind one is parked: not for a program that makes one call."""

SWEEP_S: Final = 10.0
"""How often idle zygotes are looked for."""

MEMORY: Final = "memory"
"""The code, and the word, for too little free memory."""

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


@dataclass(frozen=True, slots=True)
class Seat:
    """A waiting interpreter and what it was made of; with the private directory that it is confined to.

    `missing` are the variables that it gets with its call, as it was forked without them.
    """

    parked: Waiting
    recipe: Recipe
    room: Room | None = None
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

    @property
    def forks(self) -> bool:
        """Whether they are forked from zygotes, and not started one by one."""
        ...

    async def zygote(self) -> Slot:
        """One more zygote; NotParked when there can be none."""
        ...

    async def seat(self, slot: Slot | None) -> Seat:
        """One more that waits, forked from this zygote or started; NotParked when there can be none."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A seat, or the word for why there is none."""

    seat: Seat | None = None
    why: str | None = None


@dataclass(slots=True)
class _Waiting:
    """The interpreters that wait for calls of one kind, and how many should."""

    line: Line
    seats: deque[Seat] = field(default_factory=deque)
    slots: list[Slot] = field(default_factory=list)
    last_used: float = 0.0
    seconds: float = 0.0
    template: Template | None = None
    wanted: int = 1
    is_filling: bool = False
    is_hurried: bool = False
    paused_until: float = 0.0
    why: str = "none_waiting"

    def idle(self) -> Slot | None:
        """A zygote from which nothing is forked now."""
        return next((slot for slot in self.slots if slot.is_idle and slot.is_fit), None)

    def lacks_one(self) -> bool:
        """Whether one more should wait, and can."""
        template = self.template
        if template is None or len(self.seats) >= self.wanted:
            return False
        return not template.forks or len(self.slots) < self.wanted or self.idle() is not None

    def grow(self) -> None:
        """A call has found none."""
        if self.template is not None:
            self.wanted = min(self.wanted + 1, self.template.keep)


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
                return Taken(seat)
            self._give_up(waiting, seat)
            waiting.wanted = max(1, waiting.wanted - 1)
        if waiting.template is None or not waiting.template.forks:
            waiting.grow()
        return Taken(why=waiting.why)

    async def free(self, kind: Kind) -> Slot | Seat | None:
        """A zygote for a call that found nobody waiting, or somebody who waits now; None where none is near.

        Whoever gets a zygote returns it with `returned`.
        """
        waiting = self._here().get(kind)
        if waiting is None or waiting.template is None or not waiting.template.forks:
            return None
        if waiting.seats and waiting.seats[0].room is None and (seat := self.take(kind).seat) is not None:
            return seat
        slot = waiting.idle()
        if slot is not None:
            slot.is_idle = False
            return slot
        waiting.grow()
        if not waiting.line.is_worth_it(len(waiting.slots)):
            return None
        self._hurry(waiting)
        return await waiting.line.wait(partial(self._given_back, waiting), len(waiting.slots))

    def _hurry(self, waiting: _Waiting) -> None:
        """Start one more zygote although calls need the processors, if the calls in line gain by it."""
        template = waiting.template
        if template is None or waiting.is_hurried or len(waiting.slots) >= template.keep:
            return
        if not waiting.line.is_long(len(waiting.slots)) or self._clock() < waiting.paused_until:
            return
        waiting.is_hurried = True

        async def start() -> None:
            try:
                await self._tried(waiting, self._one_zygote)
            finally:
                waiting.is_hurried = False

        self._background.start(start, after=0.0)

    def goes_cold(self, kind: Kind, by: int) -> None:
        """So many more calls of this kind have an interpreter started."""
        waiting = self._here().get(kind)
        if waiting is not None:
            waiting.line.cold += by

    def returned(self, kind: Kind, slot: Slot) -> None:
        """What was forked from a zygote is not there any more: the next one can be."""
        waiting = self._here().get(kind)
        if waiting is None:
            self._close([slot])
            return
        if slot.busy_since:
            waiting.line.was_busy(slot.busy_since)
            slot.busy_since = 0.0
        self._free(waiting, slot)

    def used(self, kind: Kind, template: Template) -> None:
        """A call of this kind has ended: the next ones find interpreters that were made as for this one."""
        kinds = self._here()
        waiting = kinds.get(kind)
        if waiting is None:
            waiting = kinds[kind] = _Waiting(Line(self._clock))
        kinds.move_to_end(kind)
        waiting.template, waiting.seconds, waiting.last_used = template, template.seconds, self._clock()
        while len(kinds) > MAX_KINDS:
            _, idle = kinds.popitem(last=False)
            self._clear(idle)
        self._fill(waiting, after=0.0 if waiting.slots or waiting.seats else BEGINS_AFTER_S)

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
        """Let nothing wait any more. A zygote that a call has something of is closed when that has ended."""
        waiting.template = None
        seats = [*waiting.seats]
        waiting.seats.clear()
        of_seats = [seat.slot for seat in seats if seat.slot is not None]
        closed = [slot for slot in waiting.slots if slot.is_idle or slot in of_seats]
        for slot in waiting.slots:
            slot.is_spoilt = True
        waiting.slots = [slot for slot in waiting.slots if slot not in closed]
        self._close(closed, seats)

    def _give_up(self, waiting: _Waiting, seat: Seat) -> None:
        """End what waits; its zygote is free then."""
        slot = seat.slot

        async def work() -> None:
            await _ended(seat)
            if slot is not None:
                self._free(waiting, slot)

        self._background.start(work, after=0.0)

    def _given_back(self, waiting: _Waiting, found: Slot | Seat) -> None:
        """A call was given up that had just got this."""
        if isinstance(found, Seat):
            waiting.seats.appendleft(found)
        else:
            self._free(waiting, found)

    def _free(self, waiting: _Waiting, slot: Slot) -> None:
        """Give a zygote to the call that waits for one, or let it be idle; or close it."""
        slot.is_idle = True
        if slot not in waiting.slots or not slot.is_fit:
            if slot in waiting.slots:
                waiting.slots.remove(slot)
            self._close([slot])
            return
        slot.is_idle = not waiting.line.serve(slot)

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
        if waiting.is_filling or self._clock() < waiting.paused_until:
            return
        for seat in [seat for seat in waiting.seats if not seat.parked.is_waiting]:
            waiting.seats.remove(seat)
            self._give_up(waiting, seat)
        worn = [slot for slot in waiting.slots if slot.is_idle and not slot.is_fit]
        waiting.slots = [slot for slot in waiting.slots if slot not in worn]
        self._close(worn)
        if not waiting.lacks_one():
            return
        waiting.is_filling = True

        async def fill() -> None:
            try:
                await self._filled(waiting)
            finally:
                waiting.is_filling = False

        self._background.start(fill, after=after)

    async def _filled(self, waiting: _Waiting) -> None:
        while True:
            await self._admission().calm()  # once no call needs the processor that this takes
            if not waiting.lacks_one():
                return
            if not await self._tried(waiting, self._one_more):
                return

    async def _tried(self, waiting: _Waiting, work: Callable[[_Waiting], Awaitable[None]]) -> bool:
        """Whether that went well. Otherwise the kind has a pause."""
        try:
            await work(waiting)
        except NotParked as exc:
            _logger.info("no interpreter waits for the next call: %s: %s", exc.code, exc.message)
            waiting.why, waiting.paused_until = exc.code, self._clock() + PAUSE_S
            if waiting.why != MEMORY:
                waiting.why = "not_parked"
            return False
        waiting.why = "none_waiting"
        return True

    async def _one_more(self, waiting: _Waiting) -> None:
        """Let one more wait; NotParked if that can't be."""
        template, slot = waiting.template, waiting.idle()
        if template is None:
            return
        if slot is None:
            _require_memory()
        if not template.forks:
            self._seated(waiting, await template.seat(None))
            return
        slot = slot or await self._new_zygote(waiting, template)
        if slot is None:
            return
        slot.is_idle = False
        try:
            seat = await template.seat(slot)
        except BaseException:
            if slot in waiting.slots:  # otherwise it is closed with all others
                slot.is_spoilt = True
                self._free(waiting, slot)
            raise
        self._seated(waiting, seat)

    async def _one_zygote(self, waiting: _Waiting) -> None:
        """One more zygote for the calls in line; NotParked if that can't be."""
        if waiting.template is not None:
            _require_memory()
            await self._new_zygote(waiting, waiting.template)

    def _seated(self, waiting: _Waiting, seat: Seat) -> None:
        """Let it wait, or give it to a call that waits for one."""
        is_spoilt = seat.slot is not None and seat.slot.is_spoilt
        if waiting.template is None or is_spoilt:  # cleared meanwhile
            self._give_up(waiting, seat)
        elif seat.room is not None or not waiting.line.serve(seat):
            waiting.seats.append(seat)

    async def _new_zygote(self, waiting: _Waiting, template: Template) -> Slot | None:
        """One more; None if there is no use for it any more."""
        begun = self._clock()
        had_none = not any(each.slots for each in self._here().values())
        slot = await template.zygote()
        waiting.line.start_s = self._clock() - begun
        if waiting.template is None:
            self._close([slot])
            return None
        waiting.slots.append(slot)
        if had_none:
            self._sweep_later()
        if waiting.line.serve(slot):
            slot.is_idle = False
            return None
        return slot

    def _close(self, slots: Sequence[Slot], seats: Sequence[Seat] = ()) -> None:
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
        if seat.room is not None:
            await off_loop(seat.room.remove, shielded=True)


def _require_memory() -> None:
    if not memory_allows():
        raise NotParked("expected free memory, found too little", code=MEMORY)


def memory_allows(path: str = "/proc/meminfo") -> bool:
    """Whether enough memory is free for one more process that waits."""
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - of the system, one page
            values = dict(line.split(":", 1) for line in file)
        free, total = (int(values[name].split()[0]) << 10 for name in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError, ValueError):
        return True  # a system that does not tell: what waits is ended when it is idle
    return free > max(FREE_BYTES, int(total * FREE_SHARE))
