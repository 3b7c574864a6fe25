"""Processes that outlive a call: started, asked after and ended by their number."""

from __future__ import annotations

import asyncio
import math
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import KillResult, ProcessSpec, StatusResult, SubprocessPrimitive


def is_alive(pid: int) -> bool:
    """True while the process is there and has not ended."""
    try:
        state = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def text_of(path: Path) -> str:
    """What a process has written to a file, once that is a whole line."""
    text = ""
    while not text.endswith("\n"):
        await anyio.sleep(0.005)
        text = await anyio.Path(path).read_text() if await anyio.Path(path).exists() else ""
    return text


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Takes the processes that a test has started, and ends what is left of them."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, 9)


@pytest.fixture
def primitive() -> SubprocessPrimitive:
    return SubprocessPrimitive()


def test_a_spawned_process_outlives_the_loop_and_is_ended_from_another(
    tmp_path: Path, started: list[int], primitive: SubprocessPrimitive
) -> None:
    spawned = asyncio.run(primitive.spawn("sleep", ["60"]))
    assert (spawned.success, spawned.error) == (True, None)
    assert spawned.pid is not None
    started.append(spawned.pid)
    pid = spawned.pid

    async def end() -> list[Any]:
        return [await primitive.status(pid), await primitive.kill(pid), await primitive.status(pid)]

    assert asyncio.run(end()) == [
        StatusResult(pid, alive=True),
        KillResult(success=True, pid=pid, method="terminated"),
        StatusResult(pid, alive=False),
    ]
    assert asyncio.run(primitive.kill(pid)) == KillResult(success=True, pid=pid, method="already_dead")


async def test_a_spawned_process_has_its_arguments_environment_directory_and_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, primitive: SubprocessPrimitive
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INHERITED_HERE", "outer")
    script = 'echo "$1 $INHERITED_HERE $ADDED $PWD"; echo err >&2; cat; echo end'
    args = ["-c", script, "sh", "a 'b'"]
    spawned = await primitive.spawn("sh", args, log_path="log", envs={"ADDED": "inner"})
    assert spawned.success
    text = ""
    while not text.endswith("end\n"):
        text = await text_of(tmp_path / "log")
    assert text == f"a 'b' outer inner {tmp_path}\nerr\nend\n"


async def test_a_resolved_configuration_starts_exactly_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, primitive: SubprocessPrimitive
) -> None:
    monkeypatch.setenv("INHERITED_HERE", "outer")
    script = 'echo "$INHERITED_HERE|$ADDED|$PWD"; echo end'
    spec = ProcessSpec(command="/bin/sh", args=["-c", script], cwd=tmp_path, env={"ADDED": "inner"})
    assert (await primitive.start(spec, tmp_path / "log")).success
    text = ""
    while not text.endswith("end\n"):
        text = await text_of(tmp_path / "log")
    assert text == f"|inner|{tmp_path}\nend\n"


async def test_nothing_secret_stands_in_the_arguments_of_the_starter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, real = tmp_path / "seen", SubprocessPrimitive()._lilux_proc
    fake = tmp_path / "bin" / "lilux-proc"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$0 $@" > {shlex.quote(str(seen))}\nexec {shlex.quote(real)} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(fake))
    assert (await SubprocessPrimitive().spawn("true", ["s3cret"], envs={"TOKEN": "s3cret"})).success
    assert seen.read_text() == f"{fake} spawn --request -\n"


@pytest.mark.parametrize(
    ("cmd", "words"),
    [("no-such-program", "Failed to spawn: .*no-such-program"), ("", "No command specified")],
)
async def test_what_cannot_be_spawned_is_a_result_that_says_why(
    cmd: str, words: str, primitive: SubprocessPrimitive
) -> None:
    spawned = await primitive.spawn(cmd, [])
    assert (spawned.success, spawned.pid) == (False, None)
    assert spawned.error is not None
    assert re.match(words, spawned.error)


async def test_a_process_that_ignores_the_request_is_killed_after_the_grace(
    tmp_path: Path, started: list[int], primitive: SubprocessPrimitive
) -> None:
    script = f"trap '' TERM; echo ready > {shlex.quote(str(tmp_path / 'ready'))}; while :; do sleep 60; done"
    spawned = await primitive.spawn("sh", ["-c", script])
    assert spawned.pid is not None
    started.append(spawned.pid)
    await text_of(tmp_path / "ready")
    assert await primitive.kill(spawned.pid, grace=0.1) == KillResult(True, spawned.pid, "killed")
    assert not is_alive(spawned.pid)


async def test_the_whole_group_of_a_spawned_process_is_ended(
    tmp_path: Path, started: list[int], primitive: SubprocessPrimitive
) -> None:
    script = f"sleep 60 & echo $! > {shlex.quote(str(tmp_path / 'child'))}; wait"
    spawned = await primitive.spawn("sh", ["-c", script])
    assert spawned.pid is not None
    child = int(await text_of(tmp_path / "child"))
    started += [spawned.pid, child]
    assert (await primitive.kill(spawned.pid)).success
    assert (is_alive(spawned.pid), is_alive(child)) == (False, False)


@pytest.mark.parametrize("pid", [0, -1, -4711, 2**31, 2**63, 10**30])
async def test_a_number_that_no_process_has_is_refused(pid: int, primitive: SubprocessPrimitive) -> None:
    killed, status = await primitive.kill(pid), await primitive.status(pid)
    assert (killed.success, killed.method, status.alive) == (False, "", False)
    assert killed.error
    assert status.error


@pytest.mark.parametrize("pid", ["1", None, 1.0, True])
async def test_what_is_no_number_is_a_configuration_error(pid: Any, primitive: SubprocessPrimitive) -> None:
    for operation in (primitive.kill, primitive.status):
        with pytest.raises(ConfigurationError, match="a whole number as pid") as caught:
            await operation(pid)
        assert caught.value.field == "pid"


@pytest.mark.parametrize("grace", [-1, math.nan, math.inf, 1e10, "3", True, None])
async def test_a_grace_that_is_no_time_is_a_configuration_error(
    grace: Any, primitive: SubprocessPrimitive
) -> None:
    with pytest.raises(ConfigurationError, match="as grace") as caught:
        await primitive.kill(2**22 + 1, grace=grace)
    assert caught.value.field == "grace"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"cmd": 7}, "command"),
        ({"cmd": "true", "args": "x"}, "args"),
        ({"cmd": "true", "args": [None]}, "args[0]"),
        ({"cmd": "true", "log_path": 3}, "log_path"),
        ({"cmd": "true", "log_path": ""}, "log_path"),
        ({"cmd": "true", "envs": {"A": 1}}, "env.A"),
        ({"cmd": "true", "envs": ["A"]}, "envs"),
    ],
)
async def test_a_malformed_spawn_is_a_configuration_error(
    arguments: dict[str, Any], field: str, primitive: SubprocessPrimitive
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await primitive.spawn(**arguments)
    assert caught.value.field == field
