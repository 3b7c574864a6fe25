"""What stands where lilux-proc should is found out, said, and gone again; nothing hangs."""

from __future__ import annotations

import json
import shlex
import shutil
import stat
import struct
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import current_token

from lilux._protocol import RunRequest
from lilux._supervisor import Supervisor, find_lilux_proc, spawn
from lilux.primitives.errors import ConfigurationError, SupervisorError
from lilux.primitives.subprocess import SubprocessPrimitive

OURS = "1.2.3"

Program = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Makes a program of a piece of Python that runs after `me` was written: its pid."""

    def write(source: str) -> str:
        path = tmp_path / "lilux-proc"
        leave_pid = f"open({str(tmp_path / 'me')!r}, 'w').write(str(os.getpid()))"
        # Through a shell: an interpreter whose path has a space in it cannot stand behind `#!`.
        start = f"""#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} -S "$0" "$@"\n' '''\n"""
        path.write_text(f"{start}import os, sys\n{leave_pid}\n{source}")
        path.chmod(0o755)
        return str(path)

    return write


def frame(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """A message as docs/protocol.md has it."""
    text = json.dumps(header).encode()
    return struct.pack(">II", len(text), len(payload)) + text + payload


def hello(then: str = "", **changes: Any) -> str:
    """Python that greets as a supervisor does, and goes on until nobody is there."""
    header = {"event": "hello", "protocol": 1, "version": OURS, "capabilities": [], **changes}
    return say(frame(header)) + then + "sys.stdin.buffer.read()\n"


def say(data: bytes) -> str:
    return f"sys.stdout.buffer.write({data!r})\nsys.stdout.flush()\n"


def is_gone(me: Path) -> bool:
    """True when the program that writes this file has ended and was waited for, or never came so far."""
    return not me.exists() or not Path("/proc", me.read_text()).exists()


HANG = "sys.stdin.buffer.read()\n"

REFUSAL = {"event": "error", "id": None, "code": "x", "stage": "x", "errno": None, "message": "No."}

STRANGERS = [
    pytest.param(
        hello(protocol=99), r"expected lilux-proc 1\.2\.3 .* found 1\.2\.3 \(protocol 99\)", id="protocol"
    ),
    pytest.param(hello(version="0.0.9"), r"expected lilux-proc 1\.2\.3 .* found 0\.0\.9", id="version"),
    pytest.param("print('Hello, I am not lilux-proc')\n" + HANG, "expected a header of at most", id="junk"),
    pytest.param(say(frame({"event": "party"})) + HANG, "expected an event", id="no event"),
    pytest.param(say(b"\0\0\0\2\0\0\0\0[]") + HANG, "expected a header that is an object", id="no object"),
    pytest.param(say(b"\0\0\0"), "found the end after 3 bytes", id="torn"),
    pytest.param("sys.exit(3)", "closed the connection", id="exits"),
    pytest.param(
        "os.close(0)\nos.close(1)\nimport time\ntime.sleep(60)", "closed the connection", id="closes"
    ),
    pytest.param(HANG, "nothing within 0.5 s", id="hangs"),
    pytest.param(say(frame(REFUSAL)), r"No\.", id="refuses"),
]


@pytest.mark.parametrize(("source", "words"), STRANGERS)
async def test_a_program_that_is_not_our_supervisor_is_named_and_ended(
    source: str, words: str, program: Program, tmp_path: Path
) -> None:
    path = program(source)
    limit_s = 0.5 if source == HANG else 20.0
    supervisor = Supervisor(path, current_token().native_token, version=OURS, greeting_limit_s=limit_s)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=words) as caught:
            await supervisor.run(RunRequest(command="/bin/true"))
        assert path in str(caught.value)
        assert "reinstall rye-mcp" in str(caught.value)
    assert is_gone(tmp_path / "me")


async def test_once_the_right_program_stands_there_the_next_call_finds_it(program: Program) -> None:
    supervisor = Supervisor(program("sys.exit(3)"), current_token().native_token, version=OURS)
    with pytest.raises(ConfigurationError):
        await supervisor.status()
    answer = {"event": "status", "id": 1, "pid": 3, "warden": 2, "runs": 0, "keepers": 0, "idle_keepers": 0}
    program(hello(then="sys.stdin.buffer.read1(1)\n" + say(frame(answer))))
    assert (await supervisor.status()).warden == 2
    supervisor.close()


async def test_a_cancelled_start_leaves_nothing_behind(program: Program, tmp_path: Path) -> None:
    supervisor = Supervisor(program(HANG), current_token().native_token, version=OURS)
    me = anyio.Path(tmp_path / "me")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(supervisor.run, RunRequest(command="/bin/true"))
        while not await me.exists() or not await me.read_text():  # noqa: ASYNC110 - it waits for a program
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert is_gone(tmp_path / "me")


async def test_a_supervisor_that_does_not_end_a_cancelled_run_is_given_up(program: Program) -> None:
    supervisor = Supervisor(program(hello()), current_token().native_token, version=OURS, cancel_limit_s=0.2)
    errors: list[str] = []

    async def neighbour() -> None:
        with pytest.raises(SupervisorError, match=r"not ended within 0\.2 s") as caught:
            await supervisor.run(RunRequest(command="/bin/true"))
        errors.append(caught.value.code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(neighbour)
        with anyio.move_on_after(0.5) as scope:
            await supervisor.run(RunRequest(command="/bin/true"))
    assert scope.cancelled_caught
    assert errors == ["lost"]
    supervisor.close()


CLOSED = {
    "kind": "exited",
    "pid": 1,
    "return_code": 0,
    "signal": None,
    "duration_ms": 1.0,
    "usage": {"user_ms": 0.0, "system_ms": 0.0, "max_rss_kb": 0},
    "stdout": {"kept": 5, "head": 5, "total": 5, "omitted": 0, "spooled": 0, "lost": 0},
    "stderr": {"kept": 0, "head": 0, "total": 0, "omitted": 0, "spooled": 0, "lost": 0},
    "result": None,
    "truncated": False,
    "cleanup": {"state": "complete", "pids": []},
    "error": None,
}

WRONG_ANSWERS = [
    pytest.param(
        frame({"event": "closed", "id": 1, "result": CLOSED}, b"four"),
        "expected 5 bytes of stdout",
        id="short",
    ),
    pytest.param(frame({"event": "killed", "id": 1}), "expected an event", id="no event"),
    pytest.param(
        frame(
            {"event": "error", "id": 1, "code": "malformed_event", "stage": "s", "errno": 1, "message": "No."}
        ),
        "No.",
        id="refused",
    ),
]


@pytest.mark.parametrize(("answer", "words"), WRONG_ANSWERS)
async def test_an_invalid_answer_is_an_error_of_its_run(answer: bytes, words: str, program: Program) -> None:
    path = program(hello(then="sys.stdin.buffer.read1(1)\n" + say(answer)))
    supervisor = Supervisor(path, current_token().native_token, version=OURS)
    with pytest.raises(SupervisorError, match=words):
        await supervisor.run(RunRequest(command="/bin/true"))
    supervisor.close()


@pytest.mark.parametrize("kind", ["missing", "not executable", "directory", "no program"])
async def test_a_path_that_cannot_be_started_is_a_configuration_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "lilux-proc"
    if kind == "directory":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\x7fELF no")
        path.chmod(0o644 if kind == "not executable" else 0o755)
    supervisor = Supervisor(str(path), current_token().native_token)
    with pytest.raises(ConfigurationError, match=r"cannot start .*lilux-proc.* reinstall rye-mcp"):
        await supervisor.run(RunRequest(command="/bin/true"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print('junk')", "exit code 0|Expecting value"),
        ("print('[1]')", "keys"),
        ("print('{}')", "exit code 0"),
        ("sys.stderr.write('unknown command: spawn')\nsys.exit(2)", "Expecting value|unknown command"),
    ],
)
async def test_a_program_that_cannot_spawn_is_a_supervisor_error(
    source: str, words: str, program: Program
) -> None:
    with pytest.raises(SupervisorError, match=words) as caught:
        await spawn(program(f"sys.stdin.read()\n{source}"), RunRequest(command="/bin/true"), None)
    assert caught.value.code == "spawn_failed"


async def test_a_program_that_ends_without_reading_the_request_is_a_supervisor_error(
    program: Program,
) -> None:
    more_than_a_pipe_holds = RunRequest(command="/bin/true", args=["x" * (1 << 20)])
    with pytest.raises(SupervisorError, match="before it had read the request") as caught:
        await spawn(program("sys.exit(0)"), more_than_a_pipe_holds, None)
    assert caught.value.code == "spawn_failed"


# --- finding it -----------------------------------------------------------------


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that stands for the scripts of this environment."""
    directory = tmp_path / "scripts"
    directory.mkdir()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(directory))
    return directory


def executable(directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    path = directory / "lilux-proc"
    path.touch(mode=stat.S_IRWXU)
    return str(path)


def test_the_lilux_proc_beside_the_interpreter_is_preferred(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = executable(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_lilux_proc() == on_path
    assert find_lilux_proc() != executable(scripts) == find_lilux_proc()


def test_a_relative_path_is_made_absolute(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = executable(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    assert find_lilux_proc() == found


def test_without_lilux_proc_the_primitive_says_what_to_do(
    scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(scripts))
    with pytest.raises(ConfigurationError, match=r"not found on PATH or in .*: reinstall rye-mcp"):
        SubprocessPrimitive()


def test_every_instance_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/somewhere/lilux-proc")
    SubprocessPrimitive()
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ConfigurationError):
        SubprocessPrimitive()
