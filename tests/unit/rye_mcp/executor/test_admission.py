"""Calls are admitted one after the other; everybody else is heard between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, repeat

import anyio
import anyio.lowlevel
import pytest

from rye_mcp.executor.admission import LOOK_S, MAX_WAIT_S, STARVED_NS, Admission, admitted

pytestmark = pytest.mark.both_loops

CALLS = 20


async def test_the_first_comes_first() -> None:
    happened: list[int] = []

    async def call(number: int, begun: anyio.Event) -> None:
        begun.set()
        async with admitted():
            happened.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(CALLS):
            begun = anyio.Event()
            tasks.start_soon(call, number, begun)
            await begun.wait()
    assert happened == list(range(CALLS))


async def test_many_that_come_at_once_leave_room_for_others() -> None:
    happened: list[str] = []
    over = anyio.Event()

    async def call() -> None:
        async with admitted():
            happened.append("call")
            await over.wait()

    async def other() -> None:
        while happened.count("call") < CALLS:
            happened.append("other")
            await anyio.lowlevel.checkpoint()
        over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(CALLS):
            tasks.start_soon(call)
    # Within a round trio takes tasks in any order: one may be the last of its round, the next one the first.
    assert ("call", "call", "call") not in zip(happened, happened[1:], happened[2:], strict=False)


async def test_nobody_waits_for_a_call_that_has_given_up() -> None:
    happened: list[int] = []
    scopes = [anyio.CancelScope() for _ in range(CALLS)]

    async def call(number: int) -> None:
        with scopes[number]:
            async with admitted():
                happened.append(number)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for number in range(CALLS):
                tasks.start_soon(call, number)
            for scope in scopes[1::2]:
                scope.cancel()
    assert set(range(0, CALLS, 2)) <= set(happened)


async def _enter_together(waited_ns: Iterator[int], calls: int, processors: int) -> tuple[list[int], float]:
    """Who was admitted, in order, while all of them are under way, and how long that took."""
    admission = Admission(lambda: next(waited_ns), processors)
    happened: list[int] = []
    all_there = anyio.Event()
    begun = time.perf_counter()

    async def call(number: int) -> None:
        async with admission:
            happened.append(number)
            if len(happened) == calls:
                all_there.set()
            await all_there.wait()

    async with anyio.create_task_group() as tasks:
        for number in range(calls):
            tasks.start_soon(call, number)
            await anyio.lowlevel.checkpoint()
    return happened, time.perf_counter() - begun


async def test_while_there_is_no_processor_the_next_one_waits_but_not_for_ever() -> None:
    looks = count(step=STARVED_NS + 1)
    happened, took = await _enter_together(looks, 4, processors=1)
    assert happened == [0, 1, 2, 3]
    assert took >= 3 * (MAX_WAIT_S - LOOK_S)
    assert next(looks) // (STARVED_NS + 1) <= 4 + 3 * (2 + MAX_WAIT_S / LOOK_S)


async def test_with_a_processor_nobody_waits() -> None:
    looks = iter([5, 6, 7, 8, STARVED_NS + 8])
    happened, _ = await _enter_together(looks, 3, processors=1)
    assert happened == [0, 1, 2]
    assert next(looks, None) is None, "each of them looked when it was admitted, two of them before that too"


async def test_it_goes_on_as_soon_as_there_is_a_processor_again() -> None:
    looks = iter([0, 2 * STARVED_NS, *repeat(2 * STARVED_NS + 1, 3), 0])
    happened, _ = await _enter_together(looks, 2, processors=1)
    assert happened == [0, 1]
    assert list(looks) == [2 * STARVED_NS + 1, 0], "it looked again once, and then when it was admitted"


async def test_fewer_than_there_are_processors_look_for_none() -> None:
    looks = count(step=STARVED_NS + 1)
    admission = Admission(lambda: next(looks), 3)
    async with admission, admission:
        pass
    for _ in range(CALLS):
        async with admission:
            pass
    assert next(looks) == 0, "calls one after the other never wait, however busy others keep the machine"


async def test_a_call_that_failed_is_no_longer_under_way() -> None:
    looks = count()
    admission = Admission(lambda: next(looks), 2)
    for _ in range(CALLS):
        with pytest.raises(ValueError, match="refused"):
            async with admission:
                raise ValueError("refused")
    assert next(looks) == 0


async def test_it_is_calm_when_a_call_that_was_one_too_many_has_ended_or_given_up() -> None:
    admission = Admission(lambda: 0, 1)
    with anyio.fail_after(10):
        async with admission:
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with admission:
                    raise AssertionError("it was cancelled before")
            await admission.calm()
            async with anyio.create_task_group() as tasks, admission:
                begun, over = anyio.Event(), anyio.Event()
                tasks.start_soon(_calm, admission, begun, over)
                await begun.wait()
                for _ in range(CALLS):
                    await anyio.lowlevel.checkpoint()
                assert not over.is_set()
            assert over.is_set()


async def _calm(admission: Admission, begun: anyio.Event, over: anyio.Event) -> None:
    begun.set()
    await admission.calm()
    over.set()


async def _once() -> None:
    async with admitted():
        pass


def test_each_event_loop_has_turns_of_its_own() -> None:
    for _ in range(2):
        anyio.run(_once)
