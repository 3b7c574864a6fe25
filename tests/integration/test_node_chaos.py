"""Workers are killed at random under many calls: none runs twice, none succeeds without a run, none hangs."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from tests.engine_world import Site, tool
from tests.worker_world import worker_above

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

CALLS = 60
AT_ONCE = 6
KILLS = 0.06  # of the runs; a worker takes the other calls of its node with it
SCRIPT = (
    'echo "$RYE_PARAM_word" >> "$COUNTED"; echo $$ >&2; sleep 0.0$((RANDOM % 10)); echo "$RYE_PARAM_word"'
)


class Monkey:
    """Kills the worker of some runs: always one that the test's own calls have started."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it has to do the same each time
        self.killed = 0

    def hear(self, stream: str, data: bytes, _skipped: int) -> None:
        """Take the pid that a run prints."""
        if stream != "stderr" or self._random.random() > KILLS:
            return
        with suppress(OSError, AssertionError):  # the run, or its worker, has ended meanwhile
            os.kill(worker_above(int(data.split()[0])), signal.SIGKILL)
            self.killed += 1


async def code_of(executor: PrimitiveExecutor, number: int, monkey: Monkey) -> str | None:
    """What a call is told; None for a success."""
    try:
        with anyio.fail_after(60):
            result = await executor.run(
                "demo/count", {"word": f"c{number}"}, watch=Watch(on_output=monkey.hear)
            )
    except RyeError as exc:
        return exc.code
    if result.success:
        assert result.data == f"c{number}\n", "the answer to another call"
    return result.code


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path.resolve())
    made.pair.accept()
    made.pair.trust()
    made.pair.server.sign("demo/count.sh", tool(SCRIPT))
    made.engine()
    return made


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_call_runs_twice_and_none_succeeds_without_a_run(site: Site, seed: int) -> None:
    monkey, told, places = Monkey(seed), {}, anyio.CapacityLimiter(AT_ONCE)
    async with site.executor() as executor, anyio.create_task_group() as group:

        async def call(number: int) -> None:
            async with places:
                told[number] = await code_of(executor, number, monkey)

        for number in range(CALLS):
            group.start_soon(call, number)
    ran = Counter((site.pair.node.world.root / "counted").read_text().split())
    assert len(told) == CALLS
    assert monkey.killed, "nothing was tried"
    assert max(ran.values()) == 1
    for number, code in told.items():
        runs = ran[f"c{number}"]
        assert (code, runs) in ((None, 1), ("lost", 0), ("lost", 1), ("engine_unreachable", 0)), number
    assert Counter(told.values())[None] > CALLS // 4, told
