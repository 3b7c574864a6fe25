"""What it costs when processes of the supervisor itself are killed or stopped, and where protection ends."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.containment.client import Client, StreamEndedError
from tests.containment.endings import LIMIT_S, PATIENCE_S, punctually
from tests.containment.processes import children_of, family_of, parent_of, state_of, watched
from tests.containment.scene import Programs, play

GOODBYE_S = 6.0
"""How long a keeper may take to end a run before it is killed itself."""

TIMEOUT_GRACE_S = 2.0
LOST_TIMEOUT_MS = 500
SLACK_S = 3.0


def test_a_killed_keeper_costs_its_own_run_and_no_other(binary: Path, rounds: int) -> None:
    with Client.start(binary) as client:
        for _ in range(rounds):
            lost, other = (client.start_run("cat", stdin="pipe", notify=True) for _ in range(2))
            tools = [client.wait_for(run, "started").header["pid"] for run in (lost, other)]
            os.kill(parent_of(tools[0]), signal.SIGKILL)
            assert client.end_of(lost).error == "keeper_lost"
            client.send("input", b"still there", id=other, eof=True)
            assert client.end_of(other).stdout == b"still there"
            assert client.run("echo", "later").stdout == b"later\n"


def test_a_keeper_that_does_not_answer_is_given_up(programs: Programs) -> None:
    with play(programs, "daemonize") as scene:
        assert scene.client is not None
        scene.signal("keeper", signal.SIGSTOP)
        since = time.monotonic()
        scene.client.send("cancel", id=scene.run, grace_ms=1)
        assert scene.client.end_of(scene.run).error == "keeper_lost"
        assert time.monotonic() - since < GOODBYE_S + SLACK_S
        assert scene.leash.gone_at(time.monotonic() + LIMIT_S) is not None
        assert scene.client.run("echo", "later").stdout == b"later\n"


def test_an_idle_keeper_that_was_killed_is_replaced(binary: Path, rounds: int) -> None:
    with Client.start(binary) as client:
        for _ in range(rounds):
            assert client.run("true").result["return_code"] == 0
            for keeper in children_of(client.status()["pid"]):
                os.kill(keeper, signal.SIGKILL)
            # The run may be given to one that is just dying, and then it says so.
            ended = client.run("true")
            assert ended.last.event == "closed" or ended.error == "keeper_lost"
            assert client.run("true").result["return_code"] == 0


def test_a_run_is_not_lost_with_a_keeper_that_was_killed_before_it_was_asked(
    binary: Path, rounds: int
) -> None:
    with Client.start(binary) as client:
        for _ in range(rounds):
            client.run("true")
            serve = client.status()["pid"]
            idle = children_of(serve)
            os.kill(serve, signal.SIGSTOP)
            wait_for_state(serve, "T")
            run = client.start_run(
                "true"
            )  # serve finds this first when it goes on, and then that they are dead
            for keeper in idle:
                os.kill(keeper, signal.SIGKILL)
                wait_for_state(keeper, "Z")
            os.kill(serve, signal.SIGCONT)
            assert client.end_of(run).result["return_code"] == 0


def wait_for_state(pid: int, state: str) -> None:
    deadline = time.monotonic() + SLACK_S
    while state_of(pid) != state:
        assert time.monotonic() < deadline


def test_a_keeper_that_does_not_end_a_run_when_its_time_is_over_is_given_up(programs: Programs) -> None:
    with play(programs, "daemonize", timeout_ms=LOST_TIMEOUT_MS) as scene:
        assert scene.client is not None
        since = time.monotonic()
        scene.signal("keeper", signal.SIGSTOP)
        assert scene.client.end_of(scene.run).error == "keeper_lost"
        most = LOST_TIMEOUT_MS / 1000 + TIMEOUT_GRACE_S + GOODBYE_S
        assert time.monotonic() - since < most + SLACK_S
        assert scene.leash.gone_at(time.monotonic() + LIMIT_S) is not None


@pytest.mark.parametrize("victim", ["warden", "serve", "client"])
def test_the_whole_supervisor_goes_when_part_of_it_is_killed(victim: str, binary: Path, rounds: int) -> None:
    for _ in range(rounds):
        punctually(lambda: kill_part(binary, victim))


def kill_part(binary: Path, victim: str) -> list[str]:
    """With keepers that are idle and keepers that are busy; who was late."""
    with Client.start(binary) as client:
        for run in [client.start_run("true") for _ in range(4)]:
            client.end_of(run)
        for run in [client.start_run("sleep", "100", notify=True) for _ in range(3)]:
            client.wait_for(run, "started")
        status = client.status()
        with watched(family_of(status["warden"])) as watch:
            deadline = time.monotonic() + LIMIT_S
            if victim == "client":
                client.socket.shutdown(socket.SHUT_RDWR)
            else:
                os.kill(status["warden" if victim == "warden" else "pid"], signal.SIGKILL)
            late = watch.left_at(deadline)
            assert watch.left_at(deadline + PATIENCE_S) == []
            return [str(pid) for pid in late]


def test_a_client_hears_the_end_of_a_supervisor_that_was_killed(binary: Path) -> None:
    with Client.start(binary) as client:
        run = client.start_run("sleep", "100")
        os.kill(client.status()["pid"], signal.SIGKILL)
        with pytest.raises(StreamEndedError):
            client.end_of(run)


def test_only_killing_all_three_at_once_escapes(programs: Programs) -> None:
    """Where protection ends: a process of the same user can do that, unless it has PIDs of its own."""
    with play(programs, "daemonize") as scene:
        scene.kill("warden", "serve", "keeper")
        assert scene.leash.gone_at(time.monotonic() + LIMIT_S) is None
