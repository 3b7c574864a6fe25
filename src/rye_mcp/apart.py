"""Work whose size others choose, done in a thread, so that the event loop answers everybody else meanwhile.

Rules:

- At most `HANDS` pieces of such work run at a time in an event loop, and one of each caller (`on_behalf_of`:
  a session). The others wait for their turn: one session with many calls does not keep others waiting.
- Work that may take longer, such as a first index, has a thread of its own, and turns of its own (`in_turn`).
- What a call does with files (`off_loop`) is short, and waits for no turn: only a disk or a lock holds it up.
  Its threads belong to asyncio's loop, because a trip by `anyio.to_thread` takes two more turns of the loop.
- Stages that follow each other share one trip to a thread (`in_one_trip`), up to the first that says that it
  needs the event loop (`on_loop`).
- The work has a limit of its own, as `lilux.schemas` has. A call that is given up waits for what runs.

    errors = await apart(partial(validate_parameters, values, schema))
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from itertools import islice
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Final, Generic, TypeVar
from weakref import finalize

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from lilux._dataclasses import dataclass
from lilux._loops import caller, on_behalf_of

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


class _HandsOfTrio:
    """Threads for work with files, in a trio loop."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(FILE_HANDS)

    async def do(self, work: Callable[[], Answer]) -> Answer:
        return await to_thread.run_sync(work, limiter=self._limiter)


class _FileHands:
    """Threads for work with files, in an asyncio loop: they end with it. A process waits for what they do."""

    def __init__(self) -> None:
        self._pieces: SimpleQueue[_Piece | None] = SimpleQueue()
        self._threads = self._under_way = 0
        finalize(self, self._pieces.put, None).atexit = False

    async def do(self, work: Callable[[], Answer]) -> Answer:
        await checkpoint_if_cancelled()
        if self._threads < min(self._under_way + 1, FILE_HANDS):
            Thread(target=_work_on, args=(self._pieces,), name="rye-files", daemon=True).start()
            self._threads += 1
        piece = _Piece(work, self._over)
        self._under_way += 1
        self._pieces.put(piece)
        with CancelScope(shield=True):
            await piece.done
        answer: Answer = piece.outcome()
        return answer

    def _over(self) -> None:
        self._under_way -= 1


class _Piece:
    """A piece of work on its way to a thread and back."""

    def __init__(self, work: Callable[[], Any], over: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.done = self._loop.create_future()
        self._work = work
        self._over = over
        self._context = contextvars.copy_context()
        self._answer: Any = None
        self._error: BaseException | None = None
        if sniffio := sys.modules.get("sniffio"):  # it says by the context which loop a thread has
            self._context.run(sniffio.current_async_library_cvar.set, None)

    def carry_out(self) -> None:
        """Do it if it is still wanted, and tell the loop."""
        try:
            if not self.done.cancelled():
                self._answer = self._context.run(self._work)
        except BaseException as exc:  # noqa: BLE001 - it is raised where the work is waited for
            self._error = exc
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._arrive)

    def outcome(self) -> Any:
        """What came of it."""
        error, self._error = self._error, None
        if error is None:
            return self._answer
        try:
            raise error
        finally:
            del error  # or it would refer to itself

    def _arrive(self) -> None:
        self._over()
        if not self.done.cancelled():
            self.done.set_result(None)


def _work_on(pieces: SimpleQueue[_Piece | None]) -> None:
    """Carry out one piece after the other, up to the end of the loop."""
    at_work = Lock()
    _at_work.add(at_work)
    while (piece := pieces.get()) is not None:
        with at_work:
            piece.carry_out()
        del piece
    _at_work.discard(at_work)
    pieces.put(None)  # for the next thread


_at_work: Final[set[Lock]] = set()
"""The locks of all threads for work with files. A thread holds its lock as long as it works."""


def _let_finish() -> None:
    """Wait for work that is under way, as for that of every other thread; nothing more begins."""
    for lock in tuple(_at_work):
        lock.acquire()


atexit.register(_let_finish)
os.register_at_fork(after_in_child=_at_work.clear)


def _file_hands() -> _FileHands | _HandsOfTrio:
    trio = sys.modules.get("trio")
    return _HandsOfTrio() if trio is not None and trio.lowlevel.in_trio_task() else _FileHands()


@dataclass(slots=True)
class _Turns:
    """The queue of work in one event loop."""

    hands: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(HANDS))
    file_hands: _FileHands | _HandsOfTrio = field(default_factory=_file_hands)
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
    done = partial(_turns_here().file_hands.do, work)
    if not shielded:
        return await done()
    answers: list[Answer] = []
    with CancelScope(shield=True):
        answers.append(await done())
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

    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
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
