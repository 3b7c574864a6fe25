"""Nothing survives in a cell, whoever is killed: not even when all of the supervisor is killed at once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import Client
from tests.containment.endings import LIMIT_S, PATIENCE_S
from tests.containment.leash import Leash, leash
from tests.containment.processes import children_of, is_gone_by
from tests.containment.scene import WAYS, Programs, Scene, cast_of, put_away

SUPERVISORS = ("warden", "serve", "keeper")
KILLED = [names for count in (1, 2, 3) for names in combinations(SUPERVISORS, count)]
DRAIN_S = 0.5
LEAVING = [way for way in WAYS if way not in {"storm", "refuse", "refuse_frozen"}]
"""The tool itself ends with these, and leaves others behind."""

SLACK_S = 2.0
PREFIXES = sorted({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix)})
"""What the interpreter of the tests consists of."""


def policy(held: Leash, program: Path) -> dict[str, Any]:
    """A cell in which the tool finds itself and its leash."""
    return {
        "tier": "cell",
        "require": "cell",
        "read": [str(program.resolve())],
        "write": [str(held.directory.resolve())],
    }


@contextmanager
def in_cell(programs: Programs, way: str, *, start: str = "at_once", **fields: Any) -> Iterator[Scene]:
    """A run in a cell that has tried to get away, at once, or after it was parked or forked."""
    with leash() as held, Client.start(programs.binary) as client:
        fields = {"policy": policy(held, programs.misbehave), **fields}
        command = held.command(programs.misbehave.resolve(), way)
        if start == "parked":
            run = client.park(*command, **fields)
            client.send("call", id=run, notify=True)
        elif start == "forked":
            fields["policy"]["read"] += PREFIXES
            run = client.fork(client.start_zygote(**fields).id, **fields)
            script = held.directory.resolve() / "becomes.py"
            script.write_text("import os, sys\nos.execv(sys.argv[1], sys.argv[1:])\n")
            client.send("call", id=run, args=[str(script), *map(str, command)], notify=True)
        else:
            run = client.start_run(*command, notify=True, **fields)
        started = client.wait_for(run, "started")
        scene = Scene(held, cast_of(client, started), client, run)
        held.wait_until_away(numbered=False)
        scene.handles = {}
        try:
            scene.handles = {name: os.pidfd_open(pid) for name, pid in scene.pids.items()}
            yield scene
        finally:
            put_away(scene)


@pytest.mark.parametrize("names", KILLED, ids="+".join)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", ["at_once", "parked", "forked"])
def test_nobody_survives_in_a_cell_whoever_is_killed(
    programs: Programs, way: str, names: tuple[str, ...], start: str, rounds: int
) -> None:
    for _ in range(rounds if start == "at_once" else 1):
        with in_cell(programs, way, start=start) as scene:
            scene.kill(*names)
            assert scene.leash.gone_at(time.monotonic() + PATIENCE_S) is not None


def test_without_a_cell_who_kills_all_three_escapes(programs: Programs) -> None:
    with in_cell(programs, "daemonize", policy=None) as scene:
        scene.kill(*SUPERVISORS)
        assert scene.leash.gone_at(time.monotonic() + LIMIT_S) is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", ["at_once", "forked"])
def test_a_cancelled_run_leaves_nobody_in_its_cell(programs: Programs, way: str, start: str) -> None:
    with in_cell(programs, way, start=start) as scene:
        assert scene.client is not None
        scene.client.send("cancel", id=scene.run, grace_ms=20)
        ended = scene.client.end_of(scene.run)
        assert ended.result["cleanup"]["state"] == "complete"
        assert not scene.leash.is_held or scene.leash.gone_at(time.monotonic() + LIMIT_S)


@pytest.mark.parametrize("way", LEAVING)
@pytest.mark.parametrize("start", ["at_once", "forked"])
def test_what_a_tool_leaves_behind_in_its_cell_is_ended(programs: Programs, way: str, start: str) -> None:
    with in_cell(programs, way, start=start) as scene:
        assert scene.client is not None
        scene.leash.let_tool_leave()
        since = time.monotonic()
        ended = scene.client.end_of(scene.run)
        assert ended.result["kind"] == "exited"
        assert ended.last.at - since < DRAIN_S + SLACK_S
        assert scene.leash.gone_at(time.monotonic() + LIMIT_S) is not None


def test_a_keeper_is_used_again_after_a_cell_and_keeps_nobody_of_it(programs: Programs) -> None:
    fields: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}, "cwd": "/"}
    with Client.start(programs.binary) as client:
        for _ in range(50):
            assert client.shell("sleep 60 & exit 3", **fields).result["return_code"] == 3
        deadline = time.monotonic() + PATIENCE_S
        keepers = children_of(client.status()["pid"])
        # Process 1 of the last cell ends when its result is on its way already.
        assert all(is_gone_by(child, deadline) for keeper in keepers for child in children_of(keeper))


def test_a_cell_tells_what_ended_its_tool_and_what_it_used(programs: Programs) -> None:
    fields: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}, "cwd": "/"}
    with Client.start(programs.binary) as client:
        killed = client.shell("kill -TERM $$; sleep 5", **fields).result
        assert (killed["kind"], killed["signal"]) == ("signaled", 15)
        stubborn = client.shell("trap '' TERM; sleep 9", timeout_ms=200, **fields)
        assert stubborn.result["kind"] == "timeout"
        polite = client.shell("trap 'exit 7' TERM; while :; do sleep 0.1; done", timeout_ms=200, **fields)
        assert polite.result["cleanup"]["state"] == "complete"
        busy = client.shell("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done", **fields).result
        assert busy["usage"]["user_ms"] > 0


def test_a_tool_that_ends_process_1_ends_itself(programs: Programs) -> None:
    """It may not: a signal from within reaches process 1 only where that has asked for it."""
    with Client.start(programs.binary) as client:
        fields: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}, "cwd": "/"}
        ended = client.shell("kill -KILL 1; kill -STOP 1; kill -SEGV 1; echo there", **fields)
        assert ended.stdout == b"there\n"


def test_hundreds_of_cells_at_once_leave_nothing_behind(programs: Programs) -> None:
    fields: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}, "cwd": "/"}
    with Client.start(programs.binary) as client:
        runs = [client.start_run("/bin/true", **fields) for _ in range(200)]
        assert {client.end_of(run).result["return_code"] for run in runs} == {0}
        keepers = children_of(client.status()["pid"])
    deadline = time.monotonic() + PATIENCE_S
    assert all(is_gone_by(keeper, deadline) for keeper in keepers)
