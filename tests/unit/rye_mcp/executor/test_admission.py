"""Calls are admitted one after the other; everybody else is heard between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, repeat

import anyio
import anyio.lowlevel
import pytest

from rye_mcp.executor.admission import LOOK_S, MAX_WAIT_S, STARVED_NS, _Admission, admitted

pytestmark = pytest.mark.anyio

CALLS = 20


async def test_the_first_comes_first() -> None:
    happened: list[int] = []

    async def call(number: int, begun: anyio.Event) -> None:
        begun.set()
        await admitted()
        happened.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(CALLS):
            begun = anyio.Event()
            tasks.start_soon(call, number, begun)
            await begun.wait()
    assert happened == list(range(CALLS))


async def test_many_that_come_at_once_leave_room_for_others() -> None:
    happened: list[str] = []

    async def call() -> None:
        await admitted()
        happened.append("call")

    async def other() -> None:
        while happened.count("call") < CALLS:
            happened.append("other")
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(CALLS):
            tasks.start_soon(call)
    # Within a round trio takes tasks in any order: one may be the last of its round, the next one the first.
    assert ("call", "call", "call") not in zip(happened, happened[1:], happened[2:], strict=False)


async def test_nobody_waits_for_who_has_given_up() -> None:
    happened: list[int] = []
    scopes = [anyio.CancelScope() for _ in range(CALLS)]

    async def call(number: int) -> None:
        with scopes[number]:
            await admitted()
            happened.append(number)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for number in range(CALLS):
                tasks.start_soon(call, number)
            for scope in scopes[1::2]:
                scope.cancel()
    assert set(range(0, CALLS, 2)) <= set(happened)


async def _enter_together(waited_ns: Iterator[int], calls: int) -> tuple[list[int], float]:
    """Who was admitted, in order, and how long that took."""
    admission = _Admission(lambda: next(waited_ns))
    happened: list[int] = []
    begun = time.perf_counter()

    async def call(number: int) -> None:
        await admission.enter()
        happened.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(calls):
            tasks.start_soon(call, number)
            await anyio.lowlevel.checkpoint()
    return happened, time.perf_counter() - begun


async def test_while_there_is_no_processor_the_next_one_waits_but_not_for_ever() -> None:
    looks = count(step=STARVED_NS + 1)
    happened, took = await _enter_together(looks, 4)
    assert happened == [0, 1, 2, 3]
    assert took >= 3 * (MAX_WAIT_S - LOOK_S)
    assert next(looks) // (STARVED_NS + 1) <= 1 + 3 * (2 + MAX_WAIT_S / LOOK_S)


async def test_with_a_processor_nobody_waits() -> None:
    looks = iter([5, 6, 7, STARVED_NS + 7])
    happened, _ = await _enter_together(looks, 4)
    assert happened == [0, 1, 2, 3]
    assert next(looks, None) is None, "each of them looked once"


async def test_it_goes_on_as_soon_as_there_is_a_processor_again() -> None:
    looks = iter([0, 2 * STARVED_NS, *repeat(2 * STARVED_NS + 1, 3)])
    happened, _ = await _enter_together(looks, 3)
    assert happened == [0, 1, 2]
    assert list(looks) == [2 * STARVED_NS + 1], "one of them looked twice"


def test_each_event_loop_has_turns_of_its_own() -> None:
    for _ in range(2):
        anyio.run(admitted)
