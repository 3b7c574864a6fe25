"""What is measured, as values: times of a batch, what they come to, and ratios between contenders."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class IncorrectError(Exception):
    """A contender did not do what it was asked to do: its time means nothing."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of runs, in seconds: the whole, each run, and how late the timer of the event loop was."""

    seconds: float
    latencies: Sequence[float]
    lags: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What a batch comes to. Without an event loop there is no lag."""

    p50_ms: float
    p95_ms: float
    runs_per_s: float
    lag_p99_ms: float | None

    @classmethod
    def of(cls, batch: Batch) -> Figures:
        """The figures of one batch."""
        return cls(
            p50_ms=percentile(batch.latencies, 50) * 1e3,
            p95_ms=percentile(batch.latencies, 95) * 1e3,
            runs_per_s=len(batch.latencies) / batch.seconds,
            lag_p99_ms=percentile(batch.lags, 99) * 1e3 if batch.lags else None,
        )

    @classmethod
    def median(cls, rounds: Sequence[Figures]) -> Figures:
        """The median of each figure over the rounds."""
        lags = [figures.lag_p99_ms for figures in rounds if figures.lag_p99_ms is not None]
        return cls(
            p50_ms=statistics.median(figures.p50_ms for figures in rounds),
            p95_ms=statistics.median(figures.p95_ms for figures in rounds),
            runs_per_s=statistics.median(figures.runs_per_s for figures in rounds),
            lag_p99_ms=statistics.median(lags) if lags else None,
        )


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def ratio(of: Sequence[T], to: Sequence[T], figure: Callable[[T], float | None]) -> float:
    """How one contender compares with another: the median of what each round says by itself.

    Both were measured within a second of each other in each round, so what slows the machine down for longer
    slows down both.
    """
    pairs = [(figure(one), figure(other)) for one, other in zip(of, to, strict=True)]
    return statistics.median(one / other for one, other in pairs if one is not None and other)
