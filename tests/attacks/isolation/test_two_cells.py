"""Nothing that one cell sends to another leads out of the cells, or to a third one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.attacks.isolation.world import World
from tests.containment.client import Client, Ended
from tests.door_world import greet, server

SYSTEM_PYTHON = "/usr/bin/python3"
HOST = "api.test"

MEET = """
import os, socket, sys
project = sys.argv[1]
def say(name): open(f"{project}/{name}", "w").close()
def wait_for(name): open(f"{project}/{name}").read()
def tried(name, attempt):
    try:
        attempt()
        print(name)
    except OSError:
        pass
def receive(count):
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{project}/meeting")
    server.listen(1)
    say("listening")
    friend, _ = server.accept()
    return friend, socket.recv_fds(friend, 1, count)[1]
def send(*passed):
    wait_for("listening")
    friend = socket.socket(socket.AF_UNIX)
    friend.connect(f"{project}/meeting")
    socket.send_fds(friend, [b"x"], [*passed])
    return friend
"""
SEND_DIRECTORY = MEET + "send(os.open(project, os.O_RDONLY)).recv(1)"
CLIMB = (
    MEET
    + """
friend, (directory,) = receive(1)
os.fchdir(directory)
outside = "../" * 20 + sys.argv[2].lstrip("/")
tried("stat", lambda: os.stat(f"{outside}/file"))
tried("chmod", lambda: os.chmod(f"{outside}/file", 0o777))
tried("connect", lambda: socket.socket(socket.AF_UNIX).connect(f"{outside}/service"))
friend.send(b"x")
print("done")
"""
)
USE_WHEN_ITS_CELL_IS_GONE = (
    MEET
    + """
friend, (directory,) = receive(1)
friend.send(b"x")
wait_for("over")
os.fchdir(directory)
while os.stat(".env").st_dev != os.stat(".").st_dev:
    pass  # until the kernel has taken its mounts away
tried("read .env", lambda: open(".env").read())
tried("write a hook", lambda: open(".git/hooks/post-commit", "w"))
print("done")
"""
)
SEND_SOCKETS = (
    MEET
    + """
kinds = (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)
send(*(socket.socket(socket.AF_INET, kind).detach() for kind in kinds))
"""
)
USE_SOCKETS = (
    MEET
    + """
friend, passed = receive(3)
stranger, service, names = (socket.socket(fileno=each) for each in passed)
say("received")
wait_for("serving")
names.settimeout(2)
question = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + b"\\3api\\4test\\0" + b"\\0\\1\\0\\1"
def ask():
    names.sendto(question, ("127.0.0.1", 53))
    names.recv(200)
tried("its names", ask)
tried("its host", lambda: stranger.connect(("198.18.0.1", int(sys.argv[2]))))
tried("its service", lambda: service.connect(("127.0.0.1", 7777)))
say("over")
print("done")
"""
)
SERVE = (
    MEET
    + """
server = socket.create_server(("127.0.0.1", 7777))
socket.getaddrinfo("api.test", int(sys.argv[2]))
say("serving")
wait_for("over")
"""
)


@pytest.fixture(autouse=True)
def _project(world: World) -> None:
    if not Path(SYSTEM_PYTHON).exists():
        pytest.skip("there is no Python of the system")
    world.fill()
    for name in ("listening", "received", "serving", "over"):
        os.mkfifo(world.root / "project" / name)
        os.chown(world.root / "project" / name, world.uid, world.uid)


@contextmanager
def supervisor(world: World) -> Iterator[Client]:
    """One supervisor of the world's user."""
    with Client.start(world.binary, before=world.as_user([])) as client:
        yield client


def begin(client: Client, world: World, program: str, *words: Any, **policy: Any) -> int:
    """Start a program in a cell; its id."""
    command = (SYSTEM_PYTHON, "-c", program, world.root / "project", *words)
    return client.start_run(
        *command, policy=cell(world, **policy), env={"PATH": "/usr/bin"}, timeout_ms=60_000
    )


def cell(world: World, **more: Any) -> dict[str, Any]:
    policy = world.policy("cell none")
    assert policy is not None
    return {**policy, **more}


def said(ended: Ended) -> list[str]:
    """What a program that has come to its end has printed."""
    assert ended.result["return_code"] == 0, ended.stderr.decode()
    return ended.stdout.decode().splitlines()


def test_a_directory_of_another_cell_leads_no_way_out(world: World) -> None:
    outside = world.root / "outside"
    with socket.socket(socket.AF_UNIX) as service, supervisor(world) as client:
        service.bind(str(outside / "service"))
        os.chown(outside / "service", world.uid, world.uid)
        service.listen()
        taker = begin(client, world, CLIMB, outside)
        giver = begin(client, world, SEND_DIRECTORY)
        assert said(client.end_of(taker)) == ["done"]
        said(client.end_of(giver))


@pytest.mark.parametrize("start", ["started", "forked"])
def test_what_a_directory_hides_stays_hidden_when_its_cell_is_gone(world: World, start: str) -> None:
    over = world.root / "project" / "over"
    with supervisor(world) as client:
        giver = begin(client, world, SEND_DIRECTORY)
        if start == "started":
            taker = begin(client, world, USE_WHEN_ITS_CELL_IS_GONE)
        else:
            taker = forked(client, world, USE_WHEN_ITS_CELL_IS_GONE)
        said(client.end_of(giver))
        Thread(target=over.write_bytes, args=[b""], daemon=True).start()
        assert said(client.end_of(taker)) == ["done"]


def forked(client: Client, world: World, program: str) -> int:
    """As `begin`, from a zygote."""
    script = world.root / "project" / "program.py"
    script.write_text(program)
    policy = cell(world)
    zygote = client.start_zygote(command=SYSTEM_PYTHON, policy=policy)
    run = client.fork(zygote.id, policy=policy)
    client.send("call", id=run, args=[str(script), str(world.root / "project")], timeout_ms=60_000)
    return run


def test_a_socket_of_one_cell_is_in_the_network_of_no_later_one(world: World) -> None:
    with server(greet) as port, supervisor(world) as client:
        stranger = begin(client, world, USE_SOCKETS, port)
        said(client.end_of(begin(client, world, SEND_SOCKETS)))
        (world.root / "project" / "received").read_bytes()
        host = {"hosts": [f"{HOST}:{port}"], "pinned": {HOST: ["127.0.0.1"]}}
        later = begin(client, world, SERVE, port, net=host)
        assert said(client.end_of(stranger)) == ["done"]
        network = client.end_of(later).result["network"]
        assert sum(host["connections"] for host in network["hosts"]) == 0
