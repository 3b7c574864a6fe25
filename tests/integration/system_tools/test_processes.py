"""`rye/process/*` through the executor: processes that go on, are read, and end with all they started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.primitives import processes
from tests.process_world import directory_of, host_of, is_alive, printed, process, project_of
from tests.runtime_workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with project_of(tmp_path) as found:
        yield found


def is_asleep(length: str) -> bool:
    """Whether a `sleep` of this length runs."""
    lines = Path("/proc").glob("[0-9]*/cmdline")
    return any(arguments_of(line) == [b"sleep", length.encode(), b""] for line in lines)


def arguments_of(line: Path) -> list[bytes]:
    """The arguments of a process; none of one that has ended."""
    try:
        return line.read_bytes().split(b"\0")
    except OSError:
        return []


async def spawn(workshop: Workshop, script: str, **parameters: Any) -> Any:
    return await process(workshop, "spawn", command="bash", args=["-c", script, "a b", "$(id)"], **parameters)


async def ended(workshop: Workshop, process_id: str) -> Any:
    """What status says of a process, once it is over."""
    with anyio.fail_after(20):
        while True:
            (found,) = (await process(workshop, "status", id=process_id))["processes"]
            if found["state"] != "running":
                return found


async def test_a_process_outlives_its_call_and_is_ended_with_its_tree(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING", "hello {x}")
    monkeypatch.setenv("MY_API_TOKEN", "a secret")
    (workshop.project / "sub dir").mkdir()
    length = f"1000.{os.getpid()}"  # in a cell the child has another pid: its arguments tell which one it is
    shown = 'echo "$0|$1|$GREETING|$MY_API_TOKEN|${RYE_RESULT_FD-none}|$PWD"'
    script = f"{shown}; setsid sleep {length} & echo $!; wait"
    begun = await spawn(workshop, script, cwd="sub dir", name="server")
    assert (begun["state"], begun["name"]) == ("running", "server")
    assert begun["command"][:2] == ["bash", "-c"]
    said, _ = await printed(workshop, begun["id"], lines=2)
    assert said == f"a b|$(id)|hello {{x}}||none|{workshop.project.resolve()}/sub dir"
    assert await is_alive(begun["pid"])
    while not is_asleep(length):  # `setsid` becomes it in an instant
        assert await is_alive(begun["pid"])
    done = await process(workshop, "kill", id=begun["id"])
    assert (done["state"], done["kind"], done["signal"]) == ("ended", "signaled", signal.SIGTERM)
    assert not await is_alive(begun["pid"])
    assert not is_asleep(length)
    again = await process(workshop, "kill", id=begun["id"])
    assert again == done, "to end what has ended changes nothing"


async def test_what_ends_by_itself_says_how(workshop: Workshop) -> None:
    begun = await spawn(workshop, "echo out; echo err >&2; exit 3")
    found = await ended(workshop, begun["id"])
    assert (found["kind"], found["return_code"], found["printed"]) == ("exited", 3, 8)
    logs = await process(workshop, "logs", id=begun["id"])
    assert sorted(logs["text"].split()) == ["err", "out"]
    assert (logs["state"], logs["offset"], logs["next_offset"], logs["total"]) == ("ended", 0, 8, 8)
    middle = await process(workshop, "logs", id=begun["id"], offset=-3, length=2)
    assert (middle["offset"], middle["next_offset"], len(middle["text"])) == (5, 7, 2)
    last = await process(workshop, "logs", id=begun["id"], length=3)
    assert (last["offset"], last["next_offset"]) == (5, 8), (
        "without an offset it is the end that was asked for"
    )


async def test_a_process_that_ignores_sigterm_is_killed(workshop: Workshop) -> None:
    begun = await spawn(workshop, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    await printed(workshop, begun["id"])
    done = await process(workshop, "kill", id=begun["id"], grace=0.2)
    assert (done["state"], done["signal"]) == ("ended", signal.SIGKILL)


async def test_a_process_that_handles_sigterm_gets_its_time(workshop: Workshop) -> None:
    # It waits without a child: one that was started just now would be told to end as well.
    wait = "read -u 9 -t"
    trap = f"trap '{wait} 0.7; echo bye; exit 0' TERM"
    begun = await spawn(workshop, f"exec 9<> <(:); {trap}; echo ready; while :; do {wait} 0.1; done")
    await printed(workshop, begun["id"])
    done = await process(workshop, "kill", id=begun["id"], grace=20)
    assert (done["kind"], done["return_code"]) == ("exited", 0)
    said = (await process(workshop, "logs", id=begun["id"]))["text"].splitlines()
    assert said == ["ready", "bye"]


@pytest.mark.thorough
async def test_when_its_host_is_killed_the_process_ends_and_is_lost(workshop: Workshop) -> None:
    begun = await spawn(workshop, "echo $$; exec sleep 1000")
    await printed(workshop, begun["id"])
    os.kill(host_of(directory_of(workshop, begun["id"]))["pid"], signal.SIGKILL)
    with anyio.fail_after(20):
        while await is_alive(begun["pid"]):
            pass
    assert (await ended(workshop, begun["id"]))["state"] == "lost"
    assert (await process(workshop, "kill", id=begun["id"]))["state"] == "lost"


async def test_a_line_for_a_shell_that_is_given_as_a_program_says_how_to_give_it(workshop: Workshop) -> None:
    found = await workshop.run("rye/process/spawn", {"command": "echo a; sleep 100"})
    assert (found.success, found.code) == (False, "tool_failed")
    assert found.hint == "for a line of a shell: command sh, args ['-c', LINE]"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"command": "no-such-program"}, "expected no-such-program to start, found: command not found"),
        ({"command": "true", "cwd": ".."}, "expected a directory in the project as cwd, found .."),
        ({"command": "true", "cwd": "nowhere"}, "expected a directory in the project as cwd, found nowhere"),
    ],
)
async def test_what_cannot_be_started_is_said(
    workshop: Workshop, parameters: dict[str, Any], problem: str
) -> None:
    found = await workshop.run("rye/process/spawn", parameters)
    assert (found.success, found.code) == (False, "tool_failed")
    assert (found.error or "").startswith(problem)
    assert found.hint == "check the parameters of the call", "it has no error output that one could read"
    assert all(each["state"] == "ended" for each in (await process(workshop, "status"))["processes"])


async def test_a_command_that_is_too_long_leaves_nothing_and_a_long_one_is_shown_in_brief(
    workshop: Workshop,
) -> None:
    found = await workshop.run("rye/process/spawn", {"command": "echo", "args": ["x" * 60_000] * 20})
    assert (found.error or "").startswith("expected a command of at most 1048576 bytes, found 12")
    assert (await process(workshop, "status"))["processes"] == []
    begun = await process(workshop, "spawn", command="echo", args=["x" * 1000] * 100)
    assert begun["command"] == ["echo", *["x" * 500 + "…"] * 49, "… 51 more"]
    await ended(workshop, begun["id"])
    assert (await process(workshop, "logs", id=begun["id"]))["total"] == 100_100


async def test_nothing_of_a_flood_is_missing_in_the_log(workshop: Workshop) -> None:
    begun = await process(workshop, "spawn", command="seq", args=["1", "300000"])
    await ended(workshop, begun["id"])
    found = await process(workshop, "logs", id=begun["id"], offset=1_000_000, length=1000)
    assert (found["total"], found["text"]) == (
        1_988_895,
        "".join(f"{n}\n" for n in range(1, 300_001))[1_000_000:1_001_000],
    )


@pytest.mark.thorough
async def test_no_more_than_so_many_run_at_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_RUNNING", 1)
    begun = await process(workshop, "spawn", command="sleep", args=["1000"])
    found = await workshop.run("rye/process/spawn", {"command": "true"})
    assert found.error == "expected at most 1 processes of a project, found 1: end some of them"
    await process(workshop, "kill", id=begun["id"])
    assert (await process(workshop, "spawn", command="true"))["command"] == ["true"]


async def test_without_a_project_there_are_no_processes(tmp_path: Path) -> None:
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor

    (tmp_path / "home").mkdir()
    executor = PrimitiveExecutor(None, user_space=tmp_path / "home", state=tmp_path / "state")
    found = await executor.execute("rye/process/status")
    await executor.close()
    assert (found.success, found.code) == (False, "no_project")
