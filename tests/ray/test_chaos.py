"""What places and runs calls on a cluster is killed at random: none runs twice, none hangs.

`tests/integration/test_node_chaos.py` does that for a minute, without Ray: what keeps a call from running
twice is the same there. Here is what only a cluster has, its slots and what speaks to it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from tests.engine_world import tool
from tests.mcp_world import gone
from tests.ray_world import RaySite, below
from tests.worker_world import above, worker_above

pytestmark = pytest.mark.anyio

FOR_S = 20.0
AT_LEAST = 5
"""So many are killed, however long that takes on a busy machine."""
SEED = 23
AT_ONCE = 4
KILLS = 0.2  # of the runs; each takes others with it
CALL_S = 90.0
"""No call takes longer: it waits for room for a minute at most, and for a silent worker 20 s."""

SCRIPT = (
    'echo "$RYE_PARAM_word $$" >> "$COUNTED"; echo $$ >&2; sleep 0.$((RANDOM % 4)); echo "$RYE_PARAM_word"'
)


RUN = re.compile(r"[a-d]-[0-9]+ [0-9]+")
"""The line that a run leaves on its node: its word, and its pid."""


def slot_above(pid: int) -> int:
    return above(pid, lambda words: words[0].startswith("ray::"))


def sidecar(_pid: int) -> int:
    """The process of this server that speaks to the cluster."""
    return next(
        pid for pid in below(os.getpid()) if b"sidecar.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


VICTIMS: tuple[Callable[[int], int], ...] = (worker_above, worker_above, slot_above, sidecar)


class Monkey:
    """Kills what a run descends from, or what placed it: always something that the test has started."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it has to do the same each time
        self.killed: Counter[str] = Counter()

    def hear(self, stream: str, data: bytes, _skipped: int) -> None:
        """Take the pid that a run prints."""
        if stream != "stderr" or self._random.random() > KILLS:
            return
        victim = self._random.choice(VICTIMS)
        with suppress(OSError, AssertionError, StopIteration):  # it has ended meanwhile
            os.kill(victim(int(data.split()[0])), signal.SIGKILL)
            self.killed[victim.__name__] += 1


async def code_of(executor: PrimitiveExecutor, word: str, monkey: Monkey) -> str | None:
    """What a call is told; None for a success."""
    try:
        with anyio.fail_after(CALL_S):
            result = await executor.run("demo/each", {"word": word}, watch=Watch(on_output=monkey.hear))
    except RyeError as exc:
        return exc.code
    if result.success:
        assert result.data == f"{word}\n", "the answer to another call"
    return result.code


@pytest.mark.timeout(300)
async def test_nothing_runs_twice_or_succeeds_without_a_run_and_nothing_is_left(
    site: RaySite,
) -> None:
    site.engine()
    site.server.sign("demo/each.sh", tool(SCRIPT))
    monkey, told = Monkey(SEED), dict[str, str | None]()
    until = time.monotonic() + FOR_S
    async with site.executor() as executor, anyio.create_task_group() as group:

        async def caller(name: str) -> None:
            number = 0
            while time.monotonic() < until or monkey.killed.total() < AT_LEAST:
                word = f"{name}-{number}"
                told[word] = await code_of(executor, word, monkey)
                number += 1

        for name in "abcd"[:AT_ONCE]:
            group.start_soon(caller, name)
    lines = [
        line.split()
        for node in site.grid.nodes
        for line in node.lines
        if line.count("-") == 1 and " " in line
    ]
    ran = Counter(word for word, _ in lines)
    assert max(ran.values()) == 1
    for word, code in told.items():
        assert (code, ran[word]) in (
            (None, 1),
            ("lost", 0),
            ("lost", 1),
            ("engine_unreachable", 0),
        ), (word, code, ran[word])
    assert Counter(told.values())[None] > len(told) // 4, Counter(told.values())
    with anyio.fail_after(30):
        await gone([int(pid) for _, pid in lines])
