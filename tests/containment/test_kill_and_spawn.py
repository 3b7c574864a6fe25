"""Processes by number, and processes that are meant to outlive whoever started them."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import Client
from tests.containment.command_line import CommandLine
from tests.containment.leash import leash
from tests.containment.nobody import Nobody, as_root
from tests.containment.processes import is_gone_by, state_of, watched

STUBBORN = 'trap "" TERM; echo "$$"; while :; do sleep 100; done'
POLITE = 'echo "$$"; while :; do sleep 100; done'
STOPPED = (
    """sh -c 'until grep -q "^State:.T" /proc/$PPID/status; do :; done; echo "$PPID"' & """
    "kill -STOP $$; sleep 100"
)
"""Says its number, or a child for it, once it is stopped."""

FAMILY = f"sh -c '{STUBBORN}' & {POLITE}"
SLACK_S = 3.0


class Asked:
    """`kill` and `status` of a pid, at either face: the same word for the same answer."""

    def __init__(self, face: Client | CommandLine) -> None:
        self._face = face

    def kill(self, pid: int, grace_s: float = 3.0) -> str:
        """The method, or the code of the error."""
        if isinstance(self._face, Client):
            said = self._face.ask("kill", pid=pid, grace_ms=int(grace_s * 1000)).header
        else:
            said = self._face.call("kill", "--pid", pid, "--grace", grace_s).json
            assert said["success"] == (said["error"] is None)
        return _word(said, "method")

    def status(self, pid: int) -> str:
        """`True` or `False` for alive or not, or the code of the error."""
        if isinstance(self._face, Client):
            return _word(self._face.ask("status", pid=pid).header, "alive")
        return _word(self._face.call("status", "--pid", pid).json, "alive")


def _word(said: dict[str, Any], name: str) -> str:
    error = said.get("error") or said
    return str(error.get("code", said.get(name)))


@pytest.fixture(params=["serve", "command line"])
def asked(request: pytest.FixtureRequest) -> Asked:
    face = "client" if request.param == "serve" else "command_line"
    return Asked(request.getfixturevalue(face))


@contextmanager
def process(script: str, *, own_session: bool = True) -> Iterator[list[int]]:
    """A group of processes that is no child of a supervisor: its leader first; it ends with the block."""
    shell = ["/bin/sh", "-c", script]
    group = None if own_session else 0
    pipe = subprocess.PIPE
    with subprocess.Popen(shell, stdout=pipe, start_new_session=own_session, process_group=group) as leader:
        assert leader.stdout is not None
        try:
            said = {int(leader.stdout.readline()) for _ in range(script.count("echo"))}
            yield [leader.pid, *(said - {leader.pid})]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(leader.pid, signal.SIGKILL)


@pytest.mark.parametrize("pid", [0, -1, -4711, 2**31, 2**63 - 1, -(2**63)])
def test_a_number_that_is_no_process_is_refused(pid: int, asked: Asked) -> None:
    assert asked.kill(pid) == asked.status(pid) == "invalid_pid"


@pytest.mark.parametrize("pid", [2**63, 10**30, 1.5, "1", True])
def test_what_is_no_number_is_an_invalid_request(pid: Any, client: Client) -> None:
    for op in ("kill", "status"):
        assert client.ask(op, pid=pid).header["code"] == "invalid_request"


def test_a_process_that_is_not_there_is_dead_already(asked: Asked) -> None:
    with process(POLITE) as (pid, *_):
        pass
    assert (asked.status(pid), asked.kill(pid)) == ("False", "already_dead")


def test_a_zombie_is_dead_already(asked: Asked) -> None:
    with subprocess.Popen(["/bin/true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert (asked.status(zombie.pid), asked.kill(zombie.pid)) == ("False", "already_dead")


def test_a_process_whose_first_thread_has_ended_is_alive(asked: Asked) -> None:
    """/proc shows it as a zombie."""
    script = (
        "import ctypes, threading, sys\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print(1, flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as headless:
        assert headless.stdout is not None
        headless.stdout.readline()
        deadline = time.monotonic() + SLACK_S
        while state_of(headless.pid) != "Z":
            assert time.monotonic() < deadline, "its first thread goes on"
        assert (asked.status(headless.pid), asked.kill(headless.pid)) == ("True", "terminated")
        assert headless.wait() == -signal.SIGTERM


@as_root
def test_a_process_that_proc_does_not_show_is_alive(binary: Path) -> None:
    hidden = 'umount -l /proc; sleep 100 & for ask in status kill status; do "$0" $ask --pid $!; done'
    command = ["unshare", "-m", "/bin/sh", "-c", hidden, str(binary)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=30).stdout.splitlines()
    before, killed, after = map(json.loads, lines)
    assert (before["alive"], killed["method"], after["alive"]) == (True, "terminated", False)


@as_root
def test_a_process_of_another_user_is_alive_and_not_ours(nobody: Nobody) -> None:
    with process(POLITE) as (pid, *_), nobody.client() as client:
        for asked in (Asked(client), Asked(nobody.command_line)):
            assert (asked.status(pid), asked.kill(pid)) == ("True", "not_permitted")
            assert asked.status(pid) == "True"


def test_the_first_process_of_the_system_is_left_alone(asked: Asked) -> None:
    assert (asked.status(1), asked.kill(1)) == ("True", "not_permitted")


@pytest.mark.parametrize(
    ("script", "method"),
    [(POLITE, "terminated"), (STUBBORN, "killed"), ('echo "$$"; kill -STOP $$; sleep 100', "terminated")],
)
def test_a_process_is_asked_first_and_killed_after_the_grace(script: str, method: str, asked: Asked) -> None:
    grace = 0.2 if method == "killed" else 20
    with process(script) as (pid, *_):
        since = time.monotonic()
        assert asked.kill(pid, grace) == method
        assert time.monotonic() - since < 0.2 + SLACK_S
        assert asked.status(pid) == "False"


@pytest.mark.parametrize("own_session", [True, False])
def test_with_the_leader_of_a_session_or_group_goes_all_of_its_group(own_session: bool, asked: Asked) -> None:
    with process(FAMILY, own_session=own_session) as pids, watched(pids) as watch:
        assert len(pids) == 2
        assert asked.kill(pids[0], 0.2) == "killed"
        assert watch.left_at(time.monotonic()) == []


def test_a_process_that_leads_no_group_is_killed_alone(asked: Asked) -> None:
    with process(FAMILY) as (leader, child):
        assert asked.kill(child, 0.2) == "killed"
        assert (asked.status(child), asked.status(leader)) == ("False", "True")


def test_killing_a_stranger_holds_up_nobody_else(client: Client) -> None:
    with process(STUBBORN) as (pid, *_):
        asked = client.send("kill", pid=pid, grace_ms=1000)
        assert client.run("echo", "meanwhile").stdout == b"meanwhile\n"
        assert client.ask("status", pid=pid).header["alive"] is True
        assert client.next_for(asked).header["method"] == "killed"


def test_a_thread_is_not_a_process(asked: Asked) -> None:
    script = "import threading, sys; threading.Thread(target=sys.stdin.read).start(); print(1, flush=True)"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as threaded:
        assert threaded.stdout is not None
        threaded.stdout.readline()
        numbers = [int(task.name) for task in Path(f"/proc/{threaded.pid}/task").iterdir()]
        (thread,) = [number for number in numbers if number != threaded.pid]
        assert asked.kill(thread) == "invalid_pid"
        assert threaded.poll() is None
        threaded.kill()


# --- runs by their id -----------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "method"), [(POLITE, "terminated"), (STUBBORN, "killed"), (STOPPED, "terminated")]
)
def test_a_run_is_killed_by_its_id_and_says_so_itself(script: str, method: str, client: Client) -> None:
    run = client.start_run("/bin/sh", "-c", script, stream={"credit": 100})
    client.wait_for(run, "output")
    grace = 200 if method == "killed" else 20_000
    asked = [client.send("kill", run=run, grace_ms=grace) for _ in range(3)]
    first, *others = (client.next_for(one).header["method"] for one in asked)
    assert first == method
    assert set(others) <= {method, "already_dead"}  # the run may be over before they arrive
    result = client.end_of(run).result
    assert (result["kind"], result["signal"]) == ("cancelled", 15 if method == "terminated" else 9)
    assert result["duration_ms"] < 1000 * SLACK_S


def test_a_run_that_is_over_or_never_was_is_dead_already(client: Client) -> None:
    run = client.start_run("true")
    client.end_of(run)
    for number in (run, 4711):
        assert client.ask("kill", run=number).header["method"] == "already_dead"
        assert client.ask("status", run=number).header["state"] == "unknown"


def test_killing_a_run_that_could_not_be_started_is_answered(client: Client) -> None:
    run = client.start_run("/no/such/program")
    asked = client.send("kill", run=run)
    assert client.end_of(run).error == "command_not_found"
    assert client.next_for(asked).header["method"] == "already_dead"


def test_the_state_of_a_run_is_told(client: Client) -> None:
    run = client.start_run("/bin/sh", "-c", "sleep 100 & exit 0", notify=True)
    assert client.ask("status", run=run).header["state"] == "running"
    client.wait_for(run, "exited")
    assert client.ask("status", run=run).header["state"] == "draining"


# --- spawn ----------------------------------------------------------------------


def test_a_spawned_process_outlives_its_caller(binary: Path, misbehave: Path) -> None:
    with leash() as held:
        program, *arguments = held.command(misbehave, "refuse")
        spawn = [str(binary), "spawn", "--cmd", program, *(f"--arg={argument}" for argument in arguments)]
        with subprocess.Popen(
            ["/bin/sh", "-c", '"$@"; kill -9 $$', "sh", *spawn], start_new_session=True
        ) as asker:
            pid = held.wait_until_away()
            assert asker.wait() == -signal.SIGKILL
        stat_of = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert (int(stat_of[2]), int(stat_of[3])) == (pid, pid)
        assert held.is_held


def test_python_may_be_killed_and_what_it_spawned_lives_on(misbehave: Path) -> None:
    with leash() as held:
        command = [sys.executable, "-m", "tests.containment.primitive_host", "spawn"]
        with subprocess.Popen([*command, *held.command(misbehave, "refuse")]) as host:
            held.wait_until_away()
            host.kill()
        assert held.gone_at(time.monotonic() + 0.5) is None


def test_what_a_spawned_process_says_is_appended_to_a_file_that_is_its_owners(
    command_line: CommandLine, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for text in ("one", "two"):
        script = f"echo {text}; echo err >&2; cat"
        answer = command_line.call("spawn", "--cmd", "sh", "--arg=-c", f"--arg={script}", "--log", log).json
        assert answer["success"]
        assert is_gone_by(answer["pid"], time.monotonic() + SLACK_S)
    assert log.read_text() == "one\nerr\ntwo\nerr\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_that_nobody_reads_is_refused_and_not_waited_for(
    command_line: CommandLine, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    answer = command_line.call("spawn", "--cmd", "true", "--log", fifo).json
    assert (answer["success"], answer["error"]["code"]) == (False, "log_failed")
    with fifo_reader(fifo) as reader:
        assert command_line.call("spawn", "--cmd", "echo", "--arg=said", "--log", fifo).json["success"]
        assert select.select([reader], [], [], SLACK_S)[0]
        assert os.read(reader, 100) == b"said\n"


@contextmanager
def fifo_reader(path: Path) -> Iterator[int]:
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"command": "no-such-program"}, "command_not_found"),
        ({"command": "true", "cwd": "/nowhere"}, "cwd_not_found"),
        ({"command": "true", "log": "/nowhere/log"}, "log_failed"),
        ({"command": "true", "args": ["a\0b"]}, "nul_byte"),
    ],
)
def test_what_cannot_be_spawned_says_why(
    fields: dict[str, Any], code: str, command_line: CommandLine
) -> None:
    answer = command_line.request("spawn", **fields)
    assert (answer["success"], answer["pid"], answer["error"]["code"]) == (False, None, code)
