"""What must be reached, and what was measured: ratios within one run, and numbers that have no noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.endurance import Endurance


@dataclass(frozen=True, slots=True)
class Target:
    """One line: `measured` must be at most, or at least, `limit`."""

    what: str
    limit: float
    measured: float
    unit: str = "x"
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it was reached."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def shown(self, value: float) -> str:
        """A value as it is printed."""
        number = (
            f"{value:.2f}" if self.unit == "x" else f"{value:.1f}" if self.unit == "MiB" else f"{value:g}"
        )
        return f"{number} {self.unit}".rstrip()

    def shown_limit(self) -> str:
        """The limit as it is printed."""
        return f"{'≥' if self.at_least else '≤'} {self.shown(self.limit)}"


def targets(ratios: Mapping[str, float], flood_growth_kib: int, endurance: Endurance) -> list[Target]:
    """Every target, in the order in which they are printed."""
    before, trimmed = endurance.before, endurance.trimmed
    runs = f"{endurance.runs:,} runs"
    return [
        Target("SubprocessPrimitive, one at a time: p50 ÷ asyncio's", 1.0, ratios["primitive_p50_1"]),
        Target(
            "SubprocessPrimitive, 64 at a time: runs per second ÷ asyncio's",
            1.7,
            ratios["primitive_runs_per_s_64"],
            at_least=True,
        ),
        Target(
            "SubprocessPrimitive, 64 at a time: loop lag p99 ÷ asyncio's", 0.5, ratios["primitive_lag_p99_64"]
        ),
        Target("lilux-proc exec, one at a time: p50 ÷ posix_spawn + wait", 3.5, ratios["exec_p50_1"]),
        Target("flood: time ÷ the C reader's", 1.5, ratios["flood_time"]),
        Target("flood: memory added", 16, flood_growth_kib / 1024, "MiB"),
        Target(f"{runs}: zombies", 0, trimmed.zombies, ""),
        Target(f"{runs}: descriptors added", 0, abs(trimmed.descriptors - before.descriptors), ""),
        Target(f"{runs}: memory added", 1, (trimmed.resident_kib - before.resident_kib) / 1024, "MiB"),
        Target(f"{endurance.at_once:,} runs at once: wrong answers", 0, endurance.wrong, ""),
    ]
