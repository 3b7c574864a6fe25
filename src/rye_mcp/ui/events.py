"""What the page is told while it is open, as server-sent events: that runs changed, and what a run writes.

Each event is one line of JSON. A client that reads slowly is told less often, and of output only the end.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from anyio import to_thread

from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.questions import Questions
from rye_mcp.runs.records import RUNNING
from rye_mcp.visible import visible_lines

__all__ = ["MAX_EVENT_BYTES", "change_events", "log_state", "questions_state", "run_events"]

MAX_EVENT_BYTES: Final = 64 << 10
"""How much output one event carries: the last of what is new."""

_INTERVAL_S: Final = 0.05
_CHANGES_INTERVAL_S: Final = 0.25
_LOOKS_PER_ROW: Final = 4
"""After how many looks at the output the row of the run is looked at."""

_BEGIN: Final = b": here\n\n"


def log_state(log: RunLog) -> str:
    """Return what stands for the log as it is now."""
    return _digest(log.look())


def questions_state(state: Path) -> str:
    """Return what stands for the questions that wait now."""
    return _digest([each.number for each in Questions(state).waiting()])


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


async def change_events(look: Callable[[], str], seen: str) -> AsyncIterator[bytes]:
    """An event whenever what is looked at is no longer as it was `seen`."""
    yield _BEGIN
    while True:
        now = await to_thread.run_sync(look)
        if now != seen:
            seen = now
            yield _event("changed", {})
        await anyio.sleep(_CHANGES_INTERVAL_S)


async def run_events(run_id: str, log: RunLog, live: LiveView) -> AsyncIterator[bytes]:
    """What a run writes, as it comes; then that it is over."""
    yield _BEGIN
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offset, looks, is_over = 0, 0, False
    while True:
        if looks % _LOOKS_PER_ROW == 0:
            is_over = (await to_thread.run_sync(log.get, run_id)).status != RUNNING
        looks += 1
        new = await to_thread.run_sync(partial(live.output, run_id, offset))
        offset = new.offset
        data = new.data[-MAX_EVENT_BYTES:]
        skipped = new.skipped + len(new.data) - len(data)
        if skipped:
            decoder.reset()
        if data or skipped:
            yield _event("output", {"text": visible_lines(decoder.decode(data)), "skipped": skipped})
        elif is_over:
            yield _event("over", {})
            return
        await anyio.sleep(_INTERVAL_S)


def _event(name: str, facts: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode("ascii"), msgspec.json.encode(facts))
