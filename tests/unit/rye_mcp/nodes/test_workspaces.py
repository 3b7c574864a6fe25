"""The executors of the directories that a worker shares."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.workspace import ProjectTree, TreeFile
from rye_mcp.nodes.trees import Arriving, list_of
from rye_mcp.nodes.workspaces import MAX_TREES, Workspaces

pytestmark = pytest.mark.anyio


class Executor:
    """An executor that says whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


async def test_calls_that_come_at_once_work_with_one_executor_which_is_closed(tmp_path: Path) -> None:
    opened, goes_on = list[Executor](), threading.Event()

    def open_executor(_: Path) -> Any:
        opened.append(Executor())
        assert goes_on.wait(30)
        return opened[-1]

    workspaces = Workspaces(tmp_path, open_executor, lambda: {"data": tmp_path})
    found: list[Any] = []

    async def call() -> None:
        found.append(await workspaces.shared("shared:data"))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(call)
        with anyio.fail_after(30):
            while not opened:  # noqa: ASYNC110 - it is opened in a thread
                await anyio.sleep(0.01)
        await anyio.wait_all_tasks_blocked()
        goes_on.set()
    await workspaces.close()
    assert len(opened) == 1
    assert found == [opened[0]] * 3
    assert opened[0].is_closed


async def test_a_server_that_sends_no_list_keeps_no_other_call_waiting(tmp_path: Path) -> None:
    def open_executor(_: Path) -> Any:
        return Executor()

    workspaces, whole = Workspaces(tmp_path, open_executor, dict), Arriving()
    whole.hear_list(list_of(ProjectTree((TreeFile("empty", b"", executable=False),))))

    async def call() -> None:
        async with workspaces.tree(Arriving(), lambda _: None):
            raise AssertionError("there is no list")

    async with anyio.create_task_group() as group:
        for _ in range(MAX_TREES):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(30):
            async with workspaces.tree(whole, lambda _: None):
                [directory] = (tmp_path / "trees").iterdir()
                assert [each.name for each in directory.iterdir()] == ["empty"]
        group.cancel_scope.cancel()
    assert list((tmp_path / "trees").iterdir()) == []


@pytest.mark.parametrize("named", [{}, {"data": Path("/nowhere/at/all")}])
async def test_a_directory_that_is_not_named_or_not_there_is_refused(
    tmp_path: Path, named: dict[str, Path]
) -> None:
    workspaces = Workspaces(tmp_path, lambda _: pytest.fail("opened"), lambda: named)
    with pytest.raises(RyeError) as caught:
        await workspaces.shared("shared:data")
    assert caught.value.code == "node_refused"
