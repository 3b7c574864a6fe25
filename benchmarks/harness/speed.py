"""Many short runs: how long each takes, how many there are in a second, how late the event loop gets.

The contenders take turns, round by round, and each round begins with another one, so that whatever else the
machine is doing hits all of them alike. Nothing is warmed up before a batch: what a contender has to build up
for many runs at a time, after the others had their turns, counts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from harness.contenders import ASYNCIO, EXEC, PRIMITIVE, C, Contender
from harness.figures import Figures, ratio

COUNTS = {1: 200, 8: 400, 64: 1536, 256: 1536}
"""How many runs a batch has, by how many of them are under way at a time."""

QUICK_COUNTS = {1: 4, 8: 16, 64: 64, 256: 256}

Rounds = dict[int, dict[str, list[Figures]]]
"""By concurrency and contender: the figures of each round."""


def measure(
    contenders: Sequence[Contender], rounds: int, counts: dict[int, int], tell: Callable[[str], None]
) -> Rounds:
    """All contenders at every concurrency, so many rounds."""
    measured: Rounds = {
        concurrency: {contender.name: [] for contender in contenders} for concurrency in counts
    }
    for contender in contenders:
        contender.run(1, 1)
    for number in range(rounds):
        first = number % len(contenders)
        for concurrency, count in counts.items():
            tell(f"short runs: round {number + 1} of {rounds}, {concurrency} at a time")
            for contender in [*contenders[first:], *contenders[:first]]:
                gc.collect()
                measured[concurrency][contender.name].append(Figures.of(contender.run(count, concurrency)))
    return measured


def medians(measured: Rounds) -> dict[int, dict[str, Figures]]:
    """The median figures of every contender."""
    return {
        concurrency: {name: Figures.median(rounds) for name, rounds in by_name.items()}
        for concurrency, by_name in measured.items()
    }


def ratios(measured: Rounds) -> dict[str, float]:
    """What the targets speak of."""
    one, many = measured[1], measured[64]
    return {
        "primitive_p50_1": ratio(one[PRIMITIVE], one[ASYNCIO], lambda figures: figures.p50_ms),
        "primitive_runs_per_s_64": ratio(many[PRIMITIVE], many[ASYNCIO], lambda figures: figures.runs_per_s),
        "primitive_lag_p99_64": ratio(many[PRIMITIVE], many[ASYNCIO], lambda figures: figures.lag_p99_ms),
        "exec_p50_1": ratio(one[EXEC], one[C], lambda figures: figures.p50_ms),
    }
