"""One item: its state, its chain as a picture, what it may do, its calls, its lock, examples and source."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, printable
from rye_mcp.metadata import ItemMetadata, examples_of
from rye_mcp.permissions import sentence
from rye_mcp.runs.log import LOOKED_AT_CALLS
from rye_mcp.ui.layout import facts, moment, path, section, short, state, table, took
from rye_mcp.ui.markup import Content, tag
from rye_mcp.ui.parts import Parts
from rye_mcp.ui.views.items import item_path
from rye_mcp.verbs.explain import ExplainRequest, Explanation, explain
from rye_mcp.verbs.load import LoadRequest, LoadResult, load
from rye_mcp.verbs.lock import LockListRequest, LockVerifyRequest, lock_list, lock_verify
from rye_mcp.verbs.runs import RunsRequest, list_runs

__all__ = ["ItemFacts", "explained", "item_view"]

_LAST_RUNS: Final = 5
MAX_SHOWN_CHARACTERS: Final = 200_000
"""How much of a source is shown."""


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """What the view needs that is found out in the event loop: what would run it, for a tool."""

    explanation: Explanation | None = None
    refusal: RyeError | None = None


async def explained(item_type: ItemType, item_id: str, parts: Parts) -> ItemFacts:
    """Find out what would run an item, or why nothing would."""
    if item_type is not ItemType.TOOL:
        return ItemFacts()
    try:
        return ItemFacts(await explain(ExplainRequest(item_id), parts.person))
    except RyeError as exc:
        return ItemFacts(refusal=exc)


def item_view(item_type: ItemType, item_id: str, found: ItemFacts, parts: Parts) -> Iterator[Content]:
    """The page of one item."""
    loaded = load(LoadRequest(item_id, item_type), parts.person)
    yield tag("p", tag("a", "Items", href=path("items", type=item_type.value)), class_="above")
    yield tag("h1", item_id, class_="id")
    yield from _head(loaded)
    yield section("What it is", facts(_facts(loaded)))
    if item_type is ItemType.TOOL:
        yield from _as_tool(loaded, found, parts)
    yield section("Source", *_source(loaded))


def _head(loaded: LoadResult) -> Iterator[Content]:
    integrity = loaded.integrity
    signer = "" if integrity.signer is None else f" signed by {integrity.signer.in_words}"
    yield tag("p", state(integrity.state), signer, class_="outcome")
    if integrity.refusal is not None:
        yield tag("p", integrity.refusal.message)
        yield tag("p", tag("span", "What helps: ", class_="label"), tag("code", integrity.refusal.hint))
    if loaded.metadata is not None and loaded.metadata.description:
        yield tag("p", loaded.metadata.description)


def _facts(loaded: LoadResult) -> Iterator[tuple[str, Content]]:
    metadata = loaded.metadata
    yield "Space", loaded.file.space.name.value
    yield "File", tag("code", printable(loaded.file.path))
    for place in loaded.shadowed:
        yield "Hides", tag("code", printable(place.path))
    if loaded.integrity.digest is not None:
        yield "SHA-256", tag("code", loaded.integrity.digest)
    if metadata is not None:
        yield "Version", metadata.version
        yield "Tags", ", ".join(metadata.tags)
        yield "Executor", metadata.executor_id and _link(metadata.executor_id)


def _link(item_id: str) -> Content:
    return tag("a", item_id, href=item_path(ItemType.TOOL, item_id))


def _as_tool(loaded: LoadResult, found: ItemFacts, parts: Parts) -> Iterator[Content]:
    item_id = loaded.file.item_id
    yield section("Chain", *_chain(item_id, found))
    if loaded.metadata is not None and loaded.metadata.is_run:
        yield section("What it may do", *_permissions(loaded.metadata, found))
    yield section("Calls", *_calls(item_id, loaded.metadata, parts))
    yield section("Lock", *_lock(item_id, parts))
    if loaded.integrity.refusal is None:
        yield section("Examples", *_examples(loaded))
    yield section("Last runs", *_last_runs(item_id, parts))


def _chain(item_id: str, found: ItemFacts) -> Iterator[Content]:
    if found.explanation is None:
        error = found.refusal
        yield tag(
            "p", "" if error is None else state(error.code), " ", "" if error is None else error.message
        )
        return
    names = [each.element.item_id for each in found.explanation.chain]
    picture = tag(
        "img",
        src=item_path(ItemType.TOOL, item_id, "chain.svg"),
        alt=" is run by ".join(names),
        class_="chain",
    )
    yield tag("div", picture, class_="scroll", role="region", aria_label="The chain", tabindex="0")
    if found.explanation.refusal is not None:
        refusal = found.explanation.refusal
        yield tag("p", state(refusal.code), " ", refusal.message)
        yield tag("p", tag("span", "What helps: ", class_="label"), tag("code", refusal.hint))


def _permissions(metadata: ItemMetadata, found: ItemFacts) -> Iterator[Content]:
    declared = metadata.permissions
    yield tag("p", "It declares nothing." if declared is None else f"It declares: {sentence(declared)}.")
    call = None if found.explanation is None else found.explanation.call
    if call is not None:
        yield tag("p", f"A call would get: {sentence(call.permissions)}.")
        if call.enforceable is not None:
            yield tag("p", f"This machine would enforce that by {call.enforceable.in_words}.")
        elif call.permissions.unconfined:
            yield tag("p", "Nothing confines it: it can do whatever you can.")


def _calls(item_id: str, metadata: ItemMetadata | None, parts: Parts) -> Iterator[Content]:
    by, called = parts.log.callers(item_id)
    allowed = () if metadata is None or metadata.permissions is None else sorted(metadata.permissions.calls)
    rows = (
        (
            "Called by",
            tag("ul", (tag("li", _link(each)) for each in by), class_="names") if by else "nothing yet",
        ),
        (
            "Has called",
            tag("ul", (tag("li", _link(each)) for each in called), class_="names")
            if called
            else "nothing yet",
        ),
        ("May call", ", ".join(allowed) or "nothing"),
    )
    yield facts(rows)
    yield tag("p", f"As the newest {LOOKED_AT_CALLS:,} runs of the log have it.", class_="faint")


def _lock(item_id: str, parts: Parts) -> Iterator[Content]:
    stored = lock_list(LockListRequest(item_id), parts.person).lockfiles
    if not stored:
        yield tag(
            "p", "It is not locked. To lock it: ", tag("code", f"rye lock update {item_id}"), class_="empty"
        )
        return
    rows = (
        (
            each.place.version,
            each.place.space.name.value,
            "" if each.stored is None else each.stored.lockfile.generated_at,
            tag("code", printable(each.place.path)),
        )
        for each in stored
    )
    yield table(("Version", "Space", "Locked", "File"), rows, caption="The lockfiles of this tool")
    for each in lock_verify(LockVerifyRequest(item_id), parts.person).tools:
        if each.refusal is None:
            yield tag("p", state("good"), f" what would run is what was locked ({each.state})")
        else:
            yield tag("p", state(each.refusal.code), " ", each.refusal.message)
            yield _differences(each.refusal)


def _differences(refusal: RyeError) -> Content:
    """What differs from a lock, side by side."""
    told = refusal.details.get("differences", ())
    rows = [
        (
            each.get("element"),
            each.get("field"),
            tag("code", each.get("locked") or "none"),
            tag("code", each.get("found") or "none"),
        )
        for each in told
        if isinstance(each, dict)
    ]
    return (
        table(("Element", "Field", "Locked", "Now"), rows, caption="What differs from the lock")
        if rows
        else None
    )


def _examples(loaded: LoadResult) -> Iterator[Content]:
    examples = examples_of(loaded.file)
    if not examples:
        yield tag("p", "It has none.", class_="empty")
        return
    for example in examples:
        given = json.dumps(dict(example.parameters), ensure_ascii=False)
        yield tag("p", example.description) if example.description else None
        yield tag(
            "pre",
            f"rye run {loaded.file.item_id} --params {shlex.quote(given)}",
            class_="output",
            tabindex="0",
        )
    yield tag("p", "All of them run with ", tag("code", f"rye test {loaded.file.item_id}"), class_="faint")


def _last_runs(item_id: str, parts: Parts) -> Iterator[Content]:
    runs = list_runs(RunsRequest(item_id, limit=_LAST_RUNS), parts.log).runs
    if not runs:
        yield tag("p", "It has not run yet.", class_="empty")
        return
    rows = (
        (
            state(each.code or each.status),
            tag("a", moment(each.begun), href=path("runs", each.run_id)),
            took(each.duration_ms),
            short(each.run_id[-8:], 8),
        )
        for each in runs
    )
    yield table(("State", "Begun", "Took", "Run"), rows, numbers=(2,), caption="Its last runs")
    yield tag("p", tag("a", "All of its runs", href=path("runs", tool=item_id)))


def _source(loaded: LoadResult) -> Iterator[Content]:
    text = loaded.content
    if loaded.integrity.refusal is not None:
        yield tag("p", state("not verified"), " Nothing of this runs, and no agent is shown it.")
    yield tag("pre", text[:MAX_SHOWN_CHARACTERS], class_="output source", tabindex="0", aria_label="Source")
    if len(text) > MAX_SHOWN_CHARACTERS:
        yield tag("p", f"The first {MAX_SHOWN_CHARACTERS:,} of {len(text):,} characters.", class_="faint")
