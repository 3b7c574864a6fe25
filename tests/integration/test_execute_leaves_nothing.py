"""An execution leaves nothing behind: no private copy, no process, no kept output that nobody needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from rye_mcp.executor import PrimitiveExecutor
from rye_mcp.executor.job.jobs import Watch
from rye_mcp.runs.log import RunLog
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.both_loops

HEADER = """\
#!/bin/sh
# /// rye
# executor_id: binary_runtime
# config_schema: {properties: {pipe: {type: string}}}
# ///
"""
SAYS_WHERE = HEADER + 'echo "$0"\n'
WAITS = HEADER + 'echo $$ > "$RYE_PARAM_pipe"\nexec sleep 600\n'


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


@pytest.fixture
def place(own_place: Path) -> Path:
    """Where private copies are made in these tests."""
    place = own_place / "run"
    place.mkdir(mode=0o700)
    return place


@pytest.fixture
def executor(workshop: Workshop, place: Path) -> PrimitiveExecutor:
    (workshop.project / ".ai").mkdir(parents=True, exist_ok=True)
    return PrimitiveExecutor(
        workshop.project,
        user_space=workshop.world.user_space.parent,
        state=workshop.world.state,
        environment={**os.environ, "XDG_RUNTIME_DIR": str(place)},
    )


def tools_in(place: Path) -> list[Path]:
    """The files of private copies that are there."""
    return [path for path in place.rglob("*") if path.name.startswith("tool")]


def directories_in(place: Path) -> list[Path]:
    """What is there for private copies, apart from the directory of this program."""
    return [path for path in place.rglob("*") if path.is_dir() and path.name != "rye"]


def is_there(pid: int) -> bool:
    """Whether a process is there, or has not been fetched yet."""
    return Path(f"/proc/{pid}").exists()


async def test_a_private_copy_is_gone_when_its_run_is_over(
    workshop: Workshop, executor: PrimitiveExecutor, place: Path
) -> None:
    tool = workshop.sign("demo/tool", SAYS_WHERE)
    seen: list[list[Path]] = []

    def look(*_: object) -> None:
        seen.append(tools_in(place))

    result = await executor.run(tool, watch=Watch(on_output=look))
    assert result.success, result.error
    assert seen[0], "the copy is where these tests look for it"
    await executor.settle()
    assert tools_in(place) == []
    await executor.close()
    assert directories_in(place) == []


async def test_nothing_is_left_of_what_was_refused_or_only_tried(
    workshop: Workshop, executor: PrimitiveExecutor, place: Path
) -> None:
    tool = workshop.sign("demo/tool", SAYS_WHERE)
    await executor.dry_run(tool)
    assert tools_in(place) == []
    assert (await executor.execute(tool, timeout=-1)).code == "invalid_parameters"
    assert tools_in(place) == []
    await executor.close()


async def test_nothing_is_left_of_what_was_cancelled_and_the_log_knows_it(
    workshop: Workshop, executor: PrimitiveExecutor, place: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tool = workshop.sign("demo/tool", WAITS)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute, tool, {"pipe": str(pipe)})
            pid = int(await anyio.to_thread.run_sync(pipe.read_text))
            assert tools_in(place) != []
            group.cancel_scope.cancel()
    assert tools_in(place) == []
    assert not is_there(pid)
    await executor.close()
    with RunLog(workshop.world.state) as log:
        (record,) = log.list()
    assert (record.item_id, record.kind, record.code) == (tool, "cancelled", "cancelled")
    assert record.parameters == ("pipe",)
    assert record.duration_ms > 0


def entries(directory: Path) -> Iterator[str]:
    return (path.name for path in directory.rglob("*") if path.is_file())


async def test_only_output_that_was_cut_is_kept(workshop: Workshop, executor: PrimitiveExecutor) -> None:
    quiet = workshop.sign("demo/tool", SAYS_WHERE)
    loud = workshop.sign("demo/tool_loud", HEADER + "yes | head -c 3000000\n")
    assert (await executor.execute(quiet)).output is None
    result = await executor.execute(loud)
    await executor.close()
    assert result.truncated
    assert result.output == f"rye://runs/{result.run_id}/stdout"
    kept = workshop.world.state / "outputs" / str(result.run_id)
    assert [*entries(kept)] == ["stdout"]
    assert (kept / "stdout").stat().st_size == 3_000_000
