"""What the page is told while a run writes: bounded, as text, to its end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.receipts.runner import RunnerNotary
from rye_mcp.runs.hosts import this_process
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.live import MAX_LIVE_BYTES, LiveRun, LiveRuns, LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.records import RUNNING
from rye_mcp.ui.events import MAX_EVENT_BYTES, change_events, log_state, run_events
from tests.receipt_world import run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def log(state: Path) -> Iterator[RunLog]:
    with RunLog(state, notary=RunnerNotary(state)) as made:
        yield made


@pytest.fixture
def live(state: Path) -> Iterator[LiveRuns]:
    runs = LiveRuns(state)
    yield runs
    runs.close()


def going_on(log: RunLog, live: LiveRuns) -> LiveRun:
    made = live.begin(new_run_id())
    made.begun -= 10
    log.append(run(run_id=made.run_id, kind=RUNNING, process=this_process()))
    return made


async def next_event(events: AsyncIterator[bytes]) -> tuple[str, dict[str, Any]]:
    while True:
        frame = (await anext(events)).decode()
        if frame.startswith("event: "):
            name, data = frame.rstrip("\n").split("\n")
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def text_until(events: AsyncIterator[bytes], end: str) -> str:
    text = ""
    while end not in text:
        name, facts = await next_event(events)
        assert name == "output"
        text += facts["text"]
    return text


async def test_what_a_run_writes_comes_as_text_until_it_is_over(
    log: RunLog, live: LiveRuns, state: Path
) -> None:
    made = going_on(log, live)
    events = run_events(made.run_id, log, LiveView(state))
    made.on_output("one \x1b[2J<b>\u202e zw".encode())
    assert await text_until(events, "zw") == "one \\x1b[2J<b>\\u202e zw"
    made.on_output("half of an \N{EURO SIGN}".encode()[:-1])
    assert await text_until(events, "an ") == "half of an "
    made.on_output("\N{EURO SIGN}".encode()[-1:])
    assert await text_until(events, "\N{EURO SIGN}") == "\N{EURO SIGN}"
    log.attest(run(run_id=made.run_id))
    live.end(made)
    assert await next_event(events) == ("over", {})
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_a_line_without_end_is_a_bounded_event(log: RunLog, live: LiveRuns, state: Path) -> None:
    made = going_on(log, live)
    for _ in range(4):
        made.on_output(b"a" * MAX_LIVE_BYTES)
    made.on_output(b"the end")
    events = run_events(made.run_id, log, LiveView(state))
    name, facts = await next_event(events)
    while "the end" not in facts["text"]:
        name, facts = await next_event(events)
    assert name == "output"
    assert len(facts["text"]) <= MAX_EVENT_BYTES
    assert facts["skipped"] + len(facts["text"]) == 4 * MAX_LIVE_BYTES + len("the end")


async def test_a_change_of_the_log_is_told(log: RunLog) -> None:
    log.append(run())
    seen = log_state(log)
    assert seen == log_state(log)
    log.append(run())
    events = change_events(partial(log_state, log), seen)
    assert (await next_event(events))[0] == "changed"
