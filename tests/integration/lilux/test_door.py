"""Programs in a network namespace of their own reach the hosts that they may, by name, and nothing else.

Each test makes the namespace as a cell does, as this user and as an ordinary one. The hosts are servers of
this machine, which only a pinned name reaches.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.door_world import Door, Run, enter_namespaces, greet, server

NOBODY = 65534
BINARY = Path(sysconfig.get_path("scripts"), "lilux-proc")
HOST = "api.test"
HERE = {HOST: ["127.0.0.1"]}
SYSTEM_PYTHON = Path("/usr/bin/python3")
LIMIT_S = 20
MAX_CONNECTIONS = 256
"""Of one run, in the door."""


def _namespaces() -> bool:
    try:
        return subprocess.run(["true"], preexec_fn=enter_namespaces).returncode == 0
    except subprocess.SubprocessError:
        return False


pytestmark = pytest.mark.skipif(not _namespaces(), reason="this machine allows no user namespaces")


@pytest.fixture(scope="module", params=["me", "nobody"])
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    binary, uid = BINARY, None
    if request.param == "nobody":
        if os.getuid() != 0:
            pytest.skip("only root becomes another user")
        uid = NOBODY
        directory = Path("/tmp") / f"door-{os.getpid()}"
        directory.mkdir(mode=0o755)
        binary = Path(shutil.copy(binary, directory))
    with Door.start(binary, uid=uid) as started:
        yield started
    if uid is not None:
        shutil.rmtree(binary.parent)


def hold(connection: socket.socket) -> None:
    connection.sendall(b"hi")
    connection.recv(1)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)
    connection.sendall(b"the end")


def python(run: Run, program: str, *arguments: str) -> str:
    """What a Python program prints in the run's namespace."""
    interpreter = SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else Path(sys.executable)
    done = run.execute(str(interpreter), "-c", program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def report_of(run: Run) -> dict[str, Any]:
    report = run.finish()
    assert report is not None
    return report


PROGRAMS = {
    "curl": ["curl", "-sS", "URL"],
    "python3": [
        "python3",
        "-c",
        "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())",
        "URL",
    ],
    "node": ["node", "-e", "fetch(process.argv[1]).then(r => r.text()).then(console.log)", "URL"],
    "wget": ["wget", "-qO-", "URL"],
}


@pytest.mark.first_case
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_reach_an_allowed_host_by_its_name(door: Door, program: str) -> None:
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed")
    with server(greet) as port:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        url = f"http://{HOST}:{port}/"
        done = run.execute(*(url if word == "URL" else word for word in PROGRAMS[program]))
        report = report_of(run)
    assert (done.stdout.strip(), done.returncode) == ("hello", 0), done.stderr
    assert (report["served"], report["ports"], report["refused"]) == (True, [port], [])
    (host,) = report["hosts"]
    assert (host["host"], host["port"], host["connections"]) == (HOST, port, 1)
    assert host["sent"] > 0
    assert host["received"] > len("hello")


def test_other_names_do_not_exist_and_are_reported(door: Door) -> None:
    program = """
import socket, sys
for name in sys.argv[1:]:
    try:
        print(socket.getaddrinfo(name, 443, socket.AF_INET))
    except socket.gaierror as error:
        print(error.errno == socket.EAI_NONAME)
"""
    run = door.open([f"{HOST}:443", "*.wide.test:443"], pinned=HERE)
    names = ["evil.test", "sub.api.test", "api.test.evil.test", "wide.test", "evil.test"]
    assert python(run, program, *names).split() == ["True"] * 5
    report = report_of(run)
    assert dict(report["refused"]) == dict.fromkeys(names, 1) | {"evil.test": 2}
    assert report["hosts"] == []


def test_a_star_allows_names_below_it(door: Door) -> None:
    program = "import socket, sys; print(*map(socket.gethostbyname, sys.argv[1:]))"
    run = door.open(["*.wide.test:443"])
    first, second, third = python(run, program, "a.wide.test", "b.a.wide.test", "A.WIDE.TEST.").split()
    assert first == third != second
    assert {address.rpartition(".")[0].partition(".")[0] for address in (first, second)} == {"198"}
    assert report_of(run)["refused"] == []


CONNECT = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=15) as connection:
            print(connection.recv(100) or "closed")
    except OSError as error:
        print(type(error).__name__, error.errno)
"""


def test_literal_addresses_lead_nowhere(door: Door) -> None:
    with server(lambda connection: connection.sendall(b"reached")) as port, server(greet) as other:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        outside = ["1.1.1.1:443", "10.0.0.1:53", f"127.0.0.1:{other}", f"198.18.7.7:{other}"]
        printed = python(run, CONNECT, f"127.0.0.1:{port}", f"198.19.200.7:{port}", *outside)
        report = report_of(run)
    lines = printed.splitlines()
    # Both reach a listener of the door, which knows of no name: how far a reset has got is a matter of time.
    assert {line.split()[0] for line in lines[:2]} <= {"ConnectionResetError", "ConnectionRefusedError"}
    assert [line.split()[0] for line in lines[2:]] == ["OSError", "OSError", *["ConnectionRefusedError"] * 2]
    assert (report["strays"], report["hosts"]) == (2, [])


ASK = r"""
import socket, struct, sys
def ask(name, kind, tail=b"", count=0):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\0"
    packet = struct.pack(">HHHHHH", 4711, 0x100, 1, 0, 0, count) + labels + struct.pack(">HH", kind, 1) + tail
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(2)
        asker.connect(("127.0.0.1", 53))
        for _ in range(5):  # as every resolver does: the queue of the server may be full
            asker.send(packet)
            try:
                said = asker.recv(4096)
                break
            except TimeoutError:
                pass
    id, flags, _, answers = struct.unpack_from(">HHHH", said)
    assert id == 4711 and said[12:12 + len(labels)] == labels
    return flags & 15, socket.inet_ntoa(said[-4:]) if answers else None
"""


def test_a_name_that_is_this_machine_is_refused(door: Door) -> None:
    program = ASK + "\ncode, address = ask('localhost', 1)\nsys.argv = ['', f'{address}:{sys.argv[1]}']\n"
    with server(lambda connection: connection.sendall(b"reached")) as port:
        run = door.open([f"localhost:{port}"])
        printed = python(run, program + CONNECT, str(port))
        report = report_of(run)
    assert printed.startswith("Connection")
    assert report["hosts"][0]["failed"] == {"loopback": 1}


def test_resolvers_of_every_kind_are_answered(door: Door) -> None:
    program = (
        ASK
        + """
edns = b"\\0" + struct.pack(">HHIH", 41, 1232, 0, 0)
print(ask("api.test", 1)[1] == ask("aPI.tEST", 1)[1] == ask("api.test", 1, edns, 1)[1])
print(*(ask("api.test", kind) for kind in (28, 65, 16, 33)))
print(*(ask("evil.test", kind)[0] for kind in (1, 28, 65)), ask("1.0.18.198.in-addr.arpa", 12)[0])
"""
    )
    run = door.open([f"{HOST}:443"])
    assert python(run, program).splitlines() == ["True", " ".join(["(0, None)"] * 4), "3 3 3 3"]
    assert report_of(run)["refused"] == [["evil.test", 3]]


def test_invalid_packets_stop_nothing(door: Door) -> None:
    noise = random.Random(18)  # noqa: S311 - the same noise in every run
    packets = [noise.randbytes(noise.randrange(0, 1400)).hex() or "-" for _ in range(200)]
    program = (
        ASK
        + """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    for packet in sys.argv[1:]:
        asker.sendto(bytes.fromhex(packet.strip("-")), ("127.0.0.1", 53))
print(ask("api.test", 1)[0])
"""
    )
    run = door.open([f"{HOST}:443"])
    assert python(run, program, *packets) == "0"
    report_of(run)


def test_a_program_may_end_its_half_and_still_hear_the_rest(door: Door) -> None:
    program = """
import hashlib, socket, sys, threading
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def send():
    for number in range(1024):
        connection.sendall(bytes([number % 251]) * 65536)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
digest, last, count = hashlib.sha256(), b"", 0
while data := connection.recv(1 << 20):
    digest.update(data); count += len(data); last = (last + data)[-7:]
print(count, last.decode(), digest.hexdigest())
"""
    with server(echo) as port:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        printed = python(run, program, HOST, str(port))
        report = report_of(run)
    expected = hashlib.sha256()
    for number in range(1024):
        expected.update(bytes([number % 251]) * 65536)
    expected.update(b"the end")
    total = 1024 * 65536
    assert printed == f"{total + 7} the end {expected.hexdigest()}"
    host = report["hosts"][0]
    assert (host["sent"], host["received"], "failed" in host) == (total, total + 7, False)


@pytest.mark.thorough
def test_more_connections_than_a_run_may_have_wait_for_their_turn(door: Door) -> None:
    program = """
import socket, sys
address = (socket.gethostbyname(sys.argv[1]), int(sys.argv[2]))
first = [socket.create_connection(address) for _ in range(256)]
print(sum(connection.recv(2) == b"hi" for connection in first))
late = socket.create_connection(address)
late.settimeout(0.5)
try:
    print(late.recv(2))
except TimeoutError:
    print("waits")
first.pop().close()
late.settimeout(15)
print(late.recv(2))
"""

    with server(hold) as port:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        assert python(run, program, HOST, str(port)).split() == [str(MAX_CONNECTIONS), "waits", "b'hi'"]
        assert report_of(run)["hosts"][0]["connections"] == MAX_CONNECTIONS + 1


def test_the_next_address_is_tried_when_one_refuses(door: Door) -> None:
    with server(greet) as port:
        run = door.open([f"{HOST}:{port}"], pinned={HOST: ["127.0.0.2", "::1", "127.0.0.1"]})
        assert run.execute("curl", "-sS", f"http://{HOST}:{port}/").stdout == "hello"
        assert "failed" not in report_of(run)["hosts"][0]


@pytest.mark.thorough
def test_the_next_address_is_tried_when_one_says_nothing(door: Door) -> None:
    with server(greet) as port, socket.create_server(("127.0.0.2", port), backlog=0):
        # A listener whose queue is full drops what else would connect.
        queue = [socket.socket() for _ in range(2)]
        for full in queue:
            full.setblocking(False)
            full.connect_ex(("127.0.0.2", port))
        run = door.open([f"{HOST}:{port}"], pinned={HOST: ["127.0.0.2", "127.0.0.1"]})
        assert run.execute("curl", "-sS", f"http://{HOST}:{port}/").stdout == "hello"
        report_of(run)
        for full in queue:
            full.close()


def test_a_program_that_breaks_off_is_no_failure_of_its_host(door: Door) -> None:
    program = """
import socket, struct, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(connection.recv(2))
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
connection.close()
"""
    gone = threading.Event()

    def notice(connection: socket.socket) -> None:
        connection.sendall(b"hi")
        try:
            connection.recv(1)
        finally:
            gone.set()

    with server(notice) as port:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        assert python(run, program, HOST, str(port)) == "b'hi'"
        assert gone.wait(LIMIT_S)
        assert "failed" not in report_of(run)["hosts"][0]


def test_a_host_that_breaks_off_is_a_failure(door: Door) -> None:
    program = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
try:
    connection.sendall(b"x")
    print(connection.recv(2))
except ConnectionResetError:
    print("reset")
"""

    def reset(connection: socket.socket) -> None:
        assert connection.recv(1) == b"x"  # so the door has connected
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with server(reset) as port:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        assert python(run, program, HOST, str(port)) == "reset"
        assert report_of(run)["hosts"][0]["failed"] == {"connection lost": 1}


def test_a_host_that_refuses_everywhere_is_a_reset_and_is_reported(door: Door) -> None:
    with server(greet) as port:
        pass  # nobody listens there any more
    run = door.open([f"{HOST}:{port}"], pinned=HERE)
    assert run.execute("curl", "-sS", f"http://{HOST}:{port}/").returncode != 0
    assert report_of(run)["hosts"][0]["failed"] == {"no connection": 1}


def test_nothing_of_the_door_is_left_in_a_namespace_when_its_run_has_ended(door: Door) -> None:
    program = """
import socket, sys
address = (socket.gethostbyname(sys.argv[1]), int(sys.argv[2]))
connection = socket.create_connection(address)
print(connection.recv(2), flush=True)
sys.stdin.read()
for attempt in (lambda: connection.recv(1), lambda: socket.create_connection(address)):
    try:
        print(attempt())
    except ConnectionError as error:
        print(type(error).__name__)
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.connect(("127.0.0.1", 53))
try:
    names.send(b"anybody?")
    names.settimeout(5)
    names.recv(1)
except OSError as error:
    print(type(error).__name__)
"""
    interpreter = SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else Path(sys.executable)
    left = []
    with server(hold) as port:
        for _ in range(2):  # the first time, the door may still be starting
            run = door.open([f"{HOST}:{port}"], pinned=HERE)
            command = (str(interpreter), "-c", program, HOST, str(port))
            with run.started(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "b'hi'\n"
                assert "failed" not in report_of(run)["hosts"][0]
                left.append(_descriptors(door))
                out, _ = process.communicate(timeout=LIMIT_S)
            assert out.split() == ["ConnectionResetError", "ConnectionRefusedError", "ConnectionRefusedError"]
    assert left[1] <= left[0], "only an empty pipe may be kept"


def _descriptors(door: Door) -> int:
    return len(os.listdir(f"/proc/{door.process.pid}/fd"))  # noqa: PTH208


@pytest.mark.parametrize(
    "opening",
    [
        b"",
        b"{",
        b"[]",
        b'{"hosts": ["127.0.0.1:80"]}',
        b'{"hosts": ["*:80"]}',
        b'{"hosts": ["a.test:80"], "any": 1}',
        b'{"hosts": ["a.test:80"], "pinned": {"A.test": []}}',
    ],
)
def test_an_opening_that_makes_no_sense_is_refused(door: Door, opening: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        if opening:
            socket.send_fds(door.control, [opening], [theirs.fileno()])
            theirs.close()
            ours.settimeout(LIMIT_S)
            assert ours.recv(1) == b""
    report_of(door.open(["a.test:80"]))


def test_a_door_that_was_killed_takes_the_network_of_its_runs_with_it() -> None:
    with server(greet) as port, Door.start(BINARY) as door:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        assert run.execute("curl", "-sS", f"http://{HOST}:{port}/").stdout == "hello"
        door.process.send_signal(signal.SIGKILL)
        door.process.wait(timeout=LIMIT_S)
        with pytest.raises((ConnectionError, AssertionError)):
            assert run.finish() is not None


def test_a_door_ends_with_its_supervisor_although_tools_are_connected() -> None:
    program = "import socket, sys, time; c = socket.create_connection((sys.argv[1], int(sys.argv[2]))); " + (
        "print(c.recv(2), flush=True); time.sleep(60)"
    )
    with server(hold) as port, Door.start(BINARY) as door:
        run = door.open([f"{HOST}:{port}"], pinned=HERE)
        command = (str(SYSTEM_PYTHON), "-c", program, HOST, str(port))
        with run.started(*command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "b'hi'\n"
            door.control.close()
            assert door.process.wait(timeout=LIMIT_S) == 0
            process.kill()
        run.channel.close()


def test_only_a_supervisor_starts_a_door() -> None:
    done = subprocess.run([BINARY, "door"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert "only `lilux-proc serve` starts a door" in done.stderr
