"""Health: figures of the log as small charts, and what `rye doctor` checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from rye_mcp.runs.records import REFUSED
from rye_mcp.ui.charts import Bucket, bars, buckets_of, lines, quantile
from rye_mcp.ui.layout import section, state, table, took
from rye_mcp.ui.markup import Content, tag
from rye_mcp.ui.parts import Finding, Parts

__all__ = ["health_view"]

_SPANS: Final = {"24h": ("day", timedelta(hours=24)), "7d": ("week", timedelta(days=7))}
_PERCENT: Final = 100


def health_view(span: str, findings: Sequence[Finding] | None, parts: Parts) -> Iterator[Content]:
    """The page; the checks are there once they were asked for, since they take seconds."""
    name, length = _SPANS.get(span, _SPANS["24h"])
    yield tag("h1", "Health")
    yield section(f"The last {name}", *_figures(length, parts))
    links = (tag("a", f"the last {each[0]}", href=f"/health?span={key}") for key, each in _SPANS.items())
    yield tag("p", "Show ", *(part for link in links for part in (link, " ")), class_="faint")
    yield section("Checks", *_checks(findings), id="checks")


def _figures(length: timedelta, parts: Parts) -> Iterator[Content]:
    since = datetime.now(UTC) - length
    figures = [each for each in parts.log.figures(since) if each.kind != REFUSED]
    buckets = buckets_of(figures, since, length)
    yield tag("ul", _summary(buckets), class_="sums")
    yield tag(
        "div",
        bars(buckets, "Calls, and how many failed"),
        lines(buckets, "How long they took: half of them (p50), and 95 of 100 (p95)", _TIMES, "ms"),
        lines(buckets, "How many of 100 ran warm", (("live", _warm_share),), "%"),
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
    ("good", lambda bucket: bucket.quantile(0.5)),
    ("bad", lambda bucket: bucket.quantile(0.95)),
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
