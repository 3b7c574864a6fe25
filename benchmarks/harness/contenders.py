"""The ways to run /bin/true that are compared, each doing what somebody who chose it would do.

Each keeps `concurrency` runs under way until `count` have ended: as soon as one ends, the next begins. Every
run is checked. Those with an event loop live in one and the same loop, whose 1 ms timer is watched meanwhile.
The child watcher of asyncio is the one that Python ships with.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from harness.figures import Batch, IncorrectError
from harness.native import Native
from lilux.primitives.subprocess import SubprocessPrimitive

TRUE: Final = "/bin/true"

C: Final = "posix_spawn + wait, C"
RUN: Final = "subprocess.run"
ASYNCIO: Final = "asyncio subprocess"
ANYIO: Final = "anyio.run_process"
EXEC: Final = "lilux-proc exec"
PRIMITIVE: Final = "SubprocessPrimitive"

HOW: Final = {
    C: "a C program; output to /dev/null, nothing captured; N children at a time, one waitpid loop",
    RUN: "capture_output=True, in N threads beside an event loop that does nothing else",
    ASYNCIO: "asyncio.create_subprocess_exec, both outputs through pipes, communicate()",
    ANYIO: "captures both outputs",
    EXEC: "started by the same C program as the first; captures both outputs and prints one JSON object",
    PRIMITIVE: "execute(): captures both outputs within a limit, 300 s timeout, kills what is left behind",
}
"""What each of them does."""

TIMER_S: Final = 0.001
"""The timer that event-loop lag is measured with."""


class Contender(Protocol):
    """One way to run a program many times."""

    @property
    def name(self) -> str:
        """What the tables call it."""
        ...

    def run(self, count: int, concurrency: int) -> Batch:
        """So many runs, so many at a time."""
        ...


def contenders(runner: asyncio.Runner, native: Native, lilux_proc: str) -> list[Contender]:
    """Everybody, in the order of the tables."""
    pool = ThreadPoolExecutor(max_workers=1024)
    primitive = SubprocessPrimitive()
    return [
        InC(C, [native.spawner], [TRUE]),
        InThreads(RUN, runner, _subprocess_run, pool),
        InLoop(ASYNCIO, runner, _asyncio_subprocess),
        InLoop(ANYIO, runner, _anyio_process),
        InC(EXEC, [native.spawner], [lilux_proc, "exec", "--cmd", TRUE]),
        InLoop(PRIMITIVE, runner, lambda: _primitive(primitive)),
    ]


# --- one run --------------------------------------------------------------------


def _subprocess_run() -> None:
    ran = subprocess.run([TRUE], check=False, stdin=subprocess.DEVNULL, capture_output=True)
    check(RUN, ran.returncode, ran.stdout, ran.stderr)


async def _asyncio_subprocess() -> None:
    process = await asyncio.create_subprocess_exec(
        TRUE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    stdout, stderr = await process.communicate()
    check(ASYNCIO, process.returncode, stdout, stderr)


async def _anyio_process() -> None:
    ran = await anyio.run_process([TRUE], check=False)
    check(ANYIO, ran.returncode, ran.stdout, ran.stderr)


async def _primitive(primitive: SubprocessPrimitive) -> None:
    result = await primitive.execute({"command": TRUE})
    check(PRIMITIVE, result.return_code, result.stdout, result.stderr)


def check(name: str, return_code: int | None, stdout: bytes | str, stderr: bytes | str) -> None:
    """Raise IncorrectError when this is not how /bin/true ends."""
    if return_code != 0 or stdout or stderr:
        raise IncorrectError(f"{name}: expected 0 and no output, found {return_code}, {stdout!r}, {stderr!r}")


# --- many runs ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InC:
    """A C program does all of it, and reports the times."""

    name: str
    spawner: list[str]
    command: list[str]

    def run(self, count: int, concurrency: int) -> Batch:
        """So many runs, so many at a time."""
        command = [*self.spawner, str(count), str(concurrency), *self.command]
        ran = subprocess.run(command, check=False, capture_output=True, text=True)
        if ran.returncode != 0:
            raise IncorrectError(f"{self.name}: {ran.stderr.strip()}")
        whole, *each = [int(line) / 1e9 for line in ran.stdout.split()]
        return Batch(whole, each)


@dataclass(frozen=True, slots=True)
class InLoop:
    """Tasks of one event loop."""

    name: str
    runner: asyncio.Runner
    once: Callable[[], Awaitable[None]]

    def run(self, count: int, concurrency: int) -> Batch:
        """So many runs, so many at a time."""
        return self.runner.run(_in_loop(count, concurrency, self._work))

    async def _work(self, stint: Stint) -> None:
        for _ in stint.left:
            started = time.perf_counter()
            await self.once()
            stint.latencies.append(time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class InThreads:
    """Threads beside an event loop, which has nothing to do but to fire its timer."""

    name: str
    runner: asyncio.Runner
    once: Callable[[], None]
    pool: ThreadPoolExecutor

    def run(self, count: int, concurrency: int) -> Batch:
        """So many runs, so many at a time."""
        return self.runner.run(_in_loop(count, concurrency, self._delegate))

    async def _delegate(self, stint: Stint) -> None:
        await asyncio.get_running_loop().run_in_executor(self.pool, self._work, stint)

    def _work(self, stint: Stint) -> None:
        for _ in stint.left:
            started = time.perf_counter()
            self.once()
            stint.latencies.append(time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Stint:
    """What workers share: the runs that are left to do, and what the others took."""

    left: Iterator[int]
    latencies: list[float] = field(default_factory=list)


async def _in_loop(count: int, concurrency: int, work: Callable[[Stint], Awaitable[None]]) -> Batch:
    stint, lags = Stint(iter(range(count))), list[float]()
    timer = asyncio.create_task(_watch_timer(lags))
    started = time.perf_counter()
    await asyncio.gather(*(work(stint) for _ in range(concurrency)))
    seconds = time.perf_counter() - started
    timer.cancel()
    return Batch(seconds, stint.latencies, lags)


async def _watch_timer(lags: list[float]) -> None:
    while True:
        due = time.perf_counter() + TIMER_S
        await asyncio.sleep(TIMER_S)
        lags.append(time.perf_counter() - due)
