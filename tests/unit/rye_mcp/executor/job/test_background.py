"""Work beside calls: done a moment later, by nobody's waiting, and over when its loop or its owner is."""

from __future__ import annotations

import asyncio
import logging

import anyio
import anyio.lowlevel
import pytest

from rye_mcp.executor.job import bytecode
from rye_mcp.executor.job.bytecode import Background

pytestmark = pytest.mark.both_loops


async def test_it_is_done_after_its_caller_has_gone_on() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    beside = Background()
    beside.start(work)
    await anyio.lowlevel.checkpoint()
    done.append("answer")
    await beside.wait()
    assert done == ["answer", "work"]


@pytest.mark.parametrize("begins_after_s", [0.0, 60.0])
async def test_to_close_ends_it_whether_it_has_begun_or_not(
    begins_after_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "BEGINS_AFTER_S", begins_after_s)
    begun, ended = anyio.Event(), anyio.Event()

    async def work() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    beside = Background()
    beside.start(work)
    if not begins_after_s:
        await begun.wait()
    with anyio.fail_after(10):
        await beside.close()
    assert begun.is_set() is ended.is_set() is (not begins_after_s)
    await beside.wait()


async def test_what_fails_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "BEGINS_AFTER_S", 0)

    async def work() -> None:
        raise OSError("no room")

    beside = Background()
    with caplog.at_level(logging.ERROR):
        beside.start(work)
        await beside.wait()
    assert "no room" in caplog.text
    await beside.close()


def test_it_never_begins_when_its_loop_is_over_before() -> None:
    beside, done = Background(), []

    async def work() -> None:
        done.append("work")

    async def call() -> None:
        beside.start(work)

    asyncio.run(call())
    asyncio.run(beside.close())
    assert done == []
