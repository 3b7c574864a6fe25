"""Measures the sections in turns, and says what came out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.figures import IncorrectError, ratio
from harness.memory import idle_percent
from harness.report import machine
from sections import SECTIONS
from sections.case import Case

QUIET_PERCENT = 90
"""Less idle time than this before the start, and the figures are not to be trusted."""

BATCH_S = 0.02
"""How long one batch of calls takes, about: long for the clock, short for what disturbs the machine."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one case came to: microseconds a call, and the ratio to its floor."""

    section: str
    name: str
    ours_us: float
    floor_us: float | None
    ratio: float | None
    max_ratio: float | None
    max_ms: float | None

    @property
    def is_met(self) -> bool | None:
        """Whether its target was reached; None without one."""
        by_ratio = None if self.ratio is None or self.max_ratio is None else self.ratio <= self.max_ratio
        by_time = None if self.max_ms is None else self.ours_us <= self.max_ms * 1e3
        found = [each for each in (by_ratio, by_time) if each is not None]
        return all(found) if found else None

    @property
    def row(self) -> list[str]:
        """The cells of its line."""
        target = [] if self.max_ratio is None else [f"≤ {self.max_ratio:.2f} x"]
        target += [] if self.max_ms is None else [f"≤ {self.max_ms:g} ms"]
        return [
            f"{self.section}: {self.name}",
            f"{self.ours_us:,.1f}",
            "-" if self.floor_us is None else f"{self.floor_us:,.1f}",
            "-" if self.ratio is None else f"{self.ratio:.2f}",
            ", ".join(target),
            {True: "ok", False: "MISSED", None: ""}[self.is_met],
        ]


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    rounds, batch_s = (1, 0.0) if options.quick else (options.rounds, BATCH_S)
    try:
        found = [
            measured for name in options.only or SECTIONS for measured in _section(name, rounds, batch_s)
        ]
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    print(f"{machine()}\n\n{_table(found)}", flush=True)
    if options.json:
        report = _for_scripts(found, quick=options.quick, idle=idle, rounds=rounds)
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and any(each.is_met is False for each in found))


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument(
        "--only", action="append", choices=[*SECTIONS], help="only this section; may be repeated"
    )
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each case (default: %(default)s)")
    return parser.parse_args()


def _section(name: str, rounds: int, batch_s: float) -> list[Measured]:
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as directory,
        SECTIONS[name](Path(directory)) as cases,
    ):
        return [_measure(name, case, rounds, batch_s) for case in cases]


def _measure(section: str, case: Case, rounds: int, batch_s: float) -> Measured:
    calls = [case.ours] if case.floor is None else [case.ours, case.floor]
    for call in calls:
        if not case.is_right(answer := call()):
            raise IncorrectError(f"{section}, {case.name}: unexpected answer {answer!r:.200}")
    counts = [_calls_in(call, batch_s) for call in calls]
    times: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        order = range(len(calls)) if number % 2 else reversed(range(len(calls)))
        for which in order:
            times[which].append(_time(calls[which], counts[which]))
    medians = [statistics.median(found) * 1e6 for found in times]
    return Measured(
        section=section,
        name=case.name,
        ours_us=medians[0],
        floor_us=medians[1] if len(calls) == 2 else None,
        ratio=ratio(times[0], times[1], lambda seconds: seconds) if len(calls) == 2 else None,
        max_ratio=case.max_ratio,
        max_ms=case.max_ms,
    )


def _calls_in(call: Callable[[], Any], seconds: float) -> int:
    """How many calls take about so long."""
    count = 1
    while (took := _time(call, count) * count) < seconds / 2:
        count *= 2
    return max(1, round(count * seconds / took)) if seconds else 1


def _time(call: Callable[[], Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


def _table(found: Sequence[Measured]) -> str:
    heading = ["", "µs", "floor µs", "ratio", "target", ""]
    rows = [heading, *(each.row for each in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _for_scripts(found: Sequence[Measured], *, quick: bool, idle: float, rounds: int) -> dict[str, Any]:
    return {
        "quick": quick,
        "machine": machine(),
        "idle_percent": idle,
        "rounds": rounds,
        "cases": [dataclasses.asdict(each) | {"is_met": each.is_met} for each in found],
    }
