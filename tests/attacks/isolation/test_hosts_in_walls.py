"""In walls, a run reaches the hosts that it may, by name, and nothing else."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.isolation.world import World
from tests.door_world import greet, server

HOST = "api.test"
PIDFD_GETFD = 438
PROCESS_VM_READV = {"x86_64": 310, "aarch64": 270}[platform.machine()]
SYSTEM_PYTHON = "/usr/bin/python3"
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
IN_GO = """package main

import ("fmt"; "io"; "net/http"; "os"; "runtime"; "time")

func main() {
	go func() { for { runtime.GC(); time.Sleep(time.Millisecond) } }()
	answer, err := http.Get(os.Args[1])
	if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(string(body))
}
"""


@pytest.fixture(autouse=True)
def _broker(world: World) -> None:
    world.fill()
    world.needs_a_broker()


def policy(world: World, port: int, **more: Any) -> dict[str, Any]:
    """One host of this machine, at this port."""
    hosts = {"hosts": [f"{HOST}:{port}"], "pinned": {HOST: ["127.0.0.1"]}}
    return {"tier": "walls", "require": "walls", "net": hosts, "read": [str(world.root / "bin")]} | more


def python(world: World, port: int, program: str, *words: str) -> dict[str, Any]:
    """The answer of a run of a Python program in walls."""
    if not Path(SYSTEM_PYTHON).exists():
        pytest.skip("there is no Python of the system")
    return world.run([SYSTEM_PYTHON, "-c", program, str(port), *words], policy(world, port))


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_reach_an_allowed_host_by_its_name(world: World, program: str) -> None:
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed")
    with server(greet) as port:
        words: list[str | Path] = [
            f"http://{HOST}:{port}/" if word == "URL" else word for word in PROGRAMS[program]
        ]
        answer = world.run(words, policy(world, port))
    assert (answer["stdout"].strip(), answer["return_code"]) == ("hello", 0), answer
    assert answer["enforced"]["net"] == {"hosts": [f"{HOST}:{port}"]}
    assert "hosts" not in answer["enforced"]["unenforced"]
    (host,) = answer["network"]["hosts"]
    assert (host["host"], host["port"], host["connections"]) == (HOST, port, 1)
    assert host["received"] > len("hello")


@pytest.fixture(scope="module")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static program, built once: without a cache, Go compiles its whole library for it."""
    if (go := shutil.which("go")) is None:
        pytest.skip("go is not installed")
    place = tmp_path_factory.mktemp("go")
    source, program = place / "main.go", place / "go-client"
    source.write_text(IN_GO)
    environment = {"CGO_ENABLED": "0", "GOCACHE": str(place / "cache"), "HOME": str(place)}
    subprocess.run(
        [go, "build", "-o", program, source], env=environment | {"PATH": "/usr/bin:/bin"}, check=True
    )
    return program


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_static_go_program_whose_signals_break_calls_off_reaches_it_too(
    world: World, go_client: Path
) -> None:
    program = shutil.copy(go_client, world.root / "bin")
    with server(greet) as port:
        answer = world.run([program, f"http://{HOST}:{port}/"], policy(world, port))
    assert (answer["stdout"].strip(), answer["return_code"]) == ("hello", 0), answer


def test_other_names_other_ports_and_addresses_lead_nowhere(world: World) -> None:
    program = """
import errno, socket, sys
port = int(sys.argv[1])
def tried(host, port):
    try:
        with socket.create_connection((host, port), 10) as s:
            s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return s.recv(100)[-5:].decode()
    except OSError as exc:
        return errno.errorcode.get(exc.errno, "unknown")
fake = socket.gethostbyname("api.test")
print(tried("api.test", port), tried(fake, port), tried("api.test", port + 1), tried("other.test", port),
      tried("127.0.0.1", port), tried("198.18.255.9", port), tried("::1", port))
"""
    with server(greet) as port:
        answer = python(world, port, program)
    expected = "hello hello ECONNREFUSED unknown ENETUNREACH ECONNRESET ENETUNREACH"
    assert answer["stdout"].strip() == expected, answer
    assert [name for name, _ in answer["network"]["refused"]] == ["other.test"]
    assert answer["network"]["strays"] == 1


def test_a_connection_that_never_comes_about_does_not_keep_its_keeper(world: World) -> None:
    """The tool's socket signs its packets (TCP_MD5SIG), so nobody answers; the run still ends in time."""
    program = """
import socket, struct, sys
s = socket.socket()
key = struct.pack("=HH4s120xBBHi80s", socket.AF_INET, 0, socket.inet_aton("127.0.0.1"), 0, 0, 3, 0, b"key")
try:
    s.setsockopt(socket.IPPROTO_TCP, 14, key)
except OSError as exc:
    print("refused", exc.strerror, flush=True)
    sys.exit()
to = (socket.gethostbyname("api.test"), int(sys.argv[1]))
print("connects", flush=True)
s.connect(to)
"""
    with server(greet) as port:
        words: list[str | Path] = [SYSTEM_PYTHON, "-c", program, str(port)]
        answer = world.run(words, policy(world, port), timeout_ms=1000)
    if answer["stdout"].startswith("refused"):
        pytest.skip("this kernel signs no packets")
    assert (answer["kind"], answer["stdout"].strip()) == ("timeout", "connects"), answer
    assert answer["cleanup"]["state"] == "complete"


def test_a_process_that_cannot_be_read_connects_nowhere(world: World) -> None:
    if world.uid == 0:
        pytest.skip("root looks into everybody")
    program = """
import ctypes, errno, socket, sys
to = (socket.gethostbyname("api.test"), int(sys.argv[1]))
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
print(errno.errorcode[socket.socket().connect_ex(to)])
"""
    with server(greet) as port:
        answer = python(world, port, program)
    assert (answer["stdout"].strip(), answer["network"]["hosts"]) == ("EACCES", []), answer


def test_a_host_whose_address_is_of_this_machine_is_refused(world: World) -> None:
    """`localhost` is in the file of hosts; without a pin, its address counts."""
    program = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", 53))
s.send(b"ab\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x09localhost\\0\\0\\x01\\0\\x01")
fake = ".".join(map(str, s.recv(512)[-4:]))
try:
    with socket.create_connection((fake, int(sys.argv[1])), 10) as t:
        print(t.recv(10))
except OSError as exc:
    print(exc.strerror)
"""
    with server(greet) as port:
        hosts = {"hosts": [f"localhost:{port}"]}
        answer = world.run([SYSTEM_PYTHON, "-c", program, str(port)], policy(world, port, net=hosts))
    assert answer["stdout"].strip() == "Connection reset by peer", answer
    assert answer["network"]["hosts"][0]["failed"] == {"loopback": 1}


@pytest.mark.parametrize("number", [PIDFD_GETFD, PROCESS_VM_READV])
def test_without_what_a_broker_needs_hosts_are_not_enforced_and_that_is_said(
    world: World, number: int
) -> None:
    around: list[str | Path] = [world.ways, "without", str(number)]
    facts = world.probe(around)
    assert (facts["broker"], "could not be answered" in facts["no_broker"]) == (False, True)
    open_to_all = world.run(["/bin/true"], {"tier": "walls", "net": {"hosts": [HOST]}}, around)
    assert (open_to_all["enforced"]["net"], open_to_all["enforced"]["unenforced"][0]) == ("any", "hosts")
    refused = world.run(["/bin/true"], policy(world, 443), around)
    assert refused["error"]["code"] == "isolation_unavailable"
    assert facts["no_broker"] in refused["error"]["message"]


def test_a_supervisor_in_such_walls_has_no_broker_of_its_own(world: World) -> None:
    """Of all filters around a process, one has a listener."""
    answer = world.run([world.binary, "probe"], policy(world, 443))
    assert '"broker":false' in answer["stdout"]
