"""The list of runs: what is running now on top, then what is over, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.runs.log import RunLog, RunPage, RunRecord
from rye_mcp.runs.records import ENDED, RUNNING
from rye_mcp.ui.layout import button, field, moment, path, select, short, state, table, took
from rye_mcp.ui.markup import Content, Markup, tag
from rye_mcp.verbs.runs import RunsRequest, list_runs, page_of_runs

__all__ = ["PAGE_ROWS", "RunsQuery", "duration_ms", "runs_view"]

PAGE_ROWS: Final = 50
"""How many runs a page has."""

_STATES: Final = (("", "any"), ("success", "success"), ("error", "failed or refused"), (RUNNING, "running"))
_TIMES: Final = (("", "any time"), ("1h", "the last hour"), ("24h", "the last day"), ("7d", "the last week"))
_SPANS: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
_HEADERS: Final = ("State", "Tool", "Begun", "Took", "Asked by", "Project", "Run")


@dataclass(frozen=True, slots=True)
class RunsQuery:
    """What the address asks for."""

    tool: str = ""
    client: str = ""
    status: str = ""
    since: str = ""
    before: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RunsQuery:
        """The one of an address; what it does not know counts for nothing."""
        before = query.get("before", "")
        return cls(
            query.get("tool", "").strip(),
            query.get("client", "").strip(),
            query.get("state", "").strip(),
            query.get("since", "") if query.get("since") in _SPANS else "",
            int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None,
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered."""
        return not (self.tool or self.client or self.status or self.since)

    def request(self, *, status: str) -> RunsRequest:
        """The same for the verb; a tool that is no id and no pattern is a part of ids."""
        tool = self.tool if "/" in self.tool or not self.tool else f"*{self.tool}*"
        since = datetime.now(UTC) - _SPANS[self.since] if self.since else None
        return RunsRequest(
            tool or "*", client=self.client or None, status=status, since=since, limit=PAGE_ROWS
        )

    def address(self, before: int | None) -> str:
        """The address of another page of the same."""
        return path(
            "runs", tool=self.tool, client=self.client, state=self.status, since=self.since, before=before
        )


def runs_view(query: RunsQuery, log: RunLog) -> Iterator[Content]:
    """The list."""
    yield tag("h1", "Runs")
    yield _filters(query)
    live: Sequence[RunRecord] = ()
    if query.before is None and query.status in ("", RUNNING):
        live = list_runs(query.request(status=RUNNING), log).runs
    page = RunPage((), 0, None)
    if query.status != RUNNING:
        page = page_of_runs(query.request(status=query.status or ENDED), log, before=query.before)
    yield tag("div", _lists(query, live, page, log), id="lists", data_part=True)


def _lists(query: RunsQuery, live: Sequence[RunRecord], page: RunPage, log: RunLog) -> Iterator[Content]:
    if live:
        yield tag("h2", "Running now")
        yield table(_HEADERS, map(_row, live), numbers=(3,), caption="Runs that are going on")
    if page.runs:
        yield tag("h2", "Over" if live else "Over, the newest first") if query.is_everything or live else None
        yield table(_HEADERS, map(_row, page.runs), numbers=(3,), caption="Runs that are over")
    if not live and not page.runs:
        yield tag("p", "Nothing has run yet." if query.is_everything else "No such run.", class_="empty")
    yield _pager(query, page, log)


def _filters(query: RunsQuery) -> Markup:
    return tag(
        "form",
        field("Tool", "tool", query.tool, placeholder="demo/*, part of an id", type="search"),
        field("Client", "client", query.client, placeholder="claude-code, person", type="search"),
        select("State", "state", _options(query.status), query.status),
        select("Begun", "since", _TIMES, query.since),
        button("Show"),
        method="get",
        action="/runs",
        class_="filters",
        role="search",
    )


def _options(status: str) -> Iterator[tuple[str, str]]:
    """The states to choose from; the code that the address names is one of them."""
    yield from _STATES
    if status and status not in dict(_STATES):
        yield status, status


def _pager(query: RunsQuery, page: RunPage, log: RunLog) -> Markup:
    newest = tag("a", "Newest", href=query.address(None)) if query.before is not None else None
    older = None if page.before is None else tag("a", "Older", href=query.address(page.before), rel="next")
    count = f"{log.count():,} in the log" if query.is_everything else None
    return tag("nav", newest, older, tag("span", count, class_="faint"), class_="pager", aria_label="Pages")


def _row(record: RunRecord) -> tuple[Content, ...]:
    word = record.code or record.status
    return (
        state(word),
        tag("a", record.item_id, href=path("runs", record.run_id), class_="id"),
        moment(record.begun),
        _took(record),
        record.client or record.caller,
        tag("span", (record.project or "-").rpartition("/")[2] or "/", title=record.project or "no project"),
        short(record.run_id[-8:], 8),
    )


def _took(record: RunRecord) -> Content:
    if record.status != RUNNING:
        return took(record.duration_ms)
    return tag("span", took(duration_ms(record)), data_since=int(record.begun.timestamp() * 1000))


def duration_ms(record: RunRecord) -> float:
    """How long a run took, or has been going on."""
    if record.status != RUNNING:
        return record.duration_ms
    return max(0.0, (datetime.now(UTC) - record.begun).total_seconds() * 1000)
