"""A door in front of an attacker: each guard holds, and without it the attack succeeds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import Client, Ended
from tests.containment.nobody import Nobody, as_root
from tests.containment.processes import children_of, is_gone_by
from tests.containment.scene import ROOT, SWITCH
from tests.door_world import Door, enter_namespaces

HOST = "api.test"
PYTHON = shutil.which("python3", path="/usr/bin") or sys.executable
ENDS_S = 10.0
CLIENT = """
import socket, struct, sys, time
name, port = sys.argv[1], int(sys.argv[2])
labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\\0"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.settimeout(10)
    asker.connect(("127.0.0.1", 53))
    asker.send(struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + struct.pack(">HH", 1, 1))
    said = asker.recv(512)
if said[3] & 15:
    sys.exit("no such name")
with socket.create_connection((socket.inet_ntoa(said[-4:]), port), timeout=10) as connection:
    print(connection.recv(16).decode(), flush=True)
    while len(sys.argv) > 3 and connection.recv(16):
        pass
"""
"""Asks the server of names itself: the C library has its own idea of `localhost`."""


def namespaces() -> bool:
    try:
        return subprocess.run(["true"], preexec_fn=enter_namespaces).returncode == 0
    except subprocess.SubprocessError:
        return False


pytestmark = pytest.mark.skipif(not namespaces(), reason="this machine allows no user namespaces")


@contextmanager
def secret_server() -> Iterator[int]:
    """A server of this machine that no tool is meant to reach."""
    listener = socket.create_server(("127.0.0.1", 0))

    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                held.append(listener.accept()[0])
            except OSError:
                return  # shut down: the test is over
            held[-1].sendall(b"reached")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in [*held, listener]:
            each.close()


ATTACKS: dict[str, tuple[str, Callable[[int], list[str]], str]] = {
    "a name that leads to this machine": ("door-addresses", lambda port: [f"localhost:{port}"], "localhost"),
    "a name that is not allowed": ("door-names", lambda port: [f"{HOST}:{port}"], "localhost"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_allowed_is_reached_only_without_its_guard(
    binary: Path, switched: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, hosts, name = ATTACKS[attack]
    with secret_server() as port:
        assert "reached" not in _attempt(binary, "", hosts(port), name, port)
        assert "reached" not in _attempt(switched, "", hosts(port), name, port)
        off = guard if guard == "door-addresses" else f"{guard},door-addresses"
        assert "reached" in _attempt(switched, off, hosts(port), name, port)


def _attempt(program: Path, off: str, hosts: list[str], name: str, port: int) -> str:
    with Door.start(program, env={SWITCH: off}) as door:
        run = door.open(hosts)
        done = run.execute(PYTHON, "-c", CLIENT, name, str(port))
        run.finish()
    return done.stdout + done.stderr


PUBLIC, METADATA, LOOPBACK = "93.184.215.14", "169.254.169.254", "127.0.0.1"
REBINDING = [
    ([PUBLIC], {"reached": PUBLIC, "failed": {}}),
    ([LOOPBACK], {"reached": "", "failed": {"loopback": 1}}),
    ([METADATA], {"reached": "", "failed": {"link-local": 1}}),
    ([PUBLIC, LOOPBACK], {"reached": "", "failed": {"loopback": 1}}),
    ([PUBLIC], {"reached": PUBLIC, "failed": {}}),
    ([LOOPBACK], {"reached": "", "failed": {"loopback": 1}}),
]
"""What the name server answers, one after the other, and where a connection gets: to what was checked."""


def test_a_name_that_changes_its_address_leads_to_the_one_that_was_checked(binary: Path) -> None:
    answers = json.dumps([answer for answer, _ in REBINDING])
    command = [sys.executable, "-m", "tests.containment.rebinding", str(binary), answers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [became for _, became in REBINDING], (
        done
    )


# --- with a supervisor ----------------------------------------------------------


def policy(port: int) -> dict[str, Any]:
    hosts = {"hosts": [f"{HOST}:{port}"], "pinned": {HOST: ["127.0.0.1"]}}
    return {"tier": "cell", "require": "cell", "net": hosts}


@pytest.fixture
def in_cells(client: Client) -> Client:
    """A supervisor of a machine that makes cells."""
    probe = client.run("/bin/true", policy={"tier": "cell", "require": "cell"})
    if probe.result["kind"] == "spawn_failed":
        pytest.skip(f"this machine makes no cells: {probe.result['error']['message']}")
    return client


def door_of(client: Client) -> int:
    """The door is the child of the supervisor that has this name."""
    (found,) = [pid for pid in children_of(client.status()["pid"]) if name_of(pid) == "lilux-door"]
    return found


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def connect(client: Client, port: int, *more: str) -> int:
    return client.start_run(
        PYTHON, "-c", CLIENT, HOST, port, *more, policy=policy(port), stream={"credit": 99}
    )


def said(ended: Ended) -> str:
    return (ended.streams["stdout"] + ended.streams["stderr"]).decode()


def test_a_run_reaches_its_host_and_its_result_says_so(in_cells: Client) -> None:
    with secret_server() as port:
        ended = in_cells.end_of(connect(in_cells, port))
    assert "reached" in said(ended)
    result = ended.result
    assert result["enforced"]["net"] == {"hosts": [f"{HOST}:{port}"]}
    (host,) = result["network"]["hosts"]
    assert (host["host"], host["connections"], host["received"]) == (HOST, 1, len("reached"))


def test_there_is_one_door_and_only_when_a_run_needs_it(in_cells: Client) -> None:
    names = [name_of(pid) for pid in children_of(in_cells.status()["pid"])]
    assert "lilux-door" not in names
    with secret_server() as port:
        runs = [connect(in_cells, port) for _ in range(3)]
        assert all("reached" in said(in_cells.end_of(run)) for run in runs)
    first = door_of(in_cells)
    assert Path(f"/proc/{first}/cmdline").read_bytes() == b"lilux-proc\0door\0"


def test_a_door_that_was_killed_is_replaced(in_cells: Client) -> None:
    with secret_server() as port:
        held = connect(in_cells, port, "hold")
        in_cells.wait_for(held, "output")
        first = door_of(in_cells)
        os.kill(first, signal.SIGKILL)
        lost = in_cells.end_of(held)
        assert "network" not in lost.result
        assert lost.result["enforced"]["net"] == "none"
        assert is_gone_by(first, time.monotonic() + ENDS_S)
        assert "reached" in said(in_cells.end_of(connect(in_cells, port)))
        assert door_of(in_cells) != first


def test_a_door_that_does_not_answer_is_given_up(in_cells: Client) -> None:
    with secret_server() as port:
        held = connect(in_cells, port, "hold")
        in_cells.wait_for(held, "output")
        first = door_of(in_cells)
        os.kill(first, signal.SIGSTOP)
        in_cells.send("cancel", id=held, grace_ms=0)
        ended = in_cells.end_of(held)
        assert ended.result["enforced"]["net"] == "none"
        assert is_gone_by(first, time.monotonic() + ENDS_S)
        assert "reached" in said(in_cells.end_of(connect(in_cells, port)))


@pytest.mark.parametrize("tier", ["cell", "walls"])
def test_a_run_that_comes_to_no_host_does_not_need_the_door(in_cells: Client, tier: str) -> None:
    """A door that stands still answers nobody, and nobody waits for it."""
    with secret_server() as port:
        in_cells.end_of(connect(in_cells, port))
        door = door_of(in_cells)
        os.kill(door, signal.SIGSTOP)
        ended = in_cells.run("/bin/true", policy={**policy(port), "tier": tier, "require": tier})
        os.kill(door, signal.SIGCONT)
        if tier == "walls" and ended.result["kind"] == "spawn_failed":
            pytest.skip("hosts are not told apart in walls here")
        assert ended.result["enforced"]["net"] == {"hosts": [f"{HOST}:{port}"]}
        assert ended.result["network"] == {
            "served": True,
            "ports": [port],
            "hosts": [],
            "refused": [],
            "refused_beyond": 0,
            "strays": 0,
        }
        assert "reached" in said(in_cells.end_of(connect(in_cells, port)))
        assert door_of(in_cells) == door


LAST_WORDS = r"""
import socket
question = b"\0\1\1\0\0\1\0\0\0\0\0\0\5other\4test\0\0\1\0\1"
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(question, ("127.0.0.1", 53))
"""


def test_what_a_run_asked_just_before_its_end_is_reported(in_cells: Client) -> None:
    with secret_server() as port:
        for _ in range(3):
            ended = in_cells.run(PYTHON, "-c", LAST_WORDS, policy=policy(port))
            assert ended.result["network"]["refused"] == [["other.test", 1]], ended.result


def test_an_address_that_nobody_has_given_out_is_a_stray(in_cells: Client) -> None:
    program = "import socket, sys; print(socket.create_connection(('198.18.0.9', int(sys.argv[1]))).recv(1))"
    with secret_server() as port:
        ended = in_cells.run(PYTHON, "-c", program, str(port), policy=policy(port))
    assert ended.result["network"]["strays"] == 1, ended.result


def test_one_network_serves_runs_that_follow_each_other_at_once(in_cells: Client) -> None:
    """Nothing of the door is left in it, not even for the moment that the kernel takes to free something."""
    own = {"tier": "cell", "require": "cell", "net": {"hosts": [f"{HOST}:443"]}}
    networks = {in_cells.run("/bin/readlink", "/proc/self/ns/net", policy=own).stdout for _ in range(20)}
    assert len(networks) == 1


def test_a_client_cannot_end_the_door(in_cells: Client) -> None:
    with secret_server() as port:
        in_cells.end_of(connect(in_cells, port))
    refused = in_cells.ask("kill", pid=door_of(in_cells))
    assert (refused.event, refused.header["code"]) == ("error", "not_permitted")


@pytest.mark.parametrize("victims", [("serve",), ("serve", "warden"), ("warden",)], ids=" and ".join)
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_door_does_not_outlive_its_supervisor(
    in_cells: Client, victims: tuple[str, ...], stopped: bool
) -> None:
    with secret_server() as port:
        held = connect(in_cells, port, "hold")
        in_cells.wait_for(held, "output")
        status, door = in_cells.status(), door_of(in_cells)
        pids = {"serve": status["pid"], "warden": status["warden"]}
        if stopped:
            os.kill(door, signal.SIGSTOP)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for victim in victims:
                os.kill(pids[victim], number)
        assert is_gone_by(door, time.monotonic() + ENDS_S)


def test_many_runs_share_one_door_and_leave_nothing_in_it(in_cells: Client, rounds: int) -> None:
    """The same keepers, and so the same namespaces, are used for runs with hosts and without, in turn."""
    with secret_server() as port:
        in_cells.end_of(connect(in_cells, port))
        door = door_of(in_cells)
        before = len(os.listdir(f"/proc/{door}/fd"))  # noqa: PTH208
        for _ in range(rounds):
            others = [in_cells.start_run("/bin/true", policy={"tier": "cell"}) for _ in range(4)]
            runs = [connect(in_cells, port) for _ in range(16)]
            ends = [in_cells.end_of(run) for run in runs]
            assert all("reached" in said(end) for end in ends), [said(end) for end in ends]
            assert all(end.result["network"]["hosts"][0]["connections"] == 1 for end in ends)
            assert all(in_cells.end_of(run).result["kind"] == "exited" for run in others)
        assert door_of(in_cells) == door
        assert len(os.listdir(f"/proc/{door}/fd")) <= before + 4  # noqa: PTH208 - two empty pipes


@as_root
def test_an_ordinary_user_has_a_door_too(nobody: Nobody) -> None:
    with nobody.client() as client, secret_server() as port:
        probe = client.run("/bin/true", policy={"tier": "cell", "require": "cell"})
        if probe.result["kind"] == "spawn_failed":
            pytest.skip("this machine makes no cells for ordinary users")
        ended = client.end_of(connect(client, port))
        assert "reached" in said(ended)
        assert ended.result["enforced"]["net"] == {"hosts": [f"{HOST}:{port}"]}


def test_walls_claim_hosts_where_the_door_has_served_them_and_only_there(client: Client) -> None:
    hosts = {"hosts": ["api.test:443"]}
    enforced = client.run("/bin/true", policy={"tier": "walls", "net": hosts}).result["enforced"]
    ended = client.run("/bin/true", policy={"tier": "walls", "require": "walls", "net": hosts})
    if "hosts" in enforced["unenforced"] or enforced["level"] == "none":
        assert (ended.result["kind"], ended.error) == ("spawn_failed", "isolation_unavailable")
    else:
        assert ended.result["enforced"]["net"] == hosts
        assert ended.result["network"]["served"]


def test_a_failed_start_leaves_nothing_in_the_namespace(in_cells: Client) -> None:
    with secret_server() as port:
        for _ in range(3):
            failed = in_cells.run("/nonexistent/tool", policy=policy(port))
            assert failed.result["kind"] == "spawn_failed"
            assert "reached" in said(in_cells.end_of(connect(in_cells, port)))
