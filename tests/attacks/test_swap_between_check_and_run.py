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
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from lilux.primitives.subprocess import CallSpec, Halves, RuntimeSpec
from rye_mcp.errors import RyeError
from rye_mcp.executor import PrimitiveExecutor
from rye_mcp.executor.job.starting import Starting
from rye_mcp.trust.directories import Directories, Look
from tests.runtime_workshop import Workshop
from tests.trust_world import World

AT_ONCE = 8

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


@pytest.mark.timeout(300)
@pytest.mark.first_case
@pytest.mark.parametrize(("runs", "swaps"), [(200, 500), (2000, 5000)])
async def test_what_was_exchanged_after_it_was_verified_never_runs(
    tmp_path: Path, runs: int, swaps: int
) -> None:
    workshop = Workshop(World(tmp_path))
    canary = tmp_path / "canary"
    tool = workshop.sign("demo/greet", GOOD)
    executor = PrimitiveExecutor(
        workshop.project, user_space=workshop.world.user_space.parent, state=workshop.world.state
    )
    came: Counter[str] = Counter()
    left = iter(range(runs))

    async def run() -> None:
        while next(left, None) is not None or counted["swaps"] <= swaps:
            result = await executor.execute(tool)
            came[result.code or result.data] += 1

    with swapped(workshop.project / ".ai/tools/demo/greet", canary) as counted:
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(run)
    await executor.close()
    assert not canary.exists()
    assert set(came) <= {"good\n", "content_changed", "unsigned"}
    assert came["good\n"] > runs / 20  # some were the signed bytes, some were not: it was a race
    assert came["content_changed"] > runs / 20
    assert counted["swaps"] > swaps


# --- the program ---


class Turning(Directories):
    """The rule, and somebody who turns a link elsewhere right before, or after, one of its answers."""

    def __init__(self, place: Path, targets: list[str]) -> None:
        super().__init__(user=place / "user", state=lambda: place / "state")
        self._link, self._targets = place / "bin/tool", iter(targets)

    def turn(self) -> None:
        target = next(self._targets, None)
        if target is not None:
            self._link.unlink()
            self._link.symlink_to(target)

    def why_not(self, path: str, look: Look | None = None) -> str | None:
        self.turn()
        answer = super().why_not(path, look)
        self.turn()
        return answer


GOOD_ONE, CLONE = "../good/tool", "../clone/tool"
TURNS = {
    "after the check": (GOOD_ONE, [GOOD_ONE, CLONE, CLONE, CLONE]),
    "after both checks": (GOOD_ONE, [GOOD_ONE, GOOD_ONE, GOOD_ONE, CLONE]),
    "only while it is checked": (CLONE, [GOOD_ONE, GOOD_ONE, GOOD_ONE, CLONE]),
}


@pytest.mark.parametrize(("first", "targets"), TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("by_path", [False, True], ids=["found on the PATH", "named by its path"])
async def test_the_program_that_is_started_is_the_one_that_was_checked(
    own_place: Path, first: str, targets: list[str], *, by_path: bool
) -> None:
    """It is the good one, or none; never that of a project that nobody approved."""
    for name in ("good", "clone/.ai", "bin"):
        (own_place / name).mkdir(parents=True)
    for name in ("good", "clone"):
        (own_place / name / "tool").write_text("#!/bin/sh\n")
        (own_place / name / "tool").chmod(0o755)
    (own_place / "bin/tool").symlink_to(first)
    command = str(own_place / "bin/tool") if by_path else "tool"
    runtime = RuntimeSpec(command=command, env={"PATH": str(own_place / "bin")})
    starting = Starting(Turning(own_place, targets))
    with suppress(RyeError):
        started, _ = await starting.process(Halves(runtime, CallSpec(cwd="/")))
        found = [started.command] if "/" in started.command else (started.search_path or "").split(":")
        assert str(own_place / "good/tool") in found or "/dev/null" in found
