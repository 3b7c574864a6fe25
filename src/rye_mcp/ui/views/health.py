"""Health: figures of the log as small charts, and what `rye doctor` checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.runs.ids import time_of
from rye_mcp.runs.log import Figure
from rye_mcp.runs.records import REFUSED
from rye_mcp.ui.layout import section, state, table, took
from rye_mcp.ui.markup import Content, Markup, tag
from rye_mcp.ui.parts import Finding, Parts

__all__ = ["BUCKETS", "Bucket", "bars", "buckets_of", "health_view", "lines", "quantile"]

_SPANS: Final = {"24h": ("day", timedelta(hours=24)), "7d": ("week", timedelta(days=7))}
_PERCENT: Final = 100


def health_view(span: str, findings: Sequence[Finding] | None, parts: Parts) -> Iterator[Content]:
    """The page; the checks are there once they were asked for, since they take seconds."""
    name, length = _SPANS.get(span, _SPANS["24h"])
    yield tag("h1", "Health")
    yield section(f"The last {name}", *_figures(length, parts))
    yield tag("ul", (tag("li", _link(each, name)) for each in _SPANS), class_="spans")
    yield section("Checks", *_checks(findings), id="checks")


def _link(span: str, shown: str) -> Markup:
    name = _SPANS[span][0]
    current = "true" if name == shown else None
    return tag("a", f"The last {name}", href=f"/health?span={span}", aria_current=current)


def _figures(length: timedelta, parts: Parts) -> Iterator[Content]:
    since = datetime.now(UTC) - length
    figures = [each for each in parts.log.figures(since) if each.kind != REFUSED]
    buckets = buckets_of(figures, since, length)
    yield tag("ul", _summary(buckets), class_="sums")
    yield tag(
        "div",
        bars(buckets, "Calls, and how many failed"),
        lines(buckets, "How long half of them took, and 95 of 100", _TIMES, "ms"),
        lines(buckets, "How many of 100 ran warm", (("live", "", _warm_share),), "%"),
        class_="charts",
    )
    rows = (
        (
            f"{each.begin.astimezone():%a %H:%M}",
            each.calls,
            each.failures,
            _told(each.quantile(0.5)),
            _told(each.quantile(0.95)),
            _share(each.warm_share),
        )
        for each in buckets
        if each.calls
    )
    shown = table(
        ("From", "Calls", "Failed", "p50", "p95", "Warm"),
        rows,
        numbers=range(1, 6),
        caption="The same as numbers",
    )
    yield tag("details", tag("summary", "The same as numbers"), shown)


def _warm_share(bucket: Bucket) -> float | None:
    return bucket.warm_share


_TIMES: Final = (
    ("good", "p50", lambda bucket: bucket.quantile(0.5)),
    ("bad", "p95", lambda bucket: bucket.quantile(0.95)),
)


def _summary(buckets: Sequence[Bucket]) -> Iterator[Content]:
    durations = [each for bucket in buckets for each in bucket.durations_ms]
    warm, cold = (sum(getattr(each, name) for each in buckets) for name in ("warm", "cold"))
    told = (
        ("calls", f"{len(durations):,}"),
        ("failed", f"{sum(each.failures for each in buckets):,}"),
        ("p50", _told(quantile(durations, 0.5))),
        ("p95", _told(quantile(durations, 0.95))),
        ("warm", _share(_PERCENT * warm / (warm + cold) if warm + cold else None)),
    )
    for name, value in told:
        yield tag("li", tag("strong", value), " ", tag("span", name, class_="faint"))


def _told(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else took(milliseconds)


def _share(percent: float | None) -> str:
    return "-" if percent is None else f"{percent:.0f} %"


def _checks(findings: Sequence[Finding] | None) -> Iterator[Content]:
    if findings is None:
        yield tag(
            "p", "What ", tag("code", "rye doctor"), " checks takes some seconds, since it starts a server."
        )
        yield tag("p", tag("a", "Check now", href="/health?check=1#checks", class_="button"))
        return
    broken = sum(each.state == "broken" for each in findings)
    warned = sum(each.state == "warning" for each in findings)
    yield tag("p", f"{len(findings)} checks: {broken} broken, {warned} to look at")
    rows = ((state(each.state), each.check, _with_hint(each)) for each in findings)
    yield table(("State", "Check", "Found"), rows, caption="What was checked")


def _with_hint(finding: Finding) -> Content:
    hint = (
        tag("p", tag("span", "What helps: ", class_="label"), tag("code", finding.hint))
        if finding.hint
        else None
    )
    return tag("div", finding.message, hint, class_="found")


# --- charts ---


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
    values: Sequence[tuple[str, str, Callable[[Bucket], float | None]]],
    unit: str,
) -> Markup:
    """Values over time, each a line with its name; where there was none, the line has a gap."""
    found = [(kind, [value(each) for each in buckets]) for kind, _, value in values]
    most = max((each for _, row in found for each in row if each is not None), default=0.0)
    drawn = [dot for kind, row in found for dot in _line(kind, row, most)]
    top = took(most) if unit == "ms" else f"{most:.0f} {unit}"
    names = [tag("span", name, class_=f"key {kind}") for kind, name, _ in values if name]
    return _chart(title, top, *drawn, names=names)


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


def _chart(title: str, top: str, *drawn: Content, names: Sequence[Markup] = ()) -> Markup:
    return tag(
        "figure",
        tag("figcaption", tag("span", title), *names, tag("span", top, class_="faint")),
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
