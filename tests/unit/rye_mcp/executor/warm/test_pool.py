"""How many wait for calls, which one a call gets, and when they go: with seats that start nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lilux.primitives.subprocess import (
    CallSpec,
    Halves,
    NotParked,
    RuntimeSpec,
    SubprocessResult,
    ZygoteFacts,
)
from rye_mcp.executor.admission import Admission, admitted
from rye_mcp.executor.job.bytecode import Background
from rye_mcp.executor.warm.line import PROCESSORS, Line, Place
from rye_mcp.executor.warm.pool import MAX_KINDS, PAUSE_S, Pool, Seat, memory_allows
from rye_mcp.executor.warm.recipe import MAX_FORK_MS, MAX_PROCESSOR_MS, Recipe, Slot, is_worn
from rye_mcp.executor.warm.turns import Turn
from rye_mcp.metadata import Warm

RECIPE = Recipe.of(Halves(RuntimeSpec(command="/bin/sh"), CallSpec()), Warm("python"))


class Parked:
    """Waits for a call that never comes."""

    is_waiting = True

    async def run(self, call: CallSpec) -> SubprocessResult:
        raise AssertionError(call)

    async def end(self) -> None:
        self.is_waiting = False


class Room:
    """A directory that was made nowhere."""

    root = Path("/nowhere")
    is_removed = False

    def remove(self) -> None:
        self.is_removed = True


class Zygote:
    """Forks nothing."""

    def __init__(self) -> None:
        self.is_alive = True
        self.facts = ZygoteFacts(1, time.monotonic(), 0, 1000, 1000, None)

    async def close(self) -> None:
        self.is_alive = False


@dataclass
class Template:
    """Makes such seats, or refuses to; forked from such zygotes if it `forks`."""

    keep: int = 2
    seconds: float = 300.0
    refuses: str | None = None
    forks: bool = False
    made: list[Any] = field(default_factory=list)
    zygotes: list[Any] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    reached: anyio.Event = field(default_factory=anyio.Event)

    async def zygote(self) -> Slot:
        made: Any = Zygote()
        self.zygotes.append(made)
        self.slots.append(Slot(made, RECIPE))
        return self.slots[-1]

    async def seat(self, slot: Slot | None) -> Seat:
        self.reached.set()
        if self.refuses is not None:
            raise NotParked("expected a seat, found none", code=self.refuses)
        made = Seat(Parked(), RECIPE, Room(), slot=slot)
        self.made.append(made)
        return made


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class OneProcessor(Admission):
    """The calls of a machine with one processor, and whether somebody has asked if they leave it free."""

    def __init__(self) -> None:
        super().__init__(lambda: 0, 1)
        self.reached = anyio.Event()

    async def calm(self) -> None:
        self.reached.set()
        await super().calm()


@asynccontextmanager
async def pool(
    admission: Callable[[], Admission] = admitted,
) -> AsyncIterator[tuple[Pool, Background, Clock]]:
    background, clock = Background(), Clock()
    made = Pool(background, clock=clock, admission=admission)
    try:
        yield made, background, clock
    finally:
        await made.close()
        await background.close()


async def test_the_first_call_has_one_wait_and_each_that_finds_none_one_more() -> None:
    async with pool() as (found, background, _):
        template = Template(keep=2)
        assert found.take("a").why == "first_call"
        found.used("a", template)
        await background.wait()
        assert found.count == 1
        assert found.take("a").seat is template.made[0]
        assert found.take("a").why == "none_waiting"
        found.used("a", template)
        await background.wait()
        assert found.count == 2
        found.take("b")
        for _ in range(3):
            found.take("a")
        found.used("a", template)
        await background.wait()
        assert found.count == 2


async def test_one_more_kind_takes_the_place_of_the_one_that_is_idle_longest() -> None:
    async with pool() as (found, background, _):
        templates = {kind: Template() for kind in range(MAX_KINDS + 1)}
        for kind, template in templates.items():
            found.used(kind, template)
            await background.wait()
        assert found.count == MAX_KINDS
        assert not templates[0].made[0].parked.is_waiting
        assert templates[0].made[0].room.is_removed
        assert found.take(0).why == "first_call"
        assert found.take(1).seat is not None


async def test_what_has_ended_is_given_to_no_call_and_its_directory_goes() -> None:
    async with pool() as (found, background, _):
        template = Template()
        found.used("a", template)
        await background.wait()
        await template.made[0].parked.end()
        assert found.take("a").seat is None
        await background.wait()
        assert template.made[0].room.is_removed


async def test_after_a_failure_none_is_started_for_a_while() -> None:
    async with pool() as (found, background, clock):
        found.used("a", Template(refuses="spawn_failed"))
        await background.wait()
        assert found.take("a").why == "not_parked"
        template = Template()
        found.used("a", template)
        await background.wait()
        assert not template.made
        clock.now += PAUSE_S
        found.used("a", template)
        await background.wait()
        assert found.count == 2  # one more, as a call has found none


@asynccontextmanager
async def with_a_zygote(keep: int = 1) -> AsyncIterator[tuple[Pool, Background, Template]]:
    """A pool in which something waits that was forked from a zygote."""
    async with pool() as (found, background, _):
        template = Template(keep=keep, forks=True)
        found.used("a", template)
        await background.wait()
        yield found, background, template


async def test_a_call_that_finds_none_gets_a_zygote_that_is_idle() -> None:
    async with with_a_zygote() as (found, background, template):
        seat = found.take("a").seat
        assert seat is not None
        assert seat is template.made[0]
        assert seat.slot is not None
        assert found.take("a").why == "none_waiting"
        await seat.parked.end()
        found.returned("a", seat.slot)
        assert await found.free("a") is seat.slot
        await background.wait()
        assert len(template.zygotes) == 1


async def test_a_call_waits_for_the_zygote_that_is_free_next() -> None:
    async with with_a_zygote() as (found, _, _template):
        slot = taken(found)
        got: list[object] = []

        async def another() -> None:
            got.append(await found.free("a"))

        async with anyio.create_task_group() as tasks:
            waiting = found._here()["a"]
            waiting.line.start_s = 3600.0
            tasks.start_soon(another)
            while not waiting.line._places:
                await anyio.lowlevel.checkpoint()
            found.returned("a", slot)
        assert got == [slot]
        assert not slot.is_idle


async def test_a_call_does_not_wait_for_what_takes_longer_than_a_start() -> None:
    async with with_a_zygote() as (found, _, _template):
        taken(found)
        line = found._here()["a"].line
        line.start_s, line.busy_s = 1.0, 2.0
        assert not line.is_worth_it(1)
        assert await found.free("a") is None


async def test_the_more_calls_start_one_the_longer_the_others_wait() -> None:
    async with with_a_zygote() as (found, _, _template):
        line = found._here()["a"].line
        line.start_s, line.busy_s = 1.0, 1.5
        assert not line.is_worth_it(1)
        found.goes_cold("a", 100)
        assert line.is_worth_it(1)


async def test_as_many_calls_wait_as_would_wait_longer_for_interpreters_of_their_own() -> None:
    async with with_a_zygote() as (found, _, _template):
        line = found._here()["a"].line
        line.start_s, line.busy_s = 1.0, 1.0 / PROCESSORS
        line._places.extend(Place(anyio.Event()) for _ in range(1000))
        assert line.is_worth_it(1)
        line.busy_s = 1.01 / PROCESSORS
        assert not line.is_worth_it(1)


async def test_a_long_line_gets_one_more_zygote_although_no_processor_is_free() -> None:
    calls = OneProcessor()
    async with pool(lambda: calls) as (found, background, _):
        template = Template(keep=2, forks=True)
        found.used("a", template)
        await background.wait()
        taken(found)
        line = found._here()["a"].line
        line.start_s, line.busy_s = 3600.0, 7000.0
        found.goes_cold("a", 100)
        async with calls, calls:
            assert await found.free("a") is template.slots[1]
        assert len(template.zygotes) == 2


async def test_a_short_line_waits_for_the_zygotes_that_there_are() -> None:
    async with with_a_zygote(keep=2) as (found, _background, template):
        slot = taken(found)
        line = found._here()["a"].line
        line.start_s, line.busy_s = 3600.0, 1800.0
        got: list[object] = []

        async def another() -> None:
            got.append(await found.free("a"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(another)
            while not line._places:
                await anyio.lowlevel.checkpoint()
            assert not found._here()["a"].is_hurried
            found.returned("a", slot)
        assert got == [slot]
        assert len(template.zygotes) == 1


def taken(found: Pool) -> Slot:
    """The zygote of the one that waits, which a call takes."""
    seat = found.take("a").seat
    assert seat is not None
    assert seat.slot is not None
    return seat.slot


WORN = {
    "slow": lambda facts: replace(
        facts, last_fork_ms=MAX_FORK_MS + 1, forks=10, processor_ms=10 * MAX_PROCESSOR_MS + 1
    ),
    "grown": lambda facts: replace(facts, memory_kb=facts.memory_kb * 2),
    "used often": lambda facts: replace(facts, forks=1000),
}


def test_one_that_is_slow_because_others_have_the_processors_is_kept() -> None:
    zygote: Any = Zygote()
    zygote.facts = replace(zygote.facts, last_fork_ms=60_000.0, forks=10, processor_ms=10.0)
    assert not is_worn(zygote)
    zygote.facts = replace(zygote.facts, processor_ms=10 * MAX_PROCESSOR_MS + 1)
    assert is_worn(zygote)


@pytest.mark.parametrize("how", WORN)
async def test_a_worn_zygote_is_closed_when_the_call_that_has_its_child_has_ended(how: str) -> None:
    async with with_a_zygote() as (found, background, template):
        slot = taken(found)
        template.zygotes[0].facts = WORN[how](template.zygotes[0].facts)
        found.used("a", template)
        await background.wait()
        assert template.zygotes[0].is_alive
        assert template.made[0].parked.is_waiting
        found.returned("a", slot)
        await background.wait()
        assert not template.zygotes[0].is_alive
        found.used("a", template)
        await background.wait()
        assert len(template.zygotes) == 2


class Ending(Parked):
    """Takes its call, and ends in this way."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def run(self, call: CallSpec) -> SubprocessResult:
        return SubprocessResult(self.kind == "exited", "", "", 0, 0.0, kind=self.kind)


@pytest.mark.parametrize("kind", ["exited", "signaled", "timeout"])
async def test_nothing_more_is_forked_after_a_call_has_crashed(kind: str) -> None:
    async with with_a_zygote() as (found, background, template):
        seat = found.take("a").seat
        assert seat is not None
        turn = Turn("a", Warm("python"), replace(seat, parked=Ending(kind)), pool=found)
        assert await turn.run(CallSpec()) is not None
        await background.wait()
        assert template.zygotes[0].is_alive is (kind == "exited")


async def test_a_call_waits_no_longer_than_twice_as_long_as_its_turn_should_take() -> None:
    line = Line()
    line.start_s, line.busy_s = 0.001, 0.002
    with anyio.fail_after(10):
        assert await line.wait(lambda _: None, 1) is None
    assert not line._places


async def test_what_a_call_has_taken_is_not_ended_with_what_waits() -> None:
    async with with_a_zygote(keep=2) as (found, background, template):
        slot = taken(found)
        found.renew("a")
        await background.wait()
        assert template.zygotes[0].is_alive
        assert template.made[0].parked.is_waiting
        found.returned("a", slot)
        await background.wait()
        assert not template.zygotes[0].is_alive


async def test_what_waits_is_ended_with_its_zygote_when_something_has_changed() -> None:
    async with with_a_zygote() as (found, background, template):
        found.renew("a")
        await background.wait()
        assert not template.made[0].parked.is_waiting
        assert not template.zygotes[0].is_alive


async def test_closing_ends_all_of_them() -> None:
    async with pool() as (found, background, _):
        template = Template()
        found.used("a", template)
        await background.wait()
        await found.close()
        assert not template.made[0].parked.is_waiting
        assert template.made[0].room.is_removed


async def test_none_is_started_while_there_are_more_calls_than_processors() -> None:
    calls = OneProcessor()
    async with pool(lambda: calls) as (found, background, _):
        template = Template()
        found.used("a", template)
        await background.wait()
        async with calls:
            async with calls:
                calls.reached = template.reached = anyio.Event()
                assert found.take("a").seat is template.made[0]
                found.used("a", template)
                await calls.reached.wait()  # for the question, or for a start without it
                assert len(template.made) == 1
            await background.wait()
            assert len(template.made) == 2
            assert found.count == 1


@pytest.mark.parametrize(
    ("free", "total", "allowed"),
    [(300, 1000, True), (200, 1000, False), (900, 10_000, False), (2000, 10_000, True)],
)
def test_little_memory_lets_none_wait(tmp_path: Path, free: int, total: int, allowed: bool) -> None:
    told = tmp_path / "meminfo"
    told.write_text(f"MemTotal: {total * 1024} kB\nMemFree: 1 kB\nMemAvailable: {free * 1024} kB\n")
    assert memory_allows(str(told)) is allowed
    assert memory_allows(str(tmp_path / "missing"))
