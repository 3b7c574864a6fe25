"""Nothing survives in a cell, whoever is killed: not even when all of the supervisor is killed at once."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.containment.client import Client
from tests.containment.endings import LIMIT_S, PATIENCE_S
from tests.containment.leash import Leash, leash
from tests.containment.processes import children_of, family_of, is_gone_by, state_of, watched
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
def test_nothing_survives_in_a_cell_whichever_process_is_killed(
    programs: Programs, way: str, names: tuple[str, ...], start: str, rounds: int
) -> None:
    for _ in range(rounds if start == "at_once" else 1):
        with in_cell(programs, way, start=start) as scene:
            scene.kill(*names)
            assert scene.leash.gone_at(time.monotonic() + PATIENCE_S) is not None


def test_without_a_cell_killing_all_three_escapes(programs: Programs) -> None:
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


LISTENS = r"""
import os, socket, sys, time
first = socket.create_server(("127.0.0.1", 5005))
second = socket.socket(socket.AF_UNIX)
second.bind("\0left behind")
second.listen()
print("listens", flush=True)
if sys.argv[1] == "ended" and os.fork():
    sys.exit()
time.sleep(600)
"""
CONNECTS = r"""
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", 5005)), (socket.AF_UNIX, "\0left behind")):
    try:
        socket.socket(family).connect(address)
        print("reached")
    except ConnectionRefusedError:
        print("nobody")
"""


@pytest.mark.parametrize("how", ["ended", "cancelled"])
def test_what_a_tool_leaves_listening_is_not_there_for_the_next(programs: Programs, how: str) -> None:
    """Both are in the same network: a keeper makes one, and uses it for all of its runs."""
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("the system has no Python")
    fields: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}, "cwd": "/"}
    networks = set()
    with Client.start(programs.binary) as client:
        for _ in range(3):
            run = client.start_run(python, "-c", LISTENS, how, stream={"credit": 99}, **fields)
            client.wait_for(run, "output")
            if how == "cancelled":
                client.send("cancel", id=run, grace_ms=0)
            assert client.end_of(run).result["cleanup"]["state"] == "complete"
            assert client.run(python, "-c", CONNECTS, **fields).stdout == b"nobody\nnobody\n"
            networks.add(client.run("/bin/readlink", "/proc/self/ns/net", **fields).stdout)
    assert len(networks) == 1


def test_a_thousand_cells_at_once_are_apart_and_leave_nothing_behind(programs: Programs) -> None:
    """All of them live at the same time: each program waits for the end of its input."""
    cell: dict[str, Any] = {"policy": {"tier": "cell", "require": "cell"}, "cwd": "/"}
    with Client.start(programs.binary) as client:
        runs = [client.start_run("/bin/cat", stdin="pipe", stream={"credit": 9}, **cell) for _ in range(1000)]
        for run in runs:
            client.send("input", b"x", id=run, eof=False)
        for run in runs:
            client.wait_for(run, "output")
        status = client.status()
        keepers = children_of(status["pid"])
        inside = {Path(f"/proc/{pid}/ns/pid").readlink() for each in keepers for pid in children_of(each)}
        assert (status["runs"], len(keepers), len(inside)) == (1000, 1000, 1000)
        assert Path("/proc/self/ns/pid").readlink() not in inside
        for run in runs:
            client.send("input", b"", id=run, eof=True)
        assert {client.end_of(run).result["return_code"] for run in runs} == {0}
    deadline = time.monotonic() + PATIENCE_S
    assert all(is_gone_by(keeper, deadline) for keeper in keepers)


MOMENTS = ("Namespaces", "Root", "Places", "ProcessOne", "Tool")
"""When a cell stops while it is made, see `switches.rs`."""


@dataclass(frozen=True)
class HalfMade:
    """A run whose cell is not finished: its supervisors by name, and everybody of the cell so far."""

    client: Client
    run: int
    cast: dict[str, int]
    cell: list[int]
    program: Path

    def kill(self, *names: str) -> None:
        """Kill supervisors, and let what is left of the cell go on."""
        for pid, number in [
            *((self.cast[name], number) for number in (signal.SIGSTOP, signal.SIGKILL) for name in names),
            *((pid, signal.SIGCONT) for pid in self.cell),
        ]:
            with suppress(ProcessLookupError):  # when the first is dead, somebody else may be quicker
                os.kill(pid, number)

    def inside(self) -> list[str]:
        """List who is in a cell that this supervisor has made: process 1 of it, and the tool."""
        ours, programs = Path("/proc/self/ns/pid").readlink(), (self.program, self.program.with_name("sleep"))
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "exe").readlink() in programs and (process / "ns/pid").readlink() != ours:
                    found.append(process.name)
        return found


@contextmanager
def half_made(programs: Programs, moment: str, *shown: Path) -> Iterator[HalfMade]:
    """Start a run that may read some places, and wait until the making of its cell has stopped."""
    env = {**os.environ, "LILUX_PROC_STOP_AT": moment}
    with TemporaryDirectory() as directory:
        program = Path(shutil.copy(programs.switched, Path(directory).resolve() / "lilux-proc"))
        shutil.copy("/bin/sleep", directory)
        with Client.start(program, env=env) as client:
            read = [str(place) for place in (program.parent, *shown)]
            policy = {"tier": "cell", "require": "cell", "read": read}
            run = client.start_run(str(program.parent / "sleep"), "600", policy=policy, cwd="/")
            serve = client.status()["pid"]
            deadline = time.monotonic() + PATIENCE_S
            while not (stopped := _stopped_below(serve)):
                assert time.monotonic() < deadline, f"nothing stopped at {moment}"
            (keeper,) = [each for each in children_of(serve) if set(family_of(each)) & set(stopped)]
            cell = [pid for pid in family_of(keeper) if pid != keeper]
            cast = {"warden": client.process.pid, "serve": serve, "keeper": keeper}
            try:
                yield HalfMade(client, run, cast, cell, program)
            finally:
                for pid in cell:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def _stopped_below(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):  # who has ended meanwhile has not stopped
        return [each for each in family_of(pid) if state_of(each) == "T"]
    return []


@pytest.mark.parametrize("names", KILLED, ids="+".join)
@pytest.mark.parametrize("moment", MOMENTS)
def test_nobody_is_left_of_a_cell_that_was_never_finished(
    programs: Programs, moment: str, names: tuple[str, ...]
) -> None:
    """What goes on when everybody above is dead finishes the cell, and it ends as every other does."""
    with half_made(programs, moment) as half, watched([half.cast[name] for name in names]) as killed:
        with watched(half.cell) as begun:
            half.kill(*names)
            deadline = time.monotonic() + PATIENCE_S
            assert begun.left_at(deadline) == []
        assert killed.left_at(deadline) == []
        while half.inside():
            assert time.monotonic() < deadline


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_whose_keeper_dies_while_it_makes_the_cell_is_lost_and_the_next_one_runs(
    programs: Programs, moment: str
) -> None:
    with half_made(programs, moment) as half, watched(half.cell) as begun:
        os.kill(half.cast["keeper"], signal.SIGKILL)
        assert half.client.end_of(half.run).error == "keeper_lost"
        assert begun.left_at(time.monotonic() + PATIENCE_S) == []
        assert half.client.shell("exit 3").result["return_code"] == 3


@pytest.mark.parametrize("moment", ["ProcessOne", "Tool"])
def test_an_unfinished_cell_shows_its_processes(programs: Programs, moment: str) -> None:
    """What the tests above look at is there as long as nobody is killed."""
    with half_made(programs, moment) as half:
        assert len(half.inside()) >= 1


EXCHANGES: dict[str, Callable[[Path, Path], object]] = {
    "gone": lambda place, secret: None,
    "a link to something else": lambda place, secret: place.symlink_to(secret),
    "another directory": lambda place, secret: place.mkdir(),
    "what somebody else keeps": lambda place, secret: secret.rename(place),
}
"""What is in a place after what was there has been moved away."""


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_place_that_is_exchanged_while_the_cell_is_made_is_not_shown(
    programs: Programs, tmp_path: Path, exchange: str
) -> None:
    """It was judged before, and what has its name now is something else: the run does not start."""
    place, secret = tmp_path.resolve() / "place", tmp_path.resolve() / "secret"
    place.mkdir()
    secret.mkdir()
    with half_made(programs, "Root", place) as half:
        place.rename(tmp_path / "moved")
        EXCHANGES[exchange](place, secret)
        half.kill()
        ended = half.client.end_of(half.run)
        assert str(place) in ended.result["error"]["message"]
        assert half.inside() == []
        assert half.client.shell("exit 3").result["return_code"] == 3


def test_a_place_that_stays_is_shown_although_the_making_was_interrupted(
    programs: Programs, tmp_path: Path
) -> None:
    """So the refusals above are of what was exchanged."""
    with half_made(programs, "Root", tmp_path.resolve()) as half:
        half.kill()
        while not half.inside():
            assert state_of(half.cast["keeper"]) != "Z"
        half.client.send("kill", id=half.run)
