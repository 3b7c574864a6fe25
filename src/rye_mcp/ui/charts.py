"""Small charts of the log, as SVG: calls and failures, how long they took, and how many ran warm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.runs.ids import time_of
from rye_mcp.runs.log import Figure
from rye_mcp.ui.layout import took
from rye_mcp.ui.markup import Content, Markup, tag

__all__ = ["BUCKETS", "Bucket", "bars", "buckets_of", "lines", "quantile"]

BUCKETS: Final = 24
"""How many spans of time a chart has."""

_WIDTH: Final = 600
_HEIGHT: Final = 120
_STEP: Final = _WIDTH // BUCKETS
_GAP: Final = 4


@dataclass(frozen=True, slots=True)
class Bucket:
    """The runs that began in a span of time."""

    begin: datetime
    durations_ms: tuple[float, ...] = ()
    failures: int = 0
    warm: int = 0
    cold: int = 0

    @property
    def calls(self) -> int:
        """How many there were."""
        return len(self.durations_ms)

    @property
    def warm_share(self) -> float | None:
        """How many of a hundred were warm, of those that started a program; None without any."""
        started = self.warm + self.cold
        return 100 * self.warm / started if started else None

    def quantile(self, share: float) -> float | None:
        """How long it took at most for this share of them; None without any."""
        return quantile(self.durations_ms, share)


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that is as large as this share of them; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def buckets_of(figures: Sequence[Figure], since: datetime, span: timedelta) -> tuple[Bucket, ...]:
    """The runs by when they began."""
    width = span / BUCKETS
    sorted_in: list[list[Figure]] = [[] for _ in range(BUCKETS)]
    for figure in figures:
        number = int((time_of(figure.run_id) - since) / width)
        if 0 <= number < BUCKETS:
            sorted_in[number].append(figure)
    return tuple(_bucket(since + width * number, each) for number, each in enumerate(sorted_in))


def _bucket(begin: datetime, figures: Sequence[Figure]) -> Bucket:
    runtimes = [(figure.runtime or "").partition(" ")[0] for figure in figures]
    return Bucket(
        begin,
        tuple(figure.duration_ms for figure in figures),
        sum(figure.code is not None for figure in figures),
        runtimes.count("warm"),
        runtimes.count("cold"),
    )


def bars(buckets: Sequence[Bucket], title: str) -> Markup:
    """How many calls, and in another colour how many of these failed."""
    most = max((each.calls for each in buckets), default=0)

    def drawn() -> Iterator[Markup]:
        for number, each in enumerate(buckets):
            x, failed, good = number * _STEP, each.failures, each.calls - each.failures
            label = tag("title", f"{each.begin.astimezone():%a %H:%M}: {each.calls} calls, {failed} failed")
            high, low = _scaled(good, most), _scaled(failed, most)
            rects = (
                tag("rect", x=x, y=_HEIGHT - high - low, width=_STEP - _GAP, height=high, class_="good"),
                tag("rect", x=x, y=_HEIGHT - low, width=_STEP - _GAP, height=low, class_="bad"),
            )
            yield tag("g", label, *rects)

    return _chart(title, f"{most:,} calls", *drawn())


def lines(
    buckets: Sequence[Bucket],
    title: str,
    values: Sequence[tuple[str, Callable[[Bucket], float | None]]],
    unit: str,
) -> Markup:
    """Values over time, each a line; where there was none, the line has a gap."""
    found = [(kind, [value(each) for each in buckets]) for kind, value in values]
    most = max((each for _, row in found for each in row if each is not None), default=0.0)
    drawn = [dot for kind, row in found for dot in _line(kind, row, most)]
    top = took(most) if unit == "ms" else f"{most:.0f} {unit}"
    return _chart(title, top, *drawn)


def _line(kind: str, row: Sequence[float | None], most: float) -> Iterator[Markup]:
    points: list[str] = []
    for number, value in enumerate((*row, None)):
        if value is not None:
            points.append(f"{number * _STEP + _STEP // 2},{_HEIGHT - _scaled(value, most)}")
            continue
        if len(points) > 1:
            yield tag("polyline", points=" ".join(points), class_=f"line {kind}")
        if len(points) == 1:
            x, y = points[0].split(",")
            yield tag("path", d=f"M{x} {y}h0", class_=f"line dot {kind}")
        points = []


def _scaled(value: float, most: float) -> float:
    return round(value / most * (_HEIGHT - 14), 1) if most else 0.0


def _chart(title: str, top: str, *drawn: Content) -> Markup:
    return tag(
        "figure",
        tag("figcaption", title, tag("span", top, class_="faint")),
        tag(
            "svg",
            tag("line", x1=0, y1=_HEIGHT, x2=_WIDTH, y2=_HEIGHT, class_="axis"),
            *drawn,
            viewBox=f"0 0 {_WIDTH} {_HEIGHT + 1}",
            preserveAspectRatio="none",
            role="img",
            aria_label=title,
            class_="chart",
        ),
    )
