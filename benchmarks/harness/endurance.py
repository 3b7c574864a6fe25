"""Ten thousand runs, and what is left of them; a thousand runs at once, and whether each got its own answer.

In a process of its own. It first does a tenth of the runs, the same way, and waits until the supervisor says
that its idle keepers have gone home: that is what it is compared with after the others.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from harness.contenders import PRIMITIVE, TRUE, check
from harness.figures import IncorrectError
from harness.memory import Snapshot
from lilux import _supervisor
from lilux.primitives.subprocess import SubprocessPrimitive

RUNS: Final = 10_000
QUICK_RUNS: Final = 200
AT_ONCE: Final = 1_000
QUICK_AT_ONCE: Final = 100

CONCURRENCY: Final = 64

WARM_KEEPERS: Final = 2
"""So many idle keepers stay; the others go home after a second."""

TRIM_LIMIT_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.05

SCRIPT: Final = 'echo "$0"; echo "$0 too" >&2; exit $(($0 % 251))'


@dataclass(frozen=True, slots=True)
class Endurance:
    """What many runs leave behind: before them, right after them, and when idle keepers are trimmed."""

    runs: int
    seconds: float
    before: Snapshot
    after: Snapshot
    trimmed: Snapshot
    at_once: int
    at_once_seconds: float
    wrong: int


def measure(runs: int, at_once: int) -> Endurance:
    """All of it. To be called in a fresh process, whose memory and descriptors are nobody else's."""
    return asyncio.run(_measure(runs, at_once))


async def _measure(runs: int, at_once: int) -> Endurance:
    primitive = SubprocessPrimitive()
    await _run(primitive, max(runs // 10, 1))
    before = await _trimmed()
    started = time.perf_counter()
    await _run(primitive, runs)
    seconds, after = time.perf_counter() - started, Snapshot.take()
    trimmed = await _trimmed()
    started = time.perf_counter()
    answers = await asyncio.gather(*(_is_right(primitive, number) for number in range(at_once)))
    at_once_seconds = time.perf_counter() - started
    return Endurance(runs, seconds, before, after, trimmed, at_once, at_once_seconds, answers.count(False))


async def _run(primitive: SubprocessPrimitive, count: int) -> None:
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            result = await primitive.execute({"command": TRUE})
            check(PRIMITIVE, result.return_code, result.stdout, result.stderr)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


async def _trimmed() -> Snapshot:
    """How things are once idle keepers have gone home."""
    supervisor = _supervisor.supervisor(_supervisor.find_lilux_proc())
    deadline = time.monotonic() + TRIM_LIMIT_S
    while (await supervisor.status()).keepers > WARM_KEEPERS:
        if time.monotonic() > deadline:
            raise IncorrectError(f"idle keepers are still there after {TRIM_LIMIT_S:g} s")
        await asyncio.sleep(LOOK_AGAIN_S)
    return Snapshot.take()


async def _is_right(primitive: SubprocessPrimitive, number: int) -> bool:
    result = await primitive.execute({"command": "/bin/sh", "args": ["-c", SCRIPT, str(number)]})
    found = (result.return_code, result.stdout, result.stderr)
    return found == (number % 251, f"{number}\n", f"{number} too\n")
