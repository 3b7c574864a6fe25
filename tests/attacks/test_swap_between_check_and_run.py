"""Attack: exchange a file between the moment that it is verified and the moment that it runs.

A process of its own replaces the tool again and again, with the signed bytes and with others. What ran is
told by what it left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from rye_mcp.executor import PrimitiveExecutor
from tests.runtime_workshop import Workshop
from tests.trust_world import World

RUNS = 2000
AT_ONCE = 8
SWAPS = 5000

GOOD = "#!/bin/sh\n# /// rye\n# executor_id: binary_runtime\n# ///\necho good\n"

SWAPPER = """\
import os, sys
path, canary = sys.argv[1:]
good = open(path, "rb").read()
line_end = good.index(b"rye:signed:")
line_end = good.index(b"\\n", line_end) + 1
strike = b"touch '" + canary.encode() + b"'\\n"
evil = [good + strike, good[:line_end] + strike, good.replace(b"echo good\\n", strike)]
swaps = 0
print("ready", flush=True)
while os.getppid() == int(os.environ["OWNER"]):
    for content in (evil[swaps % len(evil)], good):
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.replace(path + ".new", path)
        swaps += 1
    if not swaps % 100:
        print(swaps, flush=True)
"""


@contextmanager
def swapped(path: Path, canary: Path) -> Iterator[Counter[str]]:
    """Replace a file as long as the block lasts; `swaps` says how often so far."""
    counted: Counter[str] = Counter()
    command = [sys.executable, "-c", SWAPPER, str(path), str(canary)]
    own = {**os.environ, "OWNER": str(os.getpid())}
    with (
        ThreadPoolExecutor(max_workers=1) as pool,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as swapper,
    ):
        assert swapper.stdout is not None
        try:
            assert swapper.stdout.readline() == "ready\n"
            pool.submit(count, swapper.stdout, counted)
            yield counted
        finally:
            swapper.kill()


def count(lines: Iterable[str], counted: Counter[str]) -> None:
    for line in lines:
        counted["swaps"] = int(line)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.timeout(300)
async def test_what_was_exchanged_after_it_was_verified_never_runs(tmp_path: Path) -> None:
    workshop = Workshop(World(tmp_path))
    canary = tmp_path / "canary"
    tool = workshop.sign("demo/greet", GOOD)
    executor = PrimitiveExecutor(
        workshop.project, user_space=workshop.world.user_space.parent, state=workshop.world.state
    )
    came: Counter[str] = Counter()
    left = iter(range(RUNS))

    async def run() -> None:
        while next(left, None) is not None or counted["swaps"] <= SWAPS:
            result = await executor.execute(tool)
            came[result.code or result.data] += 1

    with swapped(workshop.project / ".ai/tools/demo/greet", canary) as counted:
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(run)
    await executor.close()
    assert not canary.exists()
    assert set(came) <= {"good\n", "content_changed", "unsigned"}
    assert came["good\n"] > RUNS / 20  # some were the signed bytes, some were not: it was a race
    assert came["content_changed"] > RUNS / 20
    assert counted["swaps"] > SWAPS
