"""One call is admitted a round of the event loop; everybody else is heard between two of them."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from rye_mcp.executor.admission import admitted

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


def test_each_event_loop_has_turns_of_its_own() -> None:
    for _ in range(2):
        anyio.run(admitted)
