"""Processes that are not the project's: of another project, of a number that was used again, of a path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from tests.file_helpers import mode_of, umask
from tests.process_world import HOST, directory_of, host_of, is_alive, printed, process, project_of
from tests.runtime_workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with project_of(tmp_path) as found:
        yield found


async def test_nothing_of_another_project_is_seen_or_touched(workshop: Workshop, tmp_path: Path) -> None:
    theirs = await process(workshop, "spawn", command="sleep", args=["1000"])
    with project_of(tmp_path, "another") as another:
        assert another.world.state == workshop.world.state
        assert await process(another, "status") == {"processes": []}
        for tool in ("status", "logs", "kill"):
            found = await another.run(f"rye/process/{tool}", {"id": theirs["id"]})
            assert (found.success, found.data["code"]) == (False, "run_not_found")
        assert await is_alive(theirs["pid"])


async def test_a_pid_that_was_used_again_is_somebody_else(workshop: Workshop) -> None:
    """The host of a process is gone, and another program has its number by now."""
    begun = await process(workshop, "spawn", command="true")
    innocent = await process(workshop, "spawn", command="sleep", args=["1000"])
    directory, now = directory_of(workshop, begun["id"]), host_of(directory_of(workshop, innocent["id"]))
    for host in (now | {"began": str(int(now["began"]) - 1)}, now | {"boot": "of another day"}):
        (directory / "ended.json").unlink(missing_ok=True)
        (directory / HOST).write_text(json.dumps(host))
        assert (await process(workshop, "kill", id=begun["id"]))["state"] in ("lost", "ended")
        assert await is_alive(now["pid"])
        assert await is_alive(innocent["pid"])


@pytest.mark.parametrize("process_id", ["../another", "/etc", "", ".", "01M7R64XNV25R13HYHB9CCMRBF", "a\n"])
async def test_an_id_is_never_a_path(workshop: Workshop, process_id: str) -> None:
    found = await workshop.run("rye/process/logs", {"id": process_id})
    assert (found.success, found.data["code"]) == (False, "invalid_run_id")
    assert found.hint == "rye/process/status lists them"


async def test_nobody_else_reads_what_it_prints(workshop: Workshop) -> None:
    with umask(0o022):
        begun = await process(workshop, "spawn", command="echo", args=["a secret"])
    directory, state = directory_of(workshop, begun["id"]), workshop.world.state
    made = [directory, *directory.parents]
    assert {mode_of(each) for each in made[: made.index(state) + 1]} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


async def test_no_argument_and_no_call_of_the_primitive_itself_names_another_project(
    workshop: Workshop,
) -> None:
    found = await workshop.run("rye/process/status", {"project": "/"})
    assert found.code == "invalid_parameters"
    direct = {"config": {"action": "status"}, "params": {}}
    assert (await workshop.run("rye/core/primitives/processes", direct)).code == "not_runnable"


async def test_a_process_that_goes_on_reads_nothing_of_the_person(workshop: Workshop) -> None:
    facts = await SubprocessPrimitive().probe()
    if facts.cell is None:
        pytest.skip(f"no cells here: {facts.no_cell}")
    project = Path(str(workshop.project))
    (project.parent / "secret.txt").write_text("canary")
    (project / "seen.txt").write_text("of the project")
    line = f"cat '{project}/seen.txt' '{project.parent}/secret.txt' 2>&1; echo; sleep 1000"
    result = await workshop.run("rye/process/spawn", {"command": "sh", "args": ["-c", line]})
    assert result.success, result.error
    assert result.enforced is not None
    assert (result.enforced.level, result.enforced.project) == ("cell", "write")
    said = "\n".join(await printed(workshop, result.data["id"], lines=1))
    assert "of the project" in said
    assert "canary" not in said
    assert (await process(workshop, "kill", id=result.data["id"]))["state"] == "ended"
