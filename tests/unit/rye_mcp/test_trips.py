"""Stages that share one trip to a thread: where each runs, what comes back, how they fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from rye_mcp.apart import FILE_HANDS, apart, in_one_trip, off_loop, on_loop

pytestmark = pytest.mark.both_loops
here = threading.get_ident


async def test_stages_that_need_no_event_loop_share_a_thread() -> None:
    places: list[int] = []

    async def stages() -> str:
        places.append(here())
        places.append(await off_loop(here))
        places.append(await off_loop(here, shielded=True))
        return "answer"

    assert await in_one_trip(stages) == "answer"
    assert len({*places}) == 1
    assert here() not in places


async def test_a_stage_that_needs_the_event_loop_gets_it_and_so_do_all_that_follow() -> None:
    async def stages() -> list[int]:
        before = here()
        await on_loop()
        after = here()
        await anyio.lowlevel.checkpoint()
        await on_loop()
        return [before, after, here(), await off_loop(here)]

    before, after, later, apart_again = await in_one_trip(stages)
    assert after == later == here()
    assert here() not in (before, apart_again)


async def test_work_that_takes_turns_is_waited_for_in_the_event_loop() -> None:
    async def stages() -> int:
        found = await apart(lambda: 7)
        assert here() == own
        return found

    own = here()
    assert await in_one_trip(stages) == 7


async def _at_once() -> None:
    raise LookupError("in the thread")


async def _later() -> None:
    await on_loop()
    raise LookupError("in the event loop")


@pytest.mark.parametrize("stages", [_at_once, _later])
async def test_an_error_of_a_stage_arrives(stages: Callable[[], object]) -> None:
    with pytest.raises(LookupError):
        await in_one_trip(stages)  # type: ignore[arg-type]


async def test_outside_of_a_trip_there_is_nothing_to_change() -> None:
    await on_loop()
    assert await off_loop(here) != here()


async def test_what_is_cancelled_before_it_begins_leaves_nothing() -> None:
    begun: list[int] = []

    async def stages() -> None:
        begun.append(here())

    with anyio.CancelScope() as scope:
        scope.cancel()
        await in_one_trip(stages)
    assert scope.cancelled_caught
    assert not begun


async def test_what_is_cancelled_in_the_event_loop_is_unwound() -> None:
    ended: list[int] = []

    async def stages() -> None:
        try:
            await on_loop()
            scope.cancel()
            await anyio.sleep_forever()
        finally:
            ended.append(here())

    with anyio.CancelScope() as scope:
        await in_one_trip(stages)
    assert ended == [here()]


def test_what_ctrl_c_gives_up_waits_for_the_thread() -> None:
    """Whoever logs that it was given up must know whether it has begun; asyncio cancels a task at once."""
    assert asyncio.run(_given_up()) == ["begun", "given up"]


async def _given_up() -> list[str]:
    loop, entered, go, told = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), list[str]()

    async def stages() -> None:
        loop.call_soon_threadsafe(entered.set)
        go.wait(10)
        told.append("begun")
        await on_loop()
        told.append("never")

    async def trip() -> None:
        try:
            await in_one_trip(stages)
        finally:
            told.append("given up")

    task = asyncio.create_task(trip())
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0)  # it is told so
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    return told


async def test_as_many_calls_as_there_are_hands_work_with_files_at_a_time() -> None:
    free, gate, done = threading.Semaphore(FILE_HANDS), threading.Event(), list[bool]()

    def work() -> None:
        found = free.acquire(blocking=False)
        gate.wait(10)
        done.append(found)
        free.release()

    async with anyio.create_task_group() as tasks:
        for _ in range(3 * FILE_HANDS):
            tasks.start_soon(off_loop, work)
        for _ in range(3 * FILE_HANDS):
            await anyio.lowlevel.checkpoint()
        gate.set()
    assert done == [True] * 3 * FILE_HANDS


@pytest.mark.parametrize("error", [LookupError, SystemExit])
async def test_an_error_of_the_work_arrives(error: type[BaseException]) -> None:
    def work() -> None:
        raise error

    for _ in range(2 * FILE_HANDS):
        with pytest.raises(error):
            await off_loop(work)


async def test_what_is_waiting_for_a_thread_and_cancelled_is_waited_for() -> None:
    begun, go, ended = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        go.wait(10)
        ended.append("work")

    async def call() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await off_loop(work)
        ended.append("call")

    scopes: list[anyio.CancelScope] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        scopes[0].cancel()
        await anyio.lowlevel.checkpoint()
        go.set()
    assert ended == ["work", "call"]


_ENDS = """
import asyncio, atexit, sys, threading
from rye_mcp.apart import off_loop

ending = threading.Event()
atexit.register(ending.set)

def work():
    loop.call_soon_threadsafe(begun.set)
    ending.wait()
    print("ending", flush=True)
    print(sys.stdin.readline().strip(), flush=True)

async def main():
    global loop, begun
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.create_task(off_loop(work))
    await begun.wait()
    task.cancel()

asyncio.run(main())
"""


def test_a_process_that_ends_waits_for_what_is_written() -> None:
    command = [sys.executable, "-c", _ENDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ending\n"
        said, _ = process.communicate("written\n", timeout=30)
    assert (process.returncode, said) == (0, "written\n")
