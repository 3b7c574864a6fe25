"""For a minute, two workers and what leads to them are killed at random under many calls.

None runs twice, none succeeds without a run, none hangs, and nothing is left. `tests/ray/test_chaos.py` does
the same for less long where Ray places the calls.
"""

from __future__ import annotations

import os
import random
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
from tests.engine_world import Site, tool
from tests.mcp_world import gone
from tests.worker_world import above, worker_above

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

FOR_S = 60.0
SEED = 23
KILLS = 0.1  # of the runs; each takes the other calls of its worker with it
SCRIPT = (
    'echo "$RYE_PARAM_word $$" >> "$COUNTED"; echo $$ >&2; sleep 0.0$((RANDOM % 10)); echo "$RYE_PARAM_word"'
)


def connection_above(pid: int) -> int:
    """The stand-in for ssh that a worker was started by."""
    return above(pid, lambda words: words[1].endswith("/ssh"))


VICTIMS: tuple[Callable[[int], int], ...] = (worker_above, worker_above, connection_above)


class Monkey:
    """Kills what a run descends from: always something that the test's own calls have started."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it has to do the same each time
        self.killed: Counter[str] = Counter()

    def hear(self, stream: str, data: bytes, _skipped: int) -> None:
        """Take the pid that a run prints."""
        if stream != "stderr" or self._random.random() > KILLS:
            return
        victim = self._random.choice(VICTIMS)
        with suppress(OSError, AssertionError):  # the run, or its worker, has ended meanwhile
            os.kill(victim(int(data.split()[0])), signal.SIGKILL)
            self.killed[victim.__name__] += 1


async def code_of(executor: PrimitiveExecutor, item_id: str, word: str, monkey: Monkey) -> str | None:
    """What a call is told; None for a success."""
    try:
        with anyio.fail_after(60):
            result = await executor.run(item_id, {"word": word}, watch=Watch(on_output=monkey.hear))
    except RyeError as exc:
        return exc.code
    if result.success:
        assert result.data == f"{word}\n", "the answer to another call"
    return result.code


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path.resolve())
    made.pair.accept()
    made.pair.trust()
    for number in (1, 2):
        made.pair.server.sign(f"demo{number}/each.sh", tool(SCRIPT))
        made.engine(f"gpu{number}", takes=[f"demo{number}/*"])
    return made


@pytest.mark.timeout(300)
async def test_for_a_minute_no_call_runs_twice_or_succeeds_without_a_run_and_nothing_is_left(
    site: Site,
) -> None:
    monkey, told = Monkey(SEED), dict[str, str | None]()
    until = time.monotonic() + FOR_S
    async with site.executor() as executor, anyio.create_task_group() as group:

        async def caller(name: str, item_id: str) -> None:
            number = 0
            while time.monotonic() < until:
                word = f"{name}-{number}"
                told[word] = await code_of(executor, item_id, word, monkey)
                number += 1

        for name in "abcdef":
            group.start_soon(caller, name, f"demo{1 + 'abcdef'.index(name) % 2}/each")
    lines = [line.split() for line in (site.pair.node.world.root / "counted").read_text().splitlines()]
    ran = Counter(word for word, _ in lines)
    assert set(monkey.killed) == {"worker_above", "connection_above"}, "hardly anything was tried"
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
