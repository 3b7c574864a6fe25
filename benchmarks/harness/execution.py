"""`benchmarks/execute.py`: its options, its parts in order, its targets, and where the figures go."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness import stages
from harness.figures import IncorrectError, percentile
from harness.memory import idle_percent
from harness.report import machine
from harness.tools import LARGE, MODULES, PARAMETERS, Scene, by_command, by_hand, by_us, logged_runs, prepared
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.logged_call import facts_of
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.receipts.runner import RunnerNotary
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunFilter, RunLog

QUIET_PERCENT: Final = 90
RUNS: Final = 5
"""How often each tool runs in a round, both ways."""

SLOWER_ROUNDS: Final = 7
"""How many rounds there are of what takes longer: whole commands, and many runs at once."""

RECEIPTS: Final = 100
"""How many runs end in a round, with a receipt and without one."""

AT_ONCE: Final = 50
QUICK_AT_ONCE: Final = 4
STAGE_CALLS: Final = 200
LARGE_FIRST_CALLS: Final = 5
TIMER_S: Final = 0.001
REFERENCE: Final = "python_script"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure, and what it may be at most."""

    name: str
    value: float
    limit: float
    unit: str = "times"

    @property
    def is_met(self) -> bool:
        """Whether it was reached."""
        return self.value <= self.limit

    @property
    def line(self) -> str:
        """How it is printed."""
        verdict = "ok" if self.is_met else "MISSED"
        return f"{self.name:<58}{self.value:8.2f} {self.unit}  ≤ {self.limit:g} {self.unit}  {verdict}"


@dataclass(frozen=True, slots=True)
class Sides:
    """The same runs, ours and by hand, in seconds: round after round."""

    ours: Sequence[Sequence[float]]
    floor: Sequence[Sequence[float]]

    @property
    def ratio(self) -> float:
        """How many times as long ours take: the median of what each round says."""
        return statistics.median(one / other for one, other in self._rounds())

    @property
    def over_ms(self) -> float:
        """How much longer, in milliseconds."""
        return statistics.median(one - other for one, other in self._rounds()) * 1e3

    def as_dict(self) -> dict[str, float]:
        """What they come to, in milliseconds."""
        ours, floor = ([each for times in side for each in times] for side in (self.ours, self.floor))
        return {
            "ours_p50_ms": percentile(ours, 50) * 1e3,
            "ours_p95_ms": percentile(ours, 95) * 1e3,
            "floor_p50_ms": percentile(floor, 50) * 1e3,
            "floor_p95_ms": percentile(floor, 95) * 1e3,
            "ratio": self.ratio,
            "over_ms": self.over_ms,
        }

    def _rounds(self) -> list[tuple[float, float]]:
        pairs = zip(self.ours, self.floor, strict=True)
        return [(statistics.median(one), statistics.median(other)) for one, other in pairs]


@dataclass(slots=True)
class Report:
    """Everything that was measured."""

    quick: bool
    machine: str
    idle_percent: float
    missing: list[str]
    runs: dict[str, dict[str, float]] = field(default_factory=dict)
    commands: dict[str, dict[str, float]] = field(default_factory=dict)
    lateness_ms: dict[str, float] = field(default_factory=dict)
    stages_us: dict[str, float] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    def for_scripts(self) -> dict[str, Any]:
        """All of it as data."""
        whole = asdict(self)
        whole["targets"] = [asdict(each) | {"is_met": each.is_met} for each in self.targets]
        return whole

    def for_terminal(self) -> str:
        """All of it, a line each."""
        lines = [f"{self.machine}\n"]
        if self.missing:
            lines.append(f"not there, and left out: {', '.join(self.missing)}\n")
        for title, table in (("run", self.runs), ("command", self.commands)):
            lines += [_HEAD.format(title), *(_line(name, row) for name, row in table.items()), ""]
        lines += [f"{'stage':<42}{'µs':>10}", *_stage_lines(self.stages_us), ""]
        lines += [f"{name:<42}{value:10.2f} ms" for name, value in self.lateness_ms.items()]
        return "\n".join([*lines, "", *(target.line for target in self.targets)])


_HEAD = "{:<24}      p50      p95 ms   by hand p50      p95 ms      ratio     over ms"


def _line(name: str, row: Mapping[str, float]) -> str:
    ours, floor = ((row[f"{side}_p50_ms"], row[f"{side}_p95_ms"]) for side in ("ours", "floor"))
    return (
        f"{name:<24}{ours[0]:9.2f}{ours[1]:9.2f}{floor[0]:17.2f}{floor[1]:9.2f}"
        f"{row['ratio']:14.3f}{row['over_ms']:12.2f}"
    )


def _stage_lines(found: Mapping[str, float]) -> list[str]:
    before = sum(found.get(name, 0.0) for name in stages.BEFORE_THE_RUN)
    lines = [f"{name:<42}{value:10.1f}" for name, value in found.items()]
    return [*lines, f"{'all before the run':<42}{before:10.1f}"]


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            found = asyncio.run(_measure(Path(directory), options))
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    print(found.for_terminal(), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found.for_scripts(), indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not all(target.is_met for target in found.targets))


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each tool (default: %(default)s)")
    return parser.parse_args()


async def _measure(directory: Path, options: argparse.Namespace) -> Report:
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    rounds, slower = (1, 1) if options.quick else (options.rounds, SLOWER_ROUNDS)
    scene = Scene(directory)
    report = Report(options.quick, machine(), idle, scene.missing)
    executor = scene.executor()
    try:
        await _tools(scene, executor, report, rounds, slower)
        await _stages(executor, report, 3 if options.quick else STAGE_CALLS)
        await _at_once(executor, report, QUICK_AT_ONCE if options.quick else AT_ONCE, slower)
        await _large(scene, report, rounds)
        await _receipts(scene, executor, report, rounds)
    finally:
        await executor.close()
    return report


async def _tools(scene: Scene, executor: PrimitiveExecutor, report: Report, rounds: int, slower: int) -> None:
    """Each runtime, and then as a whole command; the one for Python scripts has targets."""
    for tool in scene.there:
        known = logged_runs(executor)
        async with prepared(executor, tool.item_id) as spec:
            ours, floor = lambda name=tool.item_id: by_us(executor, name), lambda spec=spec: by_hand(spec)
            sides = await _in_turns(ours, floor, rounds, RUNS)
            command = lambda name=tool.item_id: asyncio.to_thread(by_command, scene, name)  # noqa: E731
            commands = await _in_turns(command, floor, slower, 1)
        expected = known + (rounds + 1) * RUNS + slower + 1
        if (found := logged_runs(executor)) != expected:
            raise IncorrectError(f"{tool.name}: expected {expected} runs in the log, found {found}")
        report.runs[tool.name], report.commands[tool.name] = sides.as_dict(), commands.as_dict()
        if tool.name == REFERENCE:
            report.targets += [
                Target("a Python tool, over by hand", sides.ratio, 1.15),
                Target("a Python tool, more than by hand", sides.over_ms, 2, "ms"),
            ]


async def _in_turns(
    ours: Callable[[], Awaitable[float]], floor: Callable[[], Awaitable[float]], rounds: int, runs: int
) -> Sides:
    """Both, taking turns; a round before the others gets both going, and does not count."""
    times: tuple[list[list[float]], list[list[float]]] = ([], [])
    for number in range(rounds + 1):
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(runs):
            for which in (0, 1) if (number + turn) % 2 else (1, 0):
                taken[which].append(await (ours, floor)[which]())
        if number:
            times[0].append(taken[0])
            times[1].append(taken[1])
    return Sides(*times)


async def _stages(executor: PrimitiveExecutor, report: Report, count: int) -> None:
    item_id = f"bench/{REFERENCE}"
    report.stages_us = await stages.measure(executor, item_id, count)
    dry = percentile(await stages.dry_runs(executor, item_id, count), 50) * 1e3
    report.targets.append(Target("dry_run", dry, 2, "ms"))


async def _at_once(executor: PrimitiveExecutor, report: Report, count: int, rounds: int) -> None:
    """So many runs begin at the same moment, and how late a timer of the event loop is meanwhile."""
    item_id, late = f"bench/{REFERENCE}", {"ours": [0.0], "floor": [0.0]}
    async with prepared(executor, item_id) as spec:

        def together(run: Callable[[], Awaitable[float]], side: str) -> Callable[[], Awaitable[float]]:
            async def batch() -> float:
                timer = asyncio.create_task(_timer(late[side]))
                started = time.perf_counter()
                await asyncio.gather(*(run() for _ in range(count)))
                took = time.perf_counter() - started
                timer.cancel()
                return took

            return batch

        ours = together(lambda: by_us(executor, item_id), "ours")
        sides = await _in_turns(ours, together(lambda: by_hand(spec), "floor"), rounds, 1)
    report.runs[f"{count} at once"] = sides.as_dict()
    for side, times in late.items():
        name = "event loop late meanwhile" if side == "ours" else "the same by hand"
        report.lateness_ms |= {f"{name}, p99": percentile(times, 99) * 1e3, f"{name}, max": max(times) * 1e3}
    report.targets.append(Target(f"{count} at once, over by hand", sides.ratio, 1.2))


async def _timer(late: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await asyncio.sleep(TIMER_S)
        late.append(time.perf_counter() - started - TIMER_S)


async def _large(scene: Scene, report: Report, rounds: int) -> None:
    """A tool of many files: its first calls, by executors that know nothing of it, then those after that."""
    first = []
    for _ in range(LARGE_FIRST_CALLS):
        fresh = scene.executor()
        await fresh.dry_run(f"bench/{REFERENCE}", PARAMETERS)  # what is read once a process
        first.append(stages.carrying(fresh, LARGE))
        await fresh.close()
    executor = scene.executor()
    try:
        began = await by_us(executor, LARGE)
        await executor._preparation.background.wait()
        again = [stages.carrying(executor, LARGE) for _ in range(LARGE_FIRST_CALLS * rounds)]
        async with prepared(executor, LARGE) as spec:
            script = next(each for each in spec.args if each.endswith(".py"))
            _compile(spec.command, Path(script).parent)
            sides = await _in_turns(lambda: by_us(executor, LARGE), lambda: by_hand(spec), rounds, RUNS)
    finally:
        await executor.close()
    report.runs[f"with {MODULES} modules, again"] = sides.as_dict()
    report.lateness_ms[f"first call with {MODULES} modules"] = began * 1e3
    report.targets += [
        Target(f"verify and copy {MODULES} modules, first call", statistics.median(first) * 1e3, 10, "ms"),
        Target(f"verify and copy {MODULES} modules, again", statistics.median(again) * 1e3, 10, "ms"),
        Target(f"a tool with {MODULES} modules, second call, over by hand", sides.ratio, 1.15),
    ]


async def _receipts(scene: Scene, executor: PrimitiveExecutor, report: Report, rounds: int) -> None:
    """What a receipt adds to the end of a run in a log: for a tool of one file, and for one of many."""
    one = await _with_and_without(scene, executor, f"bench/{REFERENCE}", rounds)
    [last] = executor._log.list(RunFilter(limit=1))
    many = await _with_and_without(scene, executor, last.item_id, rounds)
    found = one.as_dict()
    report.lateness_ms["the end of a run in the log, p50"] = found["ours_p50_ms"]
    report.lateness_ms["the same without a receipt, p50"] = found["floor_p50_ms"]
    report.lateness_ms["what it adds where it names 50 modules"] = many.over_ms
    report.targets.append(Target("a receipt", one.over_ms, 0.15, "ms"))


async def _with_and_without(scene: Scene, executor: PrimitiveExecutor, item_id: str, rounds: int) -> Sides:
    """The end of a run of this tool in a log with receipts, and in one without, in turns."""
    [record] = executor._log.list(RunFilter(item=item_id.__eq__, limit=1))
    decided = await executor._decider.decide(item_id, PARAMETERS, Caller())
    states = scene.state / "with" / item_id, scene.state / "without" / item_id
    with RunLog(states[0], notary=RunnerNotary(states[0])) as attested, RunLog(states[1]) as plain:

        async def with_receipt() -> float:
            ended, begun = replace(record, run_id=new_run_id()), time.perf_counter()
            made = attested.attest(ended, facts_of(decided, scene.environment, None))
            took = time.perf_counter() - begun
            if made.receipt is None:
                raise IncorrectError(f"expected a receipt, found {made.notices}")
            return took

        async def without() -> float:
            ended, begun = replace(record, run_id=new_run_id()), time.perf_counter()
            plain.attest(ended)
            return time.perf_counter() - begun

        return await _in_turns(with_receipt, without, rounds, RECEIPTS)


def _compile(interpreter: str, directory: Path) -> None:
    """By hand there is bytecode beside the modules, after a first run."""
    subprocess.run([interpreter, "-m", "compileall", "-q", str(directory)], check=True)
