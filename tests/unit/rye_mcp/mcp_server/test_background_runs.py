"""Runs that nobody waits for: how many there may be, of how many the answer is kept, and when they end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.mcp_server.background_runs import MAX_KEPT, MAX_RUNNING, BackgroundRuns
from rye_mcp.runs.ids import new_run_id

pytestmark = pytest.mark.both_loops


async def begin(runs: BackgroundRuns, end: anyio.Event) -> str:
    """Begin a run that goes on until the event; its id."""
    run_id = new_run_id()

    async def work(watch: Watch) -> Mapping[str, Any]:
        assert watch.on_begun is not None
        watch.on_begun(run_id)
        await end.wait()
        return {"status": "success", "run_id": run_id}

    assert (await runs.start("demo/run", work))["run_id"] == run_id
    return run_id


async def test_so_many_go_on_at_once_and_one_more_when_one_is_over() -> None:
    runs, one, others = BackgroundRuns(), anyio.Event(), anyio.Event()
    async with runs.group():
        first = await begin(runs, one)
        for _ in range(MAX_RUNNING - 1):
            await begin(runs, others)
        with pytest.raises(RyeError) as caught:
            await begin(runs, others)
        assert caught.value.code == "too_many_runs"
        one.set()
        await runs.cancel(first)  # which waits for its end, and leaves what is over as it is
        await begin(runs, others)


async def test_runs_that_have_not_begun_yet_count_too() -> None:
    runs, refused, begun = BackgroundRuns(), [], anyio.Event()

    async def slow(watch: Watch) -> Mapping[str, Any]:
        await begun.wait()
        assert watch.on_begun is not None
        watch.on_begun(new_run_id())
        await anyio.sleep_forever()
        raise AssertionError

    async def start() -> None:
        try:
            await runs.start("demo/run", slow)
        except RyeError as exc:
            refused.append(exc.code)

    async with runs.group(), anyio.create_task_group() as group:
        for _ in range(MAX_RUNNING + 3):
            group.start_soon(start)
        await anyio.wait_all_tasks_blocked()
        assert refused == ["too_many_runs"] * 3
        begun.set()


async def test_the_answers_of_the_last_ones_are_kept_and_those_that_go_on_are_never_forgotten() -> None:
    runs, over, going = BackgroundRuns(), anyio.Event(), anyio.Event()
    over.set()
    async with runs.group():
        oldest = await begin(runs, going)
        ended = []
        for _ in range(MAX_KEPT + 2):
            ended.append(await begin(runs, over))
            await runs.cancel(ended[-1])
        assert runs.status(oldest)["status"] == "running"
        for run_id in ended[:2]:
            with pytest.raises(RyeError) as caught:
                runs.status(run_id)
            assert caught.value.code == "run_not_found"
        assert all(runs.status(run_id)["run_id"] == run_id for run_id in ended[-MAX_KEPT + 1 :])


async def test_what_is_begun_ends_with_the_first_transport_and_with_no_later_one() -> None:
    runs, beside = BackgroundRuns(), anyio.Event()
    async with runs.group():
        async with runs.group():
            run_id = await begin(runs, anyio.Event())
            runs.beside(partial(_until_cancelled, beside))
        await anyio.wait_all_tasks_blocked()
        assert runs.status(run_id)["status"] == "running"
        assert not beside.is_set()
    assert runs.status(run_id)["status"] == "cancelled"
    assert beside.is_set()


async def _until_cancelled(ended: anyio.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        ended.set()
