"""Runs that nobody waits for: how many there may be, of how many the answer is kept, and when they end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.mcp_server.background_runs import MAX_KEPT, MAX_RUNNING, BackgroundRuns
from rye_mcp.runs.board import KEPT_S, BoardRow, RunBoard
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


KEYS = ("a-key-that-two-workers-share-01234567",)


def board(state: Path, keys: tuple[str, ...] = KEYS) -> RunBoard:
    return RunBoard(state, keys)


async def until_over(runs: BackgroundRuns, run_id: str) -> None:
    """Ask until a run is over, as clients do: nobody tells them."""
    with anyio.fail_after(30):
        while runs.status(run_id)["status"] == "running":  # noqa: ASYNC110 - another process has no event
            await anyio.sleep(0.01)


async def test_a_worker_follows_the_run_of_another_one_to_its_answer(tmp_path: Path) -> None:
    one, other, end = BackgroundRuns(board(tmp_path)), BackgroundRuns(board(tmp_path)), anyio.Event()
    async with one.group(), other.group():
        run_id = await begin(one, end)
        assert other.status(run_id)["status"] == "running"
        end.set()
        await until_over(other, run_id)
        assert other.status(run_id) == one.status(run_id) == {"status": "success", "run_id": run_id}


async def test_a_worker_ends_the_run_of_another_one_and_waits_until_it_is_gone(tmp_path: Path) -> None:
    one, other = BackgroundRuns(board(tmp_path)), BackgroundRuns(board(tmp_path))
    async with one.group(), other.group():
        run_id = await begin(one, anyio.Event())
        with anyio.fail_after(30):
            assert (await other.cancel(run_id))["status"] == "cancelled"
        assert one.status(run_id)["status"] == "cancelled"
        assert (await other.cancel(run_id))["status"] == "cancelled", "what is over stays as it is"


async def test_the_runs_of_a_worker_that_ends_are_over_and_those_of_one_that_was_killed_are_lost(
    tmp_path: Path,
) -> None:
    one, other = BackgroundRuns(board(tmp_path)), BackgroundRuns(board(tmp_path))
    async with one.group():
        run_id = await begin(one, anyio.Event())
    assert other.status(run_id)["status"] == "cancelled"
    killed = new_run_id()
    board(tmp_path).write(killed, {"status": "running"}, is_over=False)
    [row] = (tmp_path / "shared-runs").glob(f"*/{killed}")
    row.write_bytes(msgspec.json.encode(BoardRow("1 1 none none", {"status": "running"}, is_over=False)))
    for ask in (partial(other.cancel, killed), partial(anyio.to_thread.run_sync, other.status, killed)):
        with pytest.raises(RyeError) as caught:
            await ask()
        assert caught.value.code == "lost"


async def test_without_the_key_of_a_worker_nobody_finds_its_runs(tmp_path: Path) -> None:
    one, key = BackgroundRuns(board(tmp_path)), "another-key-that-is-long-enough-0123"
    async with one.group():
        run_id = await begin(one, anyio.Event())
        for stranger in (BackgroundRuns(), BackgroundRuns(board(tmp_path, (key,)))):
            with pytest.raises(RyeError) as caught:
                stranger.status(run_id)
            assert caught.value.code == "run_not_found"
        exchanging = BackgroundRuns(board(tmp_path, (key, *KEYS)))
        assert exchanging.status(run_id)["status"] == "running"


async def test_a_run_goes_on_that_cannot_be_shown_to_others(tmp_path: Path) -> None:
    (tmp_path / "shared-runs").write_text("in the way")
    one, end = BackgroundRuns(board(tmp_path)), anyio.Event()
    async with one.group():
        run_id = await begin(one, end)
        end.set()
        await until_over(one, run_id)
    assert one.status(run_id)["status"] == "success"


async def test_an_answer_that_no_file_has_room_for_ends_no_server(tmp_path: Path) -> None:
    one, other, run_id = BackgroundRuns(board(tmp_path)), BackgroundRuns(board(tmp_path)), new_run_id()

    async def work(watch: Watch) -> Mapping[str, Any]:
        assert watch.on_begun is not None
        watch.on_begun(run_id)
        return {"status": "success", "data": "half a character: \ud800"}

    async with one.group():
        await one.start("demo/run", work)
        await one.cancel(run_id)
        assert one.status(run_id)["data"] == "half a character: \ud800"
        assert other.status(run_id)["status"] == "success"


class SlowBoard(RunBoard):
    """A board that lets nobody go on before its row is written, which takes until the event."""

    def __init__(self, state: Path) -> None:
        super().__init__(state, KEYS)
        self.asked, self.goes_on = threading.Event(), threading.Event()

    def write(self, run_id: str, answer: Mapping[str, Any], *, is_over: bool) -> None:
        self.asked.set()
        assert self.goes_on.wait(30)
        super().write(run_id, answer, is_over=is_over)


async def test_a_run_whose_caller_has_gone_before_it_heard_of_it_is_ended(tmp_path: Path) -> None:
    slow, ended = SlowBoard(tmp_path), anyio.Event()
    runs = BackgroundRuns(slow)

    async def work(watch: Watch) -> Mapping[str, Any]:
        assert watch.on_begun is not None
        watch.on_begun(new_run_id())
        await _until_cancelled(ended)
        raise AssertionError

    async with runs.group():
        async with anyio.create_task_group() as caller:
            caller.start_soon(runs.start, "demo/run", work)
            await anyio.to_thread.run_sync(slow.asked.wait, 30)
            caller.cancel_scope.cancel()
        slow.goes_on.set()
        with anyio.fail_after(30):
            await ended.wait()


def test_rows_are_private_and_go_when_nobody_asks_for_them_any_more(tmp_path: Path) -> None:
    shown, old, new = board(tmp_path), new_run_id(), new_run_id()
    for run_id in (old, new):
        shown.write(run_id, {"status": "success"}, is_over=True)
    [directory] = (tmp_path / "shared-runs").iterdir()
    assert directory.stat().st_mode & 0o077 == 0
    assert (directory / old).stat().st_mode & 0o077 == 0
    os.utime(directory / old, (0, time.time() - KEPT_S - 1))
    shown.sweep()
    assert (shown.read(old) is None, shown.read(new) is None) == (True, False)


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * (5 << 20)])
def test_a_row_that_is_none_is_not_found(tmp_path: Path, content: bytes) -> None:
    shown, run_id = board(tmp_path), new_run_id()
    shown.write(run_id, {}, is_over=True)
    [row] = (tmp_path / "shared-runs").glob(f"*/{run_id}")
    row.write_bytes(content)
    assert shown.read(run_id) is None
