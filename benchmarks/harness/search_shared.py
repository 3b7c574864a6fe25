"""What others notice of an index: an event loop while it is built, and processes that share it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.to_thread

from harness.figures import IncorrectError, percentile
from harness.search_scene import Scene, query_kinds
from rye_mcp.catalog import SearchQuery
from rye_mcp.queries import parse

__all__ = ["measure_first_index", "measure_shared"]

PING_EVERY_S = 0.005
READERS = 4
WRITERS = 2

_SCRIPT = """
import sys
import lilux  # before a file of this name is on the path
sys.path.append(sys.argv[1])
from harness.search_shared import take_part
take_part(*sys.argv[2:])
"""

_IDLE = """
import sys
import lilux  # as above
sys.path.append(sys.argv[1])
from harness.search_shared import ping_until_told
ping_until_told()
"""

HERE = Path(__file__).resolve().parents[1]


def measure_first_index(scene: Scene) -> tuple[float, float, float]:
    """How long a first index takes in a thread, in seconds; the slowest ping meanwhile, in milliseconds, and
    that of a process that does nothing else, which is what this machine makes anybody wait."""
    with subprocess.Popen(
        [sys.executable, "-c", _IDLE, str(HERE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as idle:
        seconds, slowest_ms = asyncio.run(_first_index(scene))
        idle_ms = float(idle.communicate()[0])
    return seconds, slowest_ms, idle_ms


def ping_until_told() -> None:
    """Be the process that does nothing else, until its input ends; print its slowest ping."""

    async def told() -> float:
        pings: list[float] = []
        pinging = asyncio.create_task(_ping(pings))
        await anyio.to_thread.run_sync(sys.stdin.read)
        pinging.cancel()
        return max(pings, default=0.0)

    print(asyncio.run(told()))


async def _ping(pings: list[float]) -> None:
    """Note how late this task is called, in milliseconds, until it is cancelled."""
    while True:
        due = time.perf_counter() + PING_EVERY_S
        await asyncio.sleep(PING_EVERY_S)
        pings.append((time.perf_counter() - due) * 1e3)


async def _first_index(scene: Scene) -> tuple[float, float]:
    pings: list[float] = []

    def build() -> None:
        with scene.catalog() as catalog:
            catalog.refresh()

    pinging = asyncio.create_task(_ping(pings))
    started = time.perf_counter()
    await anyio.to_thread.run_sync(build)  # as the server does, whose loop starts a process
    seconds = time.perf_counter() - started
    pinging.cancel()
    return seconds, max(pings, default=0.0)


def measure_shared(scene: Scene, count: int) -> float:
    """Four readers and two writers at once: the 95th percentile of a search, in milliseconds."""
    who = [
        *(f"reader{number}" for number in range(READERS)),
        *(f"writer{number}" for number in range(WRITERS)),
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(HERE), str(scene.root), str(scene.size), each, str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in who
    ]
    times: list[float] = []
    for each, process in zip(who, processes, strict=True):
        output = process.communicate()[0]
        if process.returncode:
            raise IncorrectError(f"{each}: expected exit code 0, found {process.returncode}")
        times += json.loads(output)
    return percentile(times, 95)


def take_part(root: str, size: str, who: str, count: str) -> None:
    """Be one of them: search, and write before each search as a writer; print the times of the searches."""
    scene, times = Scene(Path(root), int(size)), []
    texts = [text for text, _ in query_kinds(int(count))["three words"]]
    with scene.catalog() as catalog:
        catalog.refresh()
        for number, text in enumerate(texts):
            if who.startswith("writer"):
                scene.write((number * 7 + len(who)) % scene.size, f"remark{number}")
                catalog.refresh()
            started = time.perf_counter()
            catalog.search(SearchQuery(parse(text)))
            times.append((time.perf_counter() - started) * 1e3)
        if catalog.notices:
            raise IncorrectError(f"{who}: expected no notice, found {catalog.notices}")
    print(json.dumps(times))
