"""What `harness.warm` measures besides: a preloaded package, Node.js, Bash, over stdio, and commands."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.execution import Target
from harness.figures import IncorrectError
from harness.memory import own_family
from harness.server import BARE, Talk
from harness.tools import PARAMETERS, Scene, by_command, by_hand, by_us, prepared
from lilux._stamps import SETTLED_NS
from rye_mcp.executor.primitive_executor import PrimitiveExecutor

FUNCTION: Final = "bench/python_function"
SLOW: Final = "own/slow"
IMPORT_S: Final = 0.3
IDLE_S: Final = 30
"""How long what is idle may be kept here; its runtime says 5 seconds."""

PAUSE_S: Final = 0.1
"""Between two calls that come now and then."""

FIRST: Final = 5
"""So many warm calls come first, until as many interpreters wait as are wanted."""

MOST_TRIES: Final = 200
"""How many calls may find no interpreter that waits."""

MAX_RUN_MS: Final = 250
"""Half of what `rye run` took on such a machine when it loaded everything: 0.36 to 0.5 s."""

_RUNTIME: Final = """\
name: preloading
version: "1.0.0"
description: Imports a package before there is a call.
tool_type: runtime
executor_id: rye/core/runtimes/python_function_runtime
warm: {prepare: python, preload: [slow_package], seconds: 5}
"""
_TOOL: Final = '''"""Gives its parameters back."""

__version__ = "1.0.0"
__executor_id__ = "own/preloading"

import slow_package


def execute(params, project_path):
    return params if slow_package.is_imported else None
'''
_PACKAGE: Final = f"import time\n\ntime.sleep({IMPORT_S})\nis_imported = True\n"
_RYE: Final = (sys.executable, "-c", "from rye_mcp.cli import main; main()")
_SERVER: Final = (sys.executable, "-c", "from rye_mcp.start import main; main()")


class WarmScene(Scene):
    """The same, with a package that takes long to import, and a tool of a runtime that preloads it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        [packages] = directory.glob("interpreter/lib/python3*/site-packages")
        (packages / "slow_package.py").write_text(_PACKAGE, encoding="utf-8")
        self._write("own/preloading.yaml", _RUNTIME)
        self._write("own/slow.py", _TOOL)
        self._sign("own/*")
        time.sleep(1.1 * SETTLED_NS / 1e9)

    @property
    def has_node(self) -> bool:
        """Whether Node.js is there."""
        return "node" not in self.missing


@dataclass(frozen=True, slots=True)
class Ways:
    """What was measured, in milliseconds; each pair is by hand, cold and warm, round after round."""

    slow: Sequence[Sequence[float]]
    bash: Sequence[Sequence[float]]
    node: Sequence[Sequence[float]] | None
    stdio: Sequence[float]
    floor: Sequence[float]
    run: Sequence[float]
    help: Sequence[float]
    start: Sequence[float]
    bare: Sequence[float]
    listed: Sequence[float]
    bare_listed: Sequence[float]
    kept: int

    @property
    def targets(self) -> list[Target]:
        """What is to be reached."""
        node = [] if self.node is None else [Target("Node.js: warm ÷ by hand, p50", _ratio(self.node), 0.35)]
        return [
            Target("one call over stdio, p50", statistics.median(self.stdio), 6, "ms"),
            Target("a preloaded package of 300 ms, p50", statistics.median(self.slow[2]), 10, "ms"),
            *node,
            Target("idle for too long: processes that wait", self.kept, 0, ""),
            Target("rye run, p50", statistics.median(self.run), MAX_RUN_MS, "ms"),
            Target("rye --help, p50", statistics.median(self.help), 60, "ms"),
            Target("start of the server ÷ a bare one", _share(self.start, self.bare), 0.8),
        ]

    def table(self) -> list[tuple[str, ...]]:
        """By hand, cold and warm, in rows."""
        ways = {"a package of 300 ms": self.slow, "Node.js": self.node}
        rows = [
            (f"{name}, p50", *(f"{statistics.median(each):.1f} ms" for each in found))
            for name, found in ways.items()
            if found is not None
        ]
        bash = [f"{statistics.median(each):.1f} ms" for each in self.bash[:2]]
        listed = f"{_share(self.listed, self.bare_listed):.2f} x"
        return [
            *rows,
            ("Bash, p50", *bash, "-"),
            ("over stdio, p50", "-", "-", _ms(self.stdio)),
            ("over stdio, a tool of a bare server that does nothing, p50", "-", "-", _ms(self.floor)),
            ("start of the server until its tools are listed, beside a bare one", "-", "-", listed),
        ]


def _ms(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.1f} ms"


def _share(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _ratio(found: Sequence[Sequence[float]]) -> float:
    return _share(found[2], found[0])


async def warm_once(executor: PrimitiveExecutor, item_id: str) -> float:
    """How long a call took that had to run warm, in seconds."""
    started = time.perf_counter()
    result = await executor.execute(item_id, PARAMETERS)
    took = time.perf_counter() - started
    if result.runtime is None or not result.runtime.is_warm or result.data != PARAMETERS:
        raise IncorrectError(f"expected a warm call, found {result.runtime}: {result.error or result.data}")
    return took


async def in_turns(
    cold: PrimitiveExecutor, warm: PrimitiveExecutor, item_id: str, rounds: int, *, can_wait: bool = True
) -> list[list[float]]:
    """By hand, cold and warm in milliseconds; the three take turns, and each round waits until one waits."""
    for executor in (cold, warm):
        await by_us(executor, item_id)
    found: list[list[float]] = [[], [], []]
    async with prepared(cold, item_id) as spec:
        ways: list[Callable[[], Awaitable[float]]] = [lambda: by_hand(spec), lambda: by_us(cold, item_id)]
        ways.append(lambda: warm_once(warm, item_id) if can_wait else by_us(warm, item_id))
        for _ in range(rounds):
            await warm.settle()
            for times, way in zip(found, ways, strict=True):
                times.append(await way() * 1000)
    return found


async def measure_ways(scene: WarmScene, rounds: int) -> Ways:
    """Everything, in turns."""
    cold, warm = scene.executor(), scene.executor(warm=True)
    try:
        bash = await in_turns(cold, warm, "bench/bash", rounds, can_wait=False)
        node = await in_turns(cold, warm, "bench/node", rounds) if scene.has_node else None
    finally:
        await warm.close()
    warm = scene.executor(warm=True)
    try:
        slow = await in_turns(cold, warm, SLOW, rounds)
        kept = await _kept_when_idle()
    finally:
        await warm.close()
        await cold.close()
    run, help_, start, bare, listed, bare_listed = _commands(scene, max(1, rounds // 6))
    stdio, floor = _over_stdio(scene, rounds)
    return Ways(slow, bash, node, stdio, floor, run, help_, start, bare, listed, bare_listed, kept)


async def _kept_when_idle() -> int:
    """How many interpreters still wait when they should have gone."""
    deadline = time.monotonic() + IDLE_S
    while (found := len(waiting())) and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.2)
    return found


def waiting() -> list[Path]:
    """The processes below this one that wait for a call, and those that they are forked from."""
    found = []
    for process in own_family():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if {b"-c", b"-e"} & {*words} and {b"call", b"zygote"} & {*words}:
            found.append(Path(f"/proc/{process.pid}"))
    return found


def _over_stdio(scene: Scene, rounds: int) -> tuple[list[float], list[float]]:
    """What warm calls take, and calls of a bare server's tool that does nothing, in turns.

    A call that came while no interpreter waited, as at the beginning, does not count.
    """
    warm, floor = list[float](), list[float]()
    bare = (sys.executable, "-c", BARE)
    with (
        Talk(_SERVER, scene.environment, scene.project) as server,
        Talk(bare, scene.environment, scene.project) as other,
    ):
        for _ in range(MOST_TRIES + rounds):
            took, is_warm = _warm_over_stdio(server)
            if is_warm:
                warm.append(took)
            time.sleep(PAUSE_S)
            floor.append(_bare_over_stdio(other))
            time.sleep(PAUSE_S)
            if len(warm) == FIRST + rounds:
                return warm[FIRST:], floor[FIRST:]
    raise IncorrectError(f"expected {FIRST + rounds} warm calls over stdio, found {len(warm)}")


def _warm_over_stdio(server: Talk) -> tuple[float, bool]:
    """How long a call took, in milliseconds, and whether it was warm."""
    begun = time.perf_counter()
    result = server.call("execute", item_id=FUNCTION, parameters=PARAMETERS)
    took = (time.perf_counter() - begun) * 1000
    if result["data"] != PARAMETERS:
        raise IncorrectError(f"expected an answer over stdio, found {result}")
    return took, result["runtime"] == "warm"


def _bare_over_stdio(server: Talk) -> float:
    """How long the empty tool of a bare server took, in milliseconds."""
    begun = time.perf_counter()
    result = server.ask("tools/call", name="hello", arguments={"name": "Ada"})
    took = (time.perf_counter() - begun) * 1000
    if result["content"][0]["text"] != "Hello, Ada!":
        raise IncorrectError(f"expected a greeting over stdio, found {result}")
    return took


def _commands(scene: Scene, rounds: int) -> list[list[float]]:
    """`rye run`, `rye --help`, the start of the server and of a bare one, in milliseconds.

    The start is over when the server is initialized, and once more when it has listed its tools.
    """
    found: list[list[float]] = [[], [], [], [], [], []]
    by_command(scene, FUNCTION)
    for _ in range(rounds):
        found[0].append(by_command(scene, FUNCTION) * 1000)
        begun = time.perf_counter()
        subprocess.run([*_RYE, "--help"], env=scene.environment, capture_output=True, check=True)
        found[1].append((time.perf_counter() - begun) * 1000)
        for times, listed, command in (
            (found[2], found[4], _SERVER),
            (found[3], found[5], (sys.executable, "-c", BARE)),
        ):
            with Talk(command, scene.environment, scene.project) as server:
                times.append(server.started_ms)
                server.ask("tools/list")
                listed.append((time.perf_counter() - server.begun) * 1000)
    return found
