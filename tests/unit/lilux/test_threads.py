"""Short work in threads: what comes back, in which thread, and what a fork or the end of a loop leaves."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading

import pytest

from lilux import _threads
from lilux._threads import in_thread

_whose: contextvars.ContextVar[str] = contextvars.ContextVar("whose", default="nobody's")


def test_the_answer_comes_back_and_the_work_has_the_context_of_its_task() -> None:
    async def main() -> tuple[str, int]:
        _whose.set("this task's")
        return await in_thread(lambda: (_whose.get(), threading.get_ident()))

    whose, thread = asyncio.run(main())
    assert whose == "this task's"
    assert thread != threading.get_ident()


def test_one_thread_does_work_that_follows_other_work() -> None:
    async def main() -> set[int]:
        return {await in_thread(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(main())) == 1


def test_work_at_the_same_time_has_threads_of_its_own() -> None:
    meeting = threading.Barrier(3, timeout=30)

    async def main() -> list[int]:
        return await asyncio.gather(*(in_thread(meeting.wait) for _ in range(3)))

    assert sorted(asyncio.run(main())) == [0, 1, 2]


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_an_error_arrives(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("of the work")

    async def main() -> str:
        with pytest.raises(error) as caught:
            await in_thread(fail)
        return str(caught.value)

    assert asyncio.run(main()) == "of the work"


def test_what_no_future_can_hold_arrives_as_an_error_that_can() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError) as caught:
            await in_thread(lambda: next(iter(())))
        assert isinstance(caught.value.__cause__, StopIteration)

    asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_the_thread_to_the_next() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert goes_on.wait(30)

    async def main() -> int:
        task = asyncio.create_task(in_thread(work))
        assert await in_thread(lambda: begun.wait(30))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        return await in_thread(lambda: 7)

    assert asyncio.run(main()) == 7


def test_the_child_of_a_fork_has_threads_of_its_own() -> None:
    async def main() -> int:
        return await in_thread(os.getpid)

    assert asyncio.run(main()) == os.getpid()
    child = os.fork()
    if not child:
        try:
            os._exit(0 if asyncio.run(asyncio.wait_for(main(), 30)) == os.getpid() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_last_thread_may_end_while_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaving(list[object]):
        """Threads that are there when somebody looks, and not when they are taken."""

        def __bool__(self) -> bool:
            return True

    async def main() -> int:
        return await in_thread(lambda: 7)

    monkeypatch.setattr(_threads, "_idle", Leaving())
    assert asyncio.run(main()) == 7


def test_a_thread_that_got_no_work_for_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> threading.Thread:
        return await in_thread(threading.current_thread)

    monkeypatch.setattr(_threads, "IDLE_S", 0.05)
    monkeypatch.setattr(_threads, "_idle", [])
    thread = asyncio.run(main())
    thread.join(30)
    assert not thread.is_alive()
    assert asyncio.run(main()) is not thread
