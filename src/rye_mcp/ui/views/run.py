"""One run: how it went, what it was made of, what it wrote, what it called, and its receipt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.runs.log import RunRecord
from rye_mcp.runs.outputs import MAX_AGE, RunOutputs
from rye_mcp.runs.records import REFUSED, RUNNING
from rye_mcp.runs.shelf import Shelf
from rye_mcp.ui.layout import (
    button,
    facts,
    field,
    moment,
    path,
    section,
    short,
    size,
    state,
    table,
    took,
)
from rye_mcp.ui.markup import Content, Markup, tag
from rye_mcp.ui.parts import Parts
from rye_mcp.ui.views.runs import duration_ms
from rye_mcp.verbs.runs import (
    OutputRequest,
    ShownRun,
    enforced_in_words,
    read_output,
    runtime_in_words,
    show_run,
)

__all__ = ["OutputQuery", "output_view", "run_view"]

SHOWN_BYTES: Final = 16 << 10
"""How much of each stream is on the page of a run."""

PIECE_BYTES: Final = 64 << 10
"""How much of a stream is on a page of its own."""

MAX_SHOWN_CALLS: Final = 500
"""How many calls are drawn."""

_BAR: Final = 1000
"""How wide the timeline is, in its own units."""

_LEAST: Final = 4


def run_view(run_id: str, parts: Parts) -> Iterator[Content]:
    """The page of one run."""
    shown = show_run(run_id, parts.log, RunOutputs(parts.state), parts.live)
    record = shown.record
    yield tag("p", tag("a", "Runs", href="/runs"), class_="above")
    yield tag("h1", record.item_id, class_="id")
    yield tag("div", _outcome(shown, parts), id="outcome", data_part=True)
    if record.status == RUNNING:
        yield _live(record)
    yield tag("div", _sections(shown, parts), id="parts", data_part=True)


def _outcome(shown: ShownRun, parts: Parts) -> Iterator[Content]:
    record = shown.record
    running = record.status == RUNNING
    since = int(record.begun.timestamp() * 1000) if running else None
    yield tag(
        "p",
        state(record.code or record.status),
        " ",
        "for " if running else "in ",
        tag("span", took(duration_ms(record)), data_since=since),
        ", begun ",
        moment(record.begun),
        class_="outcome",
    )
    if running:
        yield parts.frame.form(path("runs", record.run_id, "end"), button("End this run", kind="grave"))


def _live(record: RunRecord) -> Markup:
    output = tag(
        "pre",
        "",
        class_="output live",
        data_follow=path("runs", record.run_id, "live"),
        tabindex="0",
        role="log",
        aria_live="off",
        aria_label="What it writes",
    )
    return section("What it writes now", output, id="live")


def _sections(shown: ShownRun, parts: Parts) -> Iterator[Content]:
    record = shown.record
    yield section("How it ran", facts(_facts(shown)))
    yield section("What ran", *_chain(record))
    yield section("What it could do", *_enforced(record))
    yield section("Parameters", *_parameters(record))
    if record.status != RUNNING:
        yield section("What it wrote", *_output(shown, parts))
    if calls := parts.log.within(record):
        yield section("What it called", timeline(record, calls))
    if record.status != RUNNING:
        yield section("Receipt", *_receipt(record, parts))


def _facts(shown: ShownRun) -> Iterator[tuple[str, Content]]:
    record = shown.record
    yield "Exit", ", ".join(f"{name} {value}" for name, value in _exit(record))
    if shown.processes:
        yield "Now", f"{shown.processes} processes, {size(shown.memory_kb * 1024)}"
    yield "Asked by", record.caller + (f" ({record.client})" if record.client else "")
    yield "Project", record.project or "none"
    yield "Signed by", record.signer
    yield "Sealed", _sealed(record)
    yield "Runtime", runtime_in_words(record)
    if record.user_ms is not None and record.system_ms is not None:
        yield "CPU", f"{record.user_ms:.0f} ms of its own, {record.system_ms:.0f} ms in the kernel"
    if record.max_rss_kb is not None:
        yield "Memory", f"{size(record.max_rss_kb * 1024)} at most"
    if record.parent is not None:
        yield "Called by", tag("a", short(record.parent, 26), href=path("runs", record.parent))
    yield "Run", tag("code", record.run_id)


def _sealed(record: RunRecord) -> str:
    if record.sealed and record.node is not None:
        return f"yes, as {record.node} says"
    return "yes: nothing but verified bytes could run" if record.sealed else "no"


def _exit(record: RunRecord) -> Iterator[tuple[str, object]]:
    found = (("", record.kind), ("code", record.return_code), ("signal", record.signal))
    return ((name, value) for name, value in found if value is not None)


def _chain(record: RunRecord) -> Iterator[Content]:
    if not record.chain:
        yield tag("p", "Nothing: the call was refused before its chain was known.", class_="empty")
        return
    rows = (
        (
            ("tool" if number == 0 else "run by"),
            tag("a", item_id, href=path("items", "tool", *item_id.split("/"))),
            short(digest, 20),
        )
        for number, (item_id, digest) in enumerate(record.chain)
    )
    yield table(("", "Item", "SHA-256"), rows, caption="The chain that ran")


def _enforced(record: RunRecord) -> Iterator[Content]:
    if record.enforced is None or record.enforced.get("level") == "none":
        what = (
            "Nothing ran."
            if record.kind == REFUSED
            else "Nothing was enforced: it could do whatever you can."
        )
        yield tag("p", what, class_="empty")
        return
    yield tag("p", enforced_in_words(record.enforced))
    missing = record.enforced.get("unenforced") or ()
    if missing:
        yield tag("p", state("not enforced"), " ", ", ".join(map(str, missing)))
    rows = ((name, _text(value)) for name, value in record.enforced.items() if value not in ([], None, ""))
    yield tag("details", tag("summary", _who_confirmed(record)), facts(rows))


def _who_confirmed(record: RunRecord) -> str:
    return "As the kernel confirmed it" if record.node is None else f"As {record.node} says"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _parameters(record: RunRecord) -> Iterator[Content]:
    if not record.parameters:
        yield tag("p", "None.", class_="empty")
        return
    yield tag("ul", (tag("li", tag("code", name)) for name in record.parameters), class_="names")
    yield tag(
        "p",
        "The log keeps their names. Their values are only in the receipt, as a keyed digest.",
        class_="faint",
    )


# --- output ---


@dataclass(frozen=True, slots=True)
class OutputQuery:
    """Which piece of a stream the address asks for, or which lines of it."""

    offset: int = 0
    find: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> OutputQuery:
        """The one of an address."""
        offset = query.get("offset", "")
        return cls(
            int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 16 else 0,
            query.get("find", ""),
        )


def _output(shown: ShownRun, parts: Parts) -> Iterator[Content]:
    record = shown.record
    if record.stderr_end is not None and "stderr" not in shown.kept:
        yield tag("h3", "The end of standard error")
        yield tag("pre", record.stderr_end, class_="output", tabindex="0")
    for stream, length in shown.kept.items():
        yield tag("h3", stream, " ", tag("span", size(length), class_="faint"))
        yield from _piece(record.run_id, stream, OutputQuery(), parts, SHOWN_BYTES)
    if not shown.kept:
        what = "None of it is kept here: it went to whoever asked. Only output that was cut is kept, "
        what += f"for {MAX_AGE.days} days."
        yield tag("p", what, class_="faint")
    digests = ((stream, short(digest, 20)) for stream, digest in record.digests)
    yield (
        tag("details", tag("summary", "SHA-256 of all that it wrote"), facts(digests))
        if record.digests
        else None
    )


def output_view(run_id: str, stream: str, query: OutputQuery, parts: Parts) -> Iterator[Content]:
    """A stream of a run, a piece at a time."""
    record = parts.log.get(run_id)
    yield tag("p", tag("a", record.item_id, href=path("runs", run_id)), class_="above")
    yield tag("h1", f"{stream} of {record.item_id}")
    yield from _piece(run_id, stream, query, parts, PIECE_BYTES)


def _piece(run_id: str, stream: str, query: OutputQuery, parts: Parts, length: int) -> Iterator[Content]:
    address = path("runs", run_id, "output", stream)
    yield tag(
        "form",
        field("Find lines with", "find", query.find, type="search", placeholder="a regular expression"),
        button("Find"),
        tag("a", "Download", href=f"{address}/download", download=f"{run_id}-{stream}.txt"),
        method="get",
        action=address,
        class_="filters",
        role="search",
    )
    request = OutputRequest(run_id, stream, query.offset, length, query.find or None)
    try:
        piece = read_output(request, Shelf.of_person(parts.state))
    except RyeError as exc:
        yield tag("p", state(exc.code), " ", exc.message)
        return
    if query.find and not piece.text:
        yield tag("p", "No such line in this part.", class_="empty")
    else:
        yield tag("pre", piece.text, class_="output", tabindex="0", aria_label=stream)
    yield _around(address, query, piece.piece.offset, piece.next_offset, piece.total)


def _around(address: str, query: OutputQuery, offset: int, following: int | None, total: int) -> Markup:
    find = f"&find={path('', find=query.find).partition('find=')[2]}" if query.find else ""
    first = tag("a", "From the beginning", href=f"{address}?offset=0{find}") if offset else None
    more = (
        None
        if following is None
        else tag("a", "Go on", href=f"{address}?offset={following}{find}", rel="next")
    )
    until = total if following is None else following
    told = tag("span", f"bytes {offset:,} to {until:,} of {total:,}", class_="faint")
    return tag("nav", first, more, told, class_="pager", aria_label=f"Parts of the output from {offset}")


# --- what it called ---


def timeline(root: RunRecord, calls: Sequence[RunRecord]) -> Markup:
    """A run and its calls, each with a bar where it was under way."""
    end = max(_end(each) for each in (root, *calls))
    whole = max((end - root.begun).total_seconds(), 0.001)
    depths = {root.run_id: 0}
    rows: list[tuple[Content, ...]] = [
        (root.item_id, state(root.code or root.status), took(duration_ms(root)), _bar(root, root, whole))
    ]
    for each in _in_tree_order(root, calls)[:MAX_SHOWN_CALLS]:
        depth = depths[each.run_id] = depths.get(each.parent or "", 0) + 1
        link = tag("a", each.item_id, href=path("runs", each.run_id))
        name = tag("span", link, class_=f"depth depth-{min(depth, 8)}")
        rows.append((name, state(each.code or each.status), took(duration_ms(each)), _bar(each, root, whole)))
    more = len(calls) - MAX_SHOWN_CALLS
    note = tag("p", f"and {more:,} more calls", class_="faint") if more > 0 else None
    headers = ("Tool", "State", "Took", f"When, of {took(whole * 1000)}")
    return tag("div", table(headers, rows, numbers=(2,), caption="The calls of this run"), note)


def _in_tree_order(root: RunRecord, calls: Sequence[RunRecord]) -> list[RunRecord]:
    below: dict[str | None, list[RunRecord]] = {}
    for each in calls:
        below.setdefault(each.parent, []).append(each)
    ordered: list[RunRecord] = []
    pending = list(reversed(below.get(root.run_id, ())))
    while pending:
        each = pending.pop()
        ordered.append(each)
        pending += reversed(below.get(each.run_id, ()))
    return ordered


def _end(record: RunRecord) -> datetime:
    return record.begun + timedelta(milliseconds=duration_ms(record))


def _bar(record: RunRecord, root: RunRecord, whole_s: float) -> Markup:
    begun = (record.begun - root.begun).total_seconds()
    left = min(_BAR - _LEAST, max(0, round(begun / whole_s * _BAR)))
    width = min(_BAR - left, max(_LEAST, round(duration_ms(record) / 1000 / whole_s * _BAR)))
    kind = "bad" if record.code else "live" if record.status == RUNNING else "good"
    return tag(
        "svg",
        tag("rect", x=0, y=11, width=_BAR, height=2, class_="rail"),
        tag("rect", x=left, y=5, width=width, height=14, rx=2, class_=kind),
        viewBox=f"0 0 {_BAR} 24",
        preserveAspectRatio="none",
        class_="bar",
        role="img",
        aria_label=f"from {took(max(0.0, begun * 1000))}, for {took(duration_ms(record))}",
    )


# --- receipt ---


def _receipt(record: RunRecord, parts: Parts) -> Iterator[Content]:
    from rye_mcp.runs.receipts import ReceiptStore
    from rye_mcp.verbs.receipts import ReceiptSources, items_at_hand, show_receipt

    sources = ReceiptSources(parts.state, parts.app.trust.store)
    with ReceiptStore(parts.state) as store:
        try:
            shown = show_receipt(record.run_id, sources, store)
            at_hand = items_at_hand(record.run_id, store, parts.spaces)
        except RyeError as exc:
            yield tag("p", state(exc.code), " ", exc.message)
            return
    if shown.problem is None:
        yield tag(
            "p",
            state("good"),
            " The signature was verified just now.",
        )
    else:
        yield tag("p", state(shown.problem.code), " ", shown.problem.message)
    yield facts(
        (
            ("Number", shown.receipt.number),
            ("SHA-256", tag("code", shown.receipt.digest)),
            ("Signed by", tag("code", shown.receipt.key_id)),
        )
    )
    rows = ((item_id, _AT_HAND.get(each, each)) for item_id, each in at_hand.items())
    yield table(("Item", "Here, now"), rows, caption="Whether the items are still what ran")
    predicate = shown.statement.get("predicate", {})
    for part, title in _PARTS.items():
        told = (
            (name, _text(value))
            for name, value in predicate.get(part, {}).items()
            if value not in (None, [], {}, "")
        )
        yield tag("details", tag("summary", title), facts(told))
    yield tag(
        "p",
        tag(
            "a",
            "Download the receipt",
            href=path("runs", record.run_id, "receipt"),
            download=f"{record.run_id}.ndjson",
        ),
    )


_PARTS: Final = {
    "verified": "What rye verified",
    "observed": "What the kernel told",
    "reported": "What somebody said",
}
_AT_HAND: Final = {"as it was": "as it was", "changed since": "has changed since", "not here": "is not here"}
