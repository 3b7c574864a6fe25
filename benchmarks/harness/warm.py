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
from harness.memory import idle_percent, own_family
from harness.report import machine
from harness.tools import PARAMETERS, Scene, by_hand, by_us, prepared
from rye_mcp.executor.primitive_executor import PrimitiveExecutor

QUIET_PERCENT: Final = 90
ROUNDS: Final = 60
QUICK_ROUNDS: Final = 3
IN_SEQUENCE: Final = 1000
AT_ONCE: Final = 50
TIMER_S: Final = 0.001
TOOL: Final = "bench/python_function"
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/performance.md"
BEGIN, END = "<!-- benchmark:warm -->\n", "<!-- /benchmark:warm -->"


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured, in milliseconds; each list has a figure of each round."""

    hand: list[float]
    cold: list[float]
    warm: list[float]
    cold_in_sequence: float
    warm_in_sequence: float
    warm_share: float
    cold_at_once: float
    warm_at_once: float
    lag_cold: float
    lag_warm: float
    waiting_kib: float

    @property
    def targets(self) -> list[Target]:
        """What is to be reached."""
        return [
            Target("one call: warm ÷ by hand, p50", _ratio(self.warm, self.hand), 0.25),
            Target("one call: warm, p50", statistics.median(self.warm), 5, "ms"),
            Target(
                "one after the other: time warm ÷ cold", self.warm_in_sequence / self.cold_in_sequence, 1 / 5
            ),
            Target(f"{AT_ONCE} at once: time warm ÷ cold", self.warm_at_once / self.cold_at_once, 1 / 4),
            Target("one that waits: memory (PSS)", self.waiting_kib / 1024, 15, "MiB"),
        ]

    def table(self) -> list[str]:
        """The figures, as a table of the page."""
        rows = [
            (
                "one call, p50",
                *(f"{statistics.median(each):.1f} ms" for each in (self.hand, self.cold, self.warm)),
            ),
            (
                "one call, beside by hand",
                "1.00 x",
                f"{_ratio(self.cold, self.hand):.2f} x",
                f"{_ratio(self.warm, self.hand):.2f} x",
            ),
            (
                "one after the other, each",
                "-",
                f"{self.cold_in_sequence:.1f} ms",
                f"{self.warm_in_sequence:.1f} ms",
            ),
            (f"{AT_ONCE} at once, each", "-", f"{self.cold_at_once:.1f} ms", f"{self.warm_at_once:.1f} ms"),
            ("lag of the event loop, p99", "-", f"{self.lag_cold:.1f} ms", f"{self.lag_warm:.1f} ms"),
        ]
        head = ["|  | by hand | cold | warm |", "| --- | ---: | ---: | ---: |"]
        return head + [f"| {' | '.join(row)} |" for row in rows]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


async def _warm(executor: PrimitiveExecutor) -> float:
    started = time.perf_counter()
    result = await executor.execute(TOOL, PARAMETERS)
    took = time.perf_counter() - started
    if result.runtime is None or not result.runtime.is_warm or result.data != PARAMETERS:
        raise IncorrectError(f"expected a warm call, found {result.runtime}: {result.error or result.data}")
    return took


async def _many(executor: PrimitiveExecutor, count: int, at_once: int) -> tuple[float, float]:
    """Milliseconds for each of so many calls, and which share of them ran warm."""
    gate, shares = asyncio.Semaphore(at_once), list[bool]()

    async def one() -> None:
        async with gate:
            result = await executor.execute(TOOL, PARAMETERS)
            if result.data != PARAMETERS or result.runtime is None:
                raise IncorrectError(f"expected an answer, found {result.error}")
            shares.append(result.runtime.is_warm)

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return (time.perf_counter() - started) * 1000 / count, sum(shares) / count


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
    """The proportional set size of each interpreter that waits for a call."""
    sizes = []
    for process in own_family():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        if b"-c" in words and {b"call", b"zygote"} & {*words}:
            sizes.append(
                next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            )
    if not sizes:
        raise IncorrectError("expected an interpreter that waits, found none")
    return statistics.mean(sizes)


async def measure(scene: Scene, rounds: int, *, quick: bool) -> Found:
    """Everything, in turns."""
    cold, warm = scene.executor(), scene.executor(warm=True)
    sides: dict[str, list[float]] = {"hand": [], "cold": [], "warm": []}
    try:
        await by_us(cold, TOOL)
        await by_us(warm, TOOL)
        async with prepared(cold, TOOL) as spec:
            contenders: dict[str, Callable[[], Awaitable[float]]] = {
                "hand": lambda: by_hand(spec),
                "cold": lambda: by_us(cold, TOOL),
                "warm": lambda: _warm(warm),
            }
            for _ in range(rounds):
                await warm.settle()
                for name, contender in contenders.items():
                    sides[name].append(await contender() * 1000)
        await warm.settle()
        waiting = _waiting_kib()
        count, at_once = (12, 4) if quick else (IN_SEQUENCE, AT_ONCE)
        cold_sequence, _ = await _many(cold, count, 1)
        warm_sequence, share = await _many(warm, count, 1)
        (cold_crowd, _), lag_cold = await _lag(_many(cold, at_once * 2, at_once))
        (warm_crowd, _), lag_warm = await _lag(_many(warm, at_once * 2, at_once))
    finally:
        await warm.close()
        await cold.close()
    return Found(
        **sides,
        cold_in_sequence=cold_sequence,
        warm_in_sequence=warm_sequence,
        warm_share=share,
        cold_at_once=cold_crowd,
        warm_at_once=warm_crowd,
        lag_cold=lag_cold,
        lag_warm=lag_warm,
        waiting_kib=waiting,
    )


def _verdict(target: Target) -> str:
    return "ok" if target.is_met else "MISSED"


def _page(found: Found, idle: float) -> str:
    targets = [
        f"| {each.name} | ≤ {each.limit:.2f} {each.unit} | {each.value:.2f} | {_verdict(each)} |"
        for each in found.targets
    ]
    lines = [
        "Written by `python benchmarks/warm.py --write`, from one run in which the contenders take turns.",
        f"{machine()}; before it, the machine was idle for {idle:.0f} % of the time.",
        "",
        *found.table(),
        "",
        f"Of the calls one after the other, {found.warm_share:.0%} found an interpreter waiting.",
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
    options = parser.parse_args()
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"The machine is busy (idle {idle:.0f} %): these figures mean little.", file=sys.stderr)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="rye-warm-", dir=Path.home()) as directory:
        try:
            found = asyncio.run(measure(Scene(Path(directory)), max(1, rounds), quick=options.quick))
        except IncorrectError as exc:
            print(exc, file=sys.stderr)
            return 1
    print("\n".join(found.table()))
    for target in found.targets:
        print(target.line)
    if options.json is not None:
        cases = [{"name": each.name, "value": each.value, "limit": each.limit} for each in found.targets]
        options.json.write_text(json.dumps({"targets": cases}, indent=2) + "\n", encoding="utf-8")
    if options.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}{_page(found, idle)}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 1 if options.strict and not all(each.is_met for each in found.targets) else 0
