"""Work whose size others choose, done in a thread, so that the event loop answers everybody else meanwhile.

Rules:

- At most `HANDS` pieces of such work run at a time in an event loop, and one of each caller (`on_behalf_of`:
  a session). The others wait for their turn: one session with many calls does not keep others waiting.
- Work that may take longer, such as a first index, has a thread of its own, and turns of its own (`in_turn`).
- What a call does with files (`off_loop`) is short, and waits for no turn: only a disk or a lock holds it up.
- Stages that follow each other share one trip to a thread (`in_one_trip`), up to the first that says that it
  needs the event loop (`on_loop`).
- The work has a limit of its own, as `lilux.schemas` has. A call that is given up waits for what runs.

    errors = await apart(partial(validate_parameters, values, schema))
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import field
from itertools import islice
from threading import Event
from typing import Any, Final, Generic, TypeVar

import anyio
from anyio import CancelScope, CapacityLimiter, WouldBlock, to_thread
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from lilux import _loops
from lilux._dataclasses import dataclass
from lilux._loops import caller, on_behalf_of
from lilux._threads import in_thread

__all__ = [
    "HANDS",
    "LARGE",
    "apart",
    "apart_if_large",
    "beside",
    "in_one_trip",
    "in_turn",
    "off_loop",
    "on_behalf_of",
    "on_loop",
    "size_of",
]

HANDS: Final = 2
"""How many pieces of work run at a time; more would only take time from the event loop."""

FILE_HANDS: Final = 4
"""How many calls work with files at a time. A busy disk delays only these."""

LARGE: Final = 1000
"""From how many values on, or pieces of `PIECE_CHARACTERS`, work on them is done apart."""

PIECE_CHARACTERS: Final = 100

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Turn:
    """The turn of one caller, and how many pieces of its work are under way or wait."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


@dataclass(slots=True)
class _Turns:
    """The queue of work in one event loop."""

    hands: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(HANDS))
    file_hands: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(FILE_HANDS))
    by_caller: dict[tuple[str, str], _Turn] = field(default_factory=dict)


_turns: RunVar[_Turns] = RunVar("turns")


async def apart(work: Callable[[], Answer]) -> Answer:
    """Do the work in a thread when it is the caller's turn, and return its answer."""
    async with in_turn():
        return await to_thread.run_sync(work, limiter=_turns_here().hands)


async def off_loop(work: Callable[[], Answer], *, shielded: bool = False) -> Answer:
    """Do the work in a thread: a stage of a call that reads or writes files.

    It is done even in a call that was given up if it is `shielded`: for what a call has to leave behind.
    """
    if _is_on_a_trip.get():
        return work()
    if not shielded:
        return await _in_file_thread(work)
    answers: list[Answer] = []
    with CancelScope(shield=True):
        answers.append(await _in_file_thread(work))
    return answers[0]


async def _in_file_thread(work: Callable[[], Answer]) -> Answer:
    """Do the work in one of few threads; a call that is given up waits for what runs."""
    hands = _turns_here().file_hands
    if _loops.is_trio():
        return await to_thread.run_sync(work, limiter=hands)
    await checkpoint_if_cancelled()
    hand = object()
    try:
        hands.acquire_on_behalf_of_nowait(hand)
    except WouldBlock:
        await hands.acquire_on_behalf_of(hand)
    answers: list[Answer] = []
    try:
        with CancelScope(shield=True):
            answers.append(await in_thread(work))
    finally:
        hands.release_on_behalf_of(hand)
    return answers[0]


async def in_one_trip(stages: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    """Take stages through one thread, as far as they only do what `off_loop` is for; the rest as always."""
    trip = _Trip(stages())
    try:
        await off_loop(trip.go)
    except BaseException:
        await trip.give_up()
        raise
    return await trip


async def on_loop() -> None:
    """Go on in the event loop: what follows waits for something, or is of the event loop."""
    if _is_on_a_trip.get():
        await _ToLoop()


class _ToLoop:
    """Ends the trip of the stages that await it."""

    def __await__(self) -> Generator[_ToLoop, None, None]:
        yield self


class _Trip(Generic[Answer]):
    """Stages that begin in a thread. Awaited, they go on where they stand."""

    def __init__(self, stages: Coroutine[Any, Any, Answer]) -> None:
        self._stages = stages
        self._answer: list[Answer] = []
        self._has_begun = False
        self._is_back = Event()

    def go(self) -> None:
        """The way through the thread."""
        self._has_begun = True
        token = _is_on_a_trip.set(True)
        try:
            self._stages.send(None)  # comes back where a stage asks for the event loop
        except StopIteration as done:
            self._answer.append(done.value)
        finally:
            _is_on_a_trip.reset(token)
            self._is_back.set()

    async def give_up(self) -> None:
        """Nobody wants them any more. Wait for a thread that is under way: Ctrl-C does not."""
        if self._has_begun and not self._is_back.is_set():
            with CancelScope(shield=True):
                await to_thread.run_sync(self._is_back.wait)
        self._stages.close()

    def __await__(self) -> Generator[Any, Any, Answer]:
        if self._answer:
            return self._answer[0]
        return (yield from self._stages.__await__())


_is_on_a_trip: ContextVar[bool] = ContextVar("is_on_a_trip", default=False)


@asynccontextmanager
async def in_turn(kind: str = "") -> AsyncIterator[None]:
    """The turn of the caller among its own calls; each kind of work has turns of its own."""
    await on_loop()
    by_caller, which = _turns_here().by_caller, (caller(), kind)
    turn = by_caller.setdefault(which, _Turn())
    turn.users += 1
    try:
        async with turn.lock:
            yield
    finally:
        turn.users -= 1
        if not turn.users:
            by_caller.pop(which, None)


async def apart_if_large(value: Any, work: Callable[[], Answer]) -> Answer:
    """Do the work, at once for a small value, since changing to a thread would take longer."""
    return work() if size_of(value) < LARGE else await apart(work)


def size_of(value: Any) -> int:
    """How many values a value holds, long texts counted by their pieces; no more than `LARGE` are counted."""
    size, pending = 0, [value]
    while pending and size < LARGE:
        found = pending.pop()
        size += 1
        if isinstance(found, str | bytes):
            size += len(found) // PIECE_CHARACTERS
        elif isinstance(found, Mapping):
            size += sum(map(len, islice(found, LARGE))) // PIECE_CHARACTERS
            pending += islice(found.values(), LARGE)
        elif isinstance(found, list | tuple):
            pending += islice(found, LARGE)
    return size


def beside(work: Callable[[], Awaitable[None]], tasks: set[asyncio.Task[None]]) -> None:
    """Do this in a task of the event loop's own, which knows nothing of the call that it was begun for."""

    async def done() -> None:
        await work()

    if _loops.is_trio():
        trio = sys.modules["trio"]
        trio.lowlevel.spawn_system_task(done, context=contextvars.copy_context())
        return
    task = asyncio.get_running_loop().create_task(done(), context=contextvars.Context())
    tasks.add(task)  # the loop itself holds tasks weakly
    task.add_done_callback(tasks.discard)


def _turns_here() -> _Turns:
    try:
        return _turns.get()
    except LookupError:
        made = _Turns()
        _turns.set(made)
        return made
