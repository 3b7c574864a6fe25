"""A run leaves something for another run, or is prepared before a person replaces a protected file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rye_mcp.executor.job.planted import Missing
from rye_mcp.executor.job.under_way import UnderWay
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from tests.attacks.test_planted_names import Planting, is_there, planted, require_cells

pytestmark = pytest.mark.anyio

NAMES = (".git", ".vscode", ".envrc", "src/.git", "src/.venv")
PLANT = "mkdir .git .vscode src/.git src/.venv turned; echo evil >.envrc; ln -sfn turned .claude"
UNDO = "rm -rf .git .vscode .envrc src/.git src/.venv turned; ln -sfn kept .claude"
FIRST = f"{PLANT}; echo go >planted; read go <started; {UNDO}"
SECOND = f"echo go >started; read go <over; {PLANT}"


@pytest.fixture
async def planting(tmp_path: Path) -> Planting:
    await require_cells()
    planting = Planting(tmp_path, '{"project": "write"}')
    for name in ("src", "kept"):
        (planting.project / name).mkdir()
    return planting


@asynccontextmanager
async def executor_of(planting: Planting) -> AsyncIterator[PrimitiveExecutor]:
    world = planting.workshop.world
    environment = {"PATH": os.environ["PATH"], "HOME": str(planting.home)}
    executor = PrimitiveExecutor(
        planting.project,
        user_space=world.user_space.parent,
        state=world.state,
        environment=environment,
    )
    try:
        yield executor
    finally:
        await executor.close()


async def test_what_a_run_has_planted_was_not_there_for_another(planting: Planting) -> None:
    """The second starts when the first has planted, and plants the same when the first is over."""
    project = planting.project
    (project / ".claude").symlink_to("kept")
    for name in ("planted", "started", "over"):
        os.mkfifo(project / name)
    async with executor_of(planting) as executor:
        first = asyncio.create_task(executor.execute(planting.item_id, {"script": FIRST}, timeout=60))
        await asyncio.to_thread((project / "planted").read_text)
        second = asyncio.create_task(executor.execute(planting.item_id, {"script": SECOND}, timeout=60))
        one = await first
        await asyncio.to_thread((project / "over").write_text, "go\n")
        other = await second
    assert (one.success, other.success) == (True, True), (one.error, other.error, other.stderr)
    assert planted(one) == []
    assert not is_there(planting, *NAMES, ".claude")
    assert len(planted(other)) == len(NAMES) + 1


def test_a_run_that_ends_while_another_looks_counts() -> None:
    under_way, missing = UnderWay(), Missing(("/project/.git",), "/trash")

    def look() -> None:
        under_way.begin("one", missing)
        under_way.end("one")

    assert under_way.beside(look) == (None, (missing,))
    assert under_way.beside(lambda: None) == (None, ())


async def test_what_is_replaced_while_an_interpreter_waits_is_kept_from_the_next_call(
    planting: Planting,
) -> None:
    """A mount goes with the file that it is on."""
    project = planting.project
    for name in (".env", ".envrc"):
        (project / name).write_text("old")
    (project / ".vscode").mkdir()
    async with executor_of(planting) as executor:
        for _ in range(2):
            await executor.execute(planting.item_id, {"script": "true"})
            await executor.settle()
        result = await executor.execute(planting.item_id, {"script": "true"})
        await executor.settle()
        assert (result.success, result.runtime and result.runtime.is_warm) == (True, True), result.error
        for name in (".env", ".envrc"):
            (project / "new").write_text("mine")
            (project / "new").replace(project / name)
        (project / ".vscode").rmdir()
        (project / ".vscode").mkdir()
        script = "cat .env >seen; echo evil >.envrc; echo evil >.vscode/tasks.json; true"
        result = await executor.execute(planting.item_id, {"script": script})
    assert result.success, result.error
    assert (project / "seen").read_text() == ""
    assert (project / ".envrc").read_text() == "mine"
    assert list((project / ".vscode").iterdir()) == []
