"""The same figures for people at a terminal, for the documents, and for scripts."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.contenders import ASYNCIO, HOW
from harness.endurance import Endurance
from harness.figures import Figures
from harness.flood import Flood
from harness.memory import Snapshot
from harness.targets import Target

Table = Sequence[Sequence[str]]
"""Rows of cells; the first row is the heading, the first column its names."""

NOT_MEASURED: Final = "-"
WRITTEN_BY: Final = (
    "Written by `python benchmarks/process.py --write`, from one run in which the contenders take turns."
)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run of the benchmark has found."""

    quick: bool
    machine: str
    idle_percent: float
    rounds: int
    flood_bytes: int
    short_runs: Mapping[int, Mapping[str, Figures]]
    flood: Mapping[str, Flood]
    endurance: Endurance
    ratios: Mapping[str, float]
    targets: Sequence[Target]

    def for_scripts(self) -> dict[str, Any]:
        """The report as what JSON can hold."""
        fields = dataclasses.asdict(self)
        fields["contenders"] = HOW
        for target, found in zip(self.targets, fields["targets"], strict=True):
            found["is_met"] = target.is_met
        return fields

    def for_terminal(self) -> str:
        """The report as aligned text."""
        how = [["", "what it does"], *([name, what] for name, what in HOW.items())]
        parts = [self.machine, _aligned(how, left=2)]
        if self.quick:
            parts.insert(0, "--quick: these figures mean nothing but that everything works")
        parts += [_aligned(self._short_runs(concurrency)) for concurrency in self.short_runs]
        parts += [_aligned(self._flood()), _aligned(self._endurance()), self._at_once()]
        parts.append(_aligned(self._targets(), left=1))
        return "\n\n".join(parts)

    def for_page(self) -> str:
        """The targets as Markdown, and the figures behind them."""
        parts = [
            f"{WRITTEN_BY}\n{self.machine}.",
            "The targets. Each ratio is the median of the ratios of all rounds:",
            _markdown(self._targets()),
            "The figures behind them. Here a ratio is that of the medians.",
            "`/bin/true`, with both outputs captured, in milliseconds (p50 and p95), runs per second, and "
            "how late a 1 ms\ntimer of the event loop fires (p99, ms):",
        ]
        parts += [_markdown(self._short_runs(concurrency)) for concurrency in self.short_runs]
        parts += ["A program that writes without end:", _markdown(self._flood())]
        return "\n\n".join(parts)

    # --- tables -----------------------------------------------------------------

    def _short_runs(self, concurrency: int) -> Table:
        figures = self.short_runs[concurrency]
        title = "one at a time" if concurrency == 1 else f"{concurrency} at a time"
        heading = [title, "p50 ms", "p95 ms", "runs/s", "lag p99 ms", "p50 ÷ asyncio", "runs/s ÷ asyncio"]
        base = figures[ASYNCIO]
        rows = [
            [
                name,
                f"{found.p50_ms:.2f}",
                f"{found.p95_ms:.2f}",
                f"{found.runs_per_s:,.0f}",
                NOT_MEASURED if found.lag_p99_ms is None else f"{found.lag_p99_ms:.2f}",
                f"{found.p50_ms / base.p50_ms:.2f}",
                f"{found.runs_per_s / base.runs_per_s:.2f}",
            ]
            for name, found in figures.items()
        ]
        return [heading, *rows]

    def _flood(self) -> Table:
        title = f"{self.flood_bytes // 1024**2:,} MiB of output"
        rows = [
            [name, f"{found.seconds:.3f}", _mebibytes(found.growth_kib)] for name, found in self.flood.items()
        ]
        return [[title, "s", "memory added, MiB"], *rows]

    def _endurance(self) -> Table:
        found = self.endurance
        columns = {"before": found.before, "right after": found.after, "keepers trimmed": found.trimmed}
        rows: dict[str, Callable[[Snapshot], str]] = {
            "processes": lambda at: str(at.processes),
            "zombies": lambda at: str(at.zombies),
            "descriptors": lambda at: str(at.descriptors),
            "memory, MiB": lambda at: _mebibytes(at.resident_kib),
        }
        title = f"{found.runs:,} runs in {found.seconds:.1f} s"
        return [[title, *columns], *([name, *map(show, columns.values())] for name, show in rows.items())]

    def _at_once(self) -> str:
        found = self.endurance
        right = found.at_once - found.wrong
        return f"{found.at_once:,} runs at once in {found.at_once_seconds:.1f} s: {right:,} right answers"

    def _targets(self) -> Table:
        rows = [
            [
                target.what,
                target.shown_limit(),
                target.shown(target.measured),
                "ok" if target.is_met else "MISSED",
            ]
            for target in self.targets
        ]
        return [["", "target", "measured", ""], *rows]


def machine() -> str:
    """The machine, as far as it matters for the figures."""
    kernel = re.match(r"\d+(\.\d+)*", platform.release())
    cores = len(os.sched_getaffinity(0))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores ({platform.machine()}), Linux {kernel[0] if kernel else '?'}, {python}"


def _mebibytes(kib: int | None) -> str:
    return NOT_MEASURED if kib is None else f"{kib / 1024:,.1f}"


def _aligned(table: Table, *, left: int = 1) -> str:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _markdown(table: Table) -> str:
    heading, *rows = table
    rule = ["---", *("---:" for _ in heading[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in [heading, rule, *rows])
