"""The same tools here, on a worker of this machine and in a slot of Ray, in turns, in one process."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import anyio

from harness.memory import idle_percent
from harness.node_ends import CANCEL_MS, KILLED_MS, WAIT, ends
from harness.ray_node import ADDRESS, HERE, is_installed, ray_node, resident_mb
from harness.report import machine
from harness.server import SCRIPTS
from rye_mcp.app import App, Settings
from rye_mcp.executor.primitive_executor import PrimitiveExecutor

__all__ = ["main"]

TRUE: Final = """\
executor_id: rye/core/primitives/subprocess
permissions: unconfined
{workspace}config: {{command: /bin/true}}
"""
SUM: Final = """\
# /// rye
# executor_id: python_script_runtime
# permissions: unconfined
{workspace}# ///
print(40 + 2)
"""

ADDED_MS: Final = {"node": 2.0, "ray": 4.0}
"""How much longer /bin/true may take on a worker of this machine, and in a slot of Ray."""

SUM_RATIO: Final = 1.3
"""How many times as long a Python tool may take in a slot of Ray."""

MEMORY_MB: Final = {"sidecar.py": 80.0, "ray::Slot": 100.0}
"""How much the process that speaks to Ray may hold, and an actor."""

AT_ONCE: Final = {"bin_true": 0.9, "sum": 0.7}
"""How many calls a second of those here a worker of this machine has to reach, many at once."""

ENGINES: Final = {"node": "bench", "ray": "grid"}
"""What the engines are called."""

CALLS_PER_ROUND: Final = 40
MANY: Final = 200
QUIET_PERCENT: Final = 90

Call = Callable[[], Coroutine[Any, Any, None]]
Calls = dict[str, Call]


def main(description: str) -> int:
    """Measure, print, and say whether the targets were met."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="few calls: whether it runs at all")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"the machine is busy (idle: {idle:.0f} %): the figures mean little")
    rounds, calls, many = (2, 5, 10) if options.quick else (options.rounds, CALLS_PER_ROUND, MANY)
    elsewhere = ("node", "ray") if is_installed() else ("node",)
    with tempfile.TemporaryDirectory(prefix="rye-bench-") as place:
        report = anyio.run(_measured, Path(place), rounds, calls, many, elsewhere)
    report |= {"machine": machine(), "idle_percent": idle}
    _print(report)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2), encoding="utf-8")
    missed = [target for target in report["targets"] if not target["is_met"]]
    return 1 if missed and options.strict else 0


async def _measured(
    place: Path, rounds: int, calls: int, many: int, elsewhere: Sequence[str]
) -> dict[str, Any]:
    project, environment = await anyio.to_thread.run_sync(_project, place, elsewhere)
    settings = Settings.find(
        project=project,
        user_directory=Path(environment["HOME"]),
        state=Path(environment["XDG_STATE_HOME"], "rye"),
        cache=place / "cache",
        environment=environment,
    )
    app = App.open(settings)
    with ray_node(place, environment) if "ray" in elsewhere else nullcontext():
        async with app.closing():
            contenders = _contenders(app.executor(), elsewhere)
            for call in contenders.values():
                await call()
            medians = await _one_by_one(contenders, rounds, calls)
            per_second = {name: await _at_once(call, many) for name, call in contenders.items()}
            home = Path(environment["HOME"])
            memory = {name: max(resident_mb(name, home), default=0.0) for name in MEMORY_MB}
            over = await ends(app.executor(), ("here", *elsewhere), max(3, rounds // 3))
    added = {
        f"{where} {name}": statistics.median(
            one - other
            for one, other in zip(medians[f"{where} {name}"], medians[f"here {name}"], strict=True)
        )
        for where in elsewhere
        for name in AT_ONCE
    }
    p50 = {name: statistics.median(found) for name, found in medians.items()}
    targets = [each for where in elsewhere for each in _targets(where, added, p50, per_second, many)]
    targets += [each for where in elsewhere for each in _targets_of_ends(where, over)]
    if "ray" in elsewhere:
        targets += [
            _target(f"{name}, MB", memory[name], limit, at_least=False) for name, limit in MEMORY_MB.items()
        ]
    return {"p50_ms": p50, "per_second": per_second, "added_ms": added, "ends_ms": over, "targets": targets}


def _targets(
    where: str,
    added: Mapping[str, float],
    p50: Mapping[str, float],
    per_second: Mapping[str, float],
    many: int,
) -> Iterator[dict[str, Any]]:
    what = f"bin_true, {where} over here, ms"
    yield _target(what, added[f"{where} bin_true"], ADDED_MS[where], at_least=False)
    if where == "ray":
        yield _target("sum, ray ÷ here", p50["ray sum"] / p50["here sum"], SUM_RATIO, at_least=False)
    for name, limit in AT_ONCE.items():
        ratio = per_second[f"{where} {name}"] / per_second[f"here {name}"]
        yield _target(f"{name}, {many} at once: calls a second, {where} ÷ here", ratio, limit, at_least=True)


def _targets_of_ends(where: str, over: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    later = over["cancelled"][where] - over["cancelled"]["here"]
    yield _target(f"cancel: dead, {where} later than here, ms", later, CANCEL_MS, at_least=False)
    for kind in ("dead", "told"):
        yield _target(f"worker of {where} killed: {kind}, ms", over[kind][where], KILLED_MS, at_least=False)


def _contenders(executor: PrimitiveExecutor, elsewhere: Sequence[str]) -> Calls:
    def caller(name: str, answer: Any, where: str) -> Call:
        async def call() -> None:
            result = await executor.run(f"{where}/{name}")
            assert result.success, result.error
            assert result.data == answer, result.data
            assert (None if result.node is None else result.node.engine) == ENGINES.get(where)

        return call

    answers = {"bin_true": "", "sum": 42}
    return {
        f"{where} {name}": caller(name, answer, where)
        for name, answer in answers.items()
        for where in ("here", *elsewhere)
    }


async def _one_by_one(contenders: Calls, rounds: int, calls: int) -> dict[str, list[float]]:
    medians: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(calls):
            for name, call in contenders.items():
                begun = time.perf_counter()
                await call()
                times[name].append((time.perf_counter() - begun) * 1000)
        for name, found in times.items():
            medians[name].append(statistics.median(found))
    return medians


async def _at_once(call: Call, many: int) -> float:
    """How many calls a second, of so many at once."""
    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(many):
            group.start_soon(call)
    return many / (time.perf_counter() - begun)


def _target(name: str, value: float, limit: float, *, at_least: bool) -> dict[str, Any]:
    is_met = value >= limit if at_least else value <= limit
    return {"name": name, "value": value, "limit": limit, "at_least": at_least, "is_met": is_met}


def _print(report: dict[str, Any]) -> None:
    print(report["machine"])
    for name, value in report["p50_ms"].items():
        print(f"{name:<14} p50 {value:6.2f} ms, many at once {report['per_second'][name]:7.1f} calls/s")
    for target in report["targets"]:
        limit = f"{'≥' if target['at_least'] else '≤'} {target['limit']:g}"
        print(f"{target['name']}: {target['value']:.2f} ({limit}) {'ok' if target['is_met'] else 'MISSED'}")


def _project(place: Path, elsewhere: Sequence[str]) -> tuple[Path, dict[str, str]]:
    """A project with each tool in several directories, and engines that take those of one."""
    project, home = place / "project", place / "home"
    for directory in ("here", *elsewhere):
        (project / ".ai/tools" / directory).mkdir(parents=True)
    home.mkdir()
    environment = {
        "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        "HOME": str(home),
        "USER_SPACE": str(home),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_CACHE_HOME": str(place / "cache"),
    }
    for directory in ("here", *elsewhere):
        tools = project / ".ai/tools" / directory
        yaml = "" if directory == "here" else "workspace: none\n"
        comment = yaml and f"# {yaml}"
        (tools / "bin_true.yaml").write_text(TRUE.format(workspace=yaml))
        (tools / "wait.sh").write_text(WAIT.format(workspace=comment))
        (tools / "sum.py").write_text(SUM.format(workspace=comment))

    def rye(*words: str) -> str:
        ran = subprocess.run(
            [SCRIPTS / "rye", *words],
            cwd=project,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return ran.stdout

    rye("init")
    for directory in ("here", *elsewhere):
        rye("sign", f"{directory}/*")
    rye("trust", "project")
    document = place / "node.toml"
    document.write_text(rye("node", "init", "--owner", "bench"))
    rye("node", "accept", str(document), "--ids", "node/*", "--ids", "ray/*")
    rye("engine", "add", ENGINES["node"], "--node", str(document), "--takes", "node/*")
    cluster = ("--ray", ADDRESS, "--here", HERE, "--python", sys.executable)
    if "ray" in elsewhere:
        rye("engine", "add", ENGINES["ray"], "--node", str(document), "--takes", "ray/*", *cluster)
    return project, environment
