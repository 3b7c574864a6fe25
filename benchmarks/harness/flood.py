"""A program that writes a gigabyte: how long it takes to take it all, and what that costs in memory.

Everybody reads from the same C writer. The measure of time is a C reader that throws the bytes away. A
contender in Python gets a fresh process, in which it first takes a small output; what the process (with the
supervisor, where there is one) occupies then is what its peak is compared with.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio

from harness.contenders import ANYIO, ASYNCIO, EXEC, PRIMITIVE, RUN
from harness.figures import IncorrectError, ratio
from harness.memory import available_kib, peak_kib, resident_kib
from harness.native import Native
from lilux.primitives.subprocess import SubprocessPrimitive

READER: Final = "reader that keeps nothing, C"

SIZE: Final = 1024 * 1024 * 1024
QUICK_SIZE: Final = 8 * 1024 * 1024
ROUNDS: Final = 5
WARM_UP: Final = 4 * 1024
KEPT: Final = 1024 * 1024
"""What lilux-proc keeps of a stream."""

HUNGER: Final = 4
"""Who keeps everything may need so many times the size; where there is less memory, they are left out."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Flood:
    """How long it took, and how much memory was added meanwhile; None where nobody asks."""

    seconds: float
    growth_kib: int | None

    @classmethod
    def median(cls, rounds: Sequence[Flood]) -> Flood:
        """The median time, and the worst growth."""
        growths = [flood.growth_kib for flood in rounds if flood.growth_kib is not None]
        return cls(statistics.median(flood.seconds for flood in rounds), max(growths, default=None))


Rounds = dict[str, list[Flood]]


def measure(native: Native, lilux_proc: str, size: int, rounds: int, tell: Callable[[str], None]) -> Rounds:
    """Everybody takes turns, so many rounds."""
    takers: dict[str, Callable[[], Flood]] = {
        READER: lambda: _read_in_c(native, [native.writer, str(size)], size),
        EXEC: lambda: _read_in_c(native, _exec(lilux_proc, native.writer, size), None),
        PRIMITIVE: lambda: in_fresh_process(_flood, PRIMITIVE, native.writer, size),
    }
    if available_kib() > HUNGER * size // 1024:
        for name in (RUN, ASYNCIO, ANYIO):
            takers[name] = lambda name=name: in_fresh_process(_flood, name, native.writer, size)  # type: ignore[misc]
    measured: Rounds = {name: [] for name in takers}
    for number in range(rounds):
        tell(f"flood: round {number + 1} of {rounds}")
        for name, take in takers.items():
            measured[name].append(take())
    return measured


def time_ratio(measured: Rounds) -> float:
    """What the target speaks of: our time as a multiple of the C reader's."""
    return ratio(measured[PRIMITIVE], measured[READER], lambda flood: flood.seconds)


def in_fresh_process(function: Callable[..., R], *arguments: object) -> R:
    """What a function returns when it is called in a new Python process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# --- in C -----------------------------------------------------------------------


def _exec(lilux_proc: str, writer: str, size: int) -> list[str]:
    return [lilux_proc, "exec", "--cmd", writer, "--arg", str(size)]


def _read_in_c(native: Native, command: list[str], expected: int | None) -> Flood:
    ran = subprocess.run([native.reader, *command], check=False, capture_output=True, text=True)
    if ran.returncode != 0:
        raise IncorrectError(f"{command[0]}: the reader has failed: {ran.stderr.strip()}")
    nanoseconds, found, resident_kib = map(int, ran.stdout.split())
    if expected is None:
        return Flood(nanoseconds / 1e9, resident_kib)
    _check(READER, found, expected)
    return Flood(nanoseconds / 1e9, None)


# --- in Python ------------------------------------------------------------------


def _flood(name: str, writer: str, size: int) -> Flood:
    return asyncio.run(_flood_in_loop(_TAKERS[name], name, writer, size))


async def _flood_in_loop(
    take: Callable[[list[str]], Awaitable[int]], name: str, writer: str, size: int
) -> Flood:
    _check(name, await take([writer, str(WARM_UP)]), WARM_UP)
    before, started = resident_kib(), time.perf_counter()
    _check(name, await take([writer, str(size)]), size)
    return Flood(time.perf_counter() - started, peak_kib() - before)


async def _take_by_run(command: list[str]) -> int:
    return len((await asyncio.to_thread(subprocess.run, command, capture_output=True)).stdout)


async def _take_by_asyncio(command: list[str]) -> int:
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    return len((await process.communicate())[0])


async def _take_by_anyio(command: list[str]) -> int:
    return len((await anyio.run_process(command)).stdout)


async def _take_by_primitive(command: list[str]) -> int:
    result = await SubprocessPrimitive().execute({"command": command[0], "args": command[1:]})
    counts = result.streams["stdout"]
    if counts.kept != min(counts.total, KEPT) or counts.kept + counts.omitted != counts.total:
        raise IncorrectError(f"{PRIMITIVE}: expected {KEPT} bytes at most to be kept, found {counts}")
    return counts.total


_TAKERS: Final = {
    RUN: _take_by_run,
    ASYNCIO: _take_by_asyncio,
    ANYIO: _take_by_anyio,
    PRIMITIVE: _take_by_primitive,
}


def _check(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise IncorrectError(f"{name}: expected {expected} bytes, found {found}")
