"""`benchmarks/warm.py`: its options, what it measures, its targets, and where the figures go."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.execution import Target
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.picture import bars
from harness.report import machine
from harness.session import add_option, copies_in, enter
from harness.tools import PARAMETERS, by_hand, prepared
from harness.warm_ways import WarmScene, Ways, in_turns, measure_ways, waiting
from rye_mcp.executor.primitive_executor import PrimitiveExecutor

QUIET_PERCENT: Final = 90
ROUNDS: Final = 60
QUICK_ROUNDS: Final = 3
IN_SEQUENCE: Final = 1000
AT_ONCE: Final = 50
TIMER_S: Final = 0.001
TOOL: Final = "bench/python_function"
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/performance.md"
PICTURE: Final = PAGE.parent / "images/warm.svg"
BEGIN, END = "<!-- benchmark:warm -->\n", "<!-- /benchmark:warm -->"


Sides = Sequence[float]
"""By hand, cold and warm, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured, in milliseconds; `one` has the figures of each round, by hand, cold and warm."""

    one: Sequence[Sides]
    in_sequence: Sides
    at_once: Sides
    lags: Sides
    warm_shares: Sides
    waiting_kib: float
    ways: Ways

    @property
    def targets(self) -> list[Target]:
        """What is to be reached."""
        hand, _, warm = self.one
        return [
            Target("one call: warm ÷ by hand, p50", _ratio(warm, hand), 0.25),
            Target("one call: warm, p50", statistics.median(warm), 5, "ms"),
            Target("one after the other: time warm ÷ cold", self.in_sequence[2] / self.in_sequence[1], 1 / 5),
            Target(f"{AT_ONCE} at once: time warm ÷ cold", self.at_once[2] / self.at_once[1], 1 / 4),
            Target("lag of the event loop, p99: warm ÷ cold", self.lags[1] / max(self.lags[0], 0.01), 1),
            Target("one that waits: memory (PSS)", self.waiting_kib / 1024, 15, "MiB"),
            *self.ways.targets,
        ]

    def table(self) -> list[str]:
        """The figures, as a table of the page."""
        hand, cold, warm = self.one
        lags = (f"{each:.1f} ms" for each in self.lags)
        rows: list[tuple[str, ...]] = [
            ("one call, p50", *(f"{statistics.median(each):.1f} ms" for each in self.one)),
            (
                "one call, beside by hand",
                "1.00 x",
                f"{_ratio(cold, hand):.2f} x",
                f"{_ratio(warm, hand):.2f} x",
            ),
            ("one after the other, each", *(f"{each:.1f} ms" for each in self.in_sequence)),
            (f"{AT_ONCE} at once, each", *(f"{each:.1f} ms" for each in self.at_once)),
            ("lag of the event loop, p99", "-", *lags),
            *self.ways.table(),
        ]
        head = ["|  | by hand | cold | warm |", "| --- | ---: | ---: | ---: |"]
        return head + [f"| {' | '.join(row)} |" for row in rows]

    def picture(self) -> str:
        """By hand, cold and warm, as bars."""
        groups: dict[str, Sequence[float | None]] = {
            "one call": [statistics.median(each) for each in self.one],
            "one after the other, each": self.in_sequence,
            f"{AT_ONCE} at once, each": self.at_once,
            "a package of 300 ms": [statistics.median(each) for each in self.ways.slow],
        }
        if self.ways.node is not None:
            groups["Node.js"] = [statistics.median(each) for each in self.ways.node]
        return bars("What a call takes by hand, cold and warm", ("by hand", "cold", "warm"), groups, "ms")


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


async def _many(executor: PrimitiveExecutor, count: int, at_once: int) -> tuple[float, float]:
    """Milliseconds for each of so many calls, and which share of them ran warm."""
    shares = list[bool]()

    async def one() -> None:
        result = await executor.execute(TOOL, PARAMETERS)
        if result.data != PARAMETERS or result.runtime is None:
            raise IncorrectError(f"expected an answer, found {result.error}")
        shares.append(result.runtime.is_warm)

    return await _each(one, count, at_once), sum(shares) / count


async def _each(one: Callable[[], Awaitable[object]], count: int, at_once: int) -> float:
    """The milliseconds of each call, when several are in progress at a time."""
    gate = asyncio.Semaphore(at_once)

    async def when_it_may() -> None:
        async with gate:
            await one()

    started = time.perf_counter()
    await asyncio.gather(*(when_it_may() for _ in range(count)))
    return (time.perf_counter() - started) * 1000 / count


async def _lag(work: Awaitable[tuple[float, float]]) -> tuple[tuple[float, float], float]:
    """What the work came to, and how late a timer of the loop fired meanwhile (p99, in milliseconds)."""
    lags: list[float] = []

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TIMER_S)
            lags.append((time.perf_counter() - before - TIMER_S) * 1000)

    timer = asyncio.ensure_future(watch())
    try:
        found = await work
    finally:
        timer.cancel()
    return found, sorted(lags)[int(len(lags) * 0.99) - 1] if lags else 0.0


def _waiting_kib() -> float:
    """The proportional set size of each interpreter that waits for a call, or is forked for one."""
    sizes = []
    for place in waiting():
        try:
            rollup = (place / "smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        sizes.append(next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")))
    if not sizes:
        raise IncorrectError("expected an interpreter that waits, found none")
    return statistics.mean(sizes)


async def measure(scene: WarmScene, rounds: int, *, quick: bool) -> Found:
    """Everything, in turns."""
    cold, warm = scene.executor(), scene.executor(warm=True)
    count, at_once = (12, 4) if quick else (IN_SEQUENCE, AT_ONCE)
    try:
        one = await in_turns(cold, warm, TOOL, rounds)
        await warm.settle()
        kib = _waiting_kib()
        async with prepared(cold, TOOL) as spec:
            hand_sequence = await _each(lambda: by_hand(spec), max(1, count // 10), 1)
            hand_crowd = await _each(lambda: by_hand(spec), at_once, at_once)
        cold_sequence, _ = await _many(cold, max(1, count // 4), 1)
        warm_sequence, share = await _many(warm, count, 1)
        (cold_crowd, _), lag_cold = await _lag(_many(cold, at_once * 2, at_once))
        (warm_crowd, crowd_share), lag_warm = await _lag(_many(warm, at_once * 2, at_once))
    finally:
        await warm.close()
        await cold.close()
    return Found(
        one,
        (hand_sequence, cold_sequence, warm_sequence),
        (hand_crowd, cold_crowd, warm_crowd),
        (lag_cold, lag_warm),
        (share, crowd_share),
        kib,
        await measure_ways(scene, rounds),
    )


def _verdict(target: Target) -> str:
    return "ok" if target.is_met else "MISSED"


def _page(found: Found, idle: float, copies: str) -> str:
    targets = [
        f"| {each.name} | ≤ {each.limit:.2f} {each.unit} | {each.value:.2f} | {_verdict(each)} |"
        for each in found.targets
    ]
    lines = [
        "Written by `python benchmarks/warm.py --write`, from one run in which the contenders take turns.",
        f"{machine()}; before it, the machine was idle for {idle:.0f} % of the time; {copies}.",
        "",
        *found.table(),
        "",
        "![What a call takes by hand, cold and warm](images/warm.svg)",
        "",
        f"Of the calls one after the other, {found.warm_shares[0]:.0%} ran warm, and of those at once "
        f"{found.warm_shares[1]:.0%}.",
        "",
        "|  | target | measured |  |",
        "| --- | ---: | ---: | ---: |",
        *targets,
    ]
    return "\n".join(lines) + "\n"


def main(doc: str) -> int:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--strict", action="store_true", help="end with 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"how often; {ROUNDS} by default")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/performance.md")
    add_option(parser)
    options = parser.parse_args()
    if options.session:
        enter()
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"The machine is busy (idle {idle:.0f} %): these figures mean little.", file=sys.stderr)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="rye-warm-", dir=Path.home()) as directory:
        try:
            scene = WarmScene(Path(directory))
            copies = copies_in(scene.environment)
            found = asyncio.run(measure(scene, max(1, rounds), quick=options.quick))
        except IncorrectError as exc:
            print(exc, file=sys.stderr)
            return 1
    print(f"{machine()}; {copies}", *found.table(), sep="\n")
    for target in found.targets:
        print(target.line)
    if options.json is not None:
        cases = [{"name": each.name, "value": each.value, "limit": each.limit} for each in found.targets]
        options.json.write_text(json.dumps({"targets": cases}, indent=2) + "\n", encoding="utf-8")
    if options.write:
        PICTURE.write_text(found.picture(), encoding="utf-8")
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(
            f"{head}{BEGIN}{_page(found, idle, copies)}{END}{rest.partition(END)[2]}", encoding="utf-8"
        )
    return 1 if options.strict and not all(each.is_met for each in found.targets) else 0
