"""A small internet in namespaces of its own, with a name server that changes its mind.

    python -m tests.containment.rebinding BINARY ANSWERS

`ANSWERS` are lists of addresses, as JSON. The name server gives one list for each question about `HOST`, and
the last one for ever. Each of these addresses has a server that names it. For each connection that a tool
makes through the door of `BINARY`, a line says which server it reached, and why the door refused others.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.containment.test_door import CLIENT, HOST, PYTHON
from tests.door_world import Door, enter_namespaces, mount_private_file, raise_loopback

PORT = 8080
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C


def question_type(question: bytes) -> int:
    """What is asked for, after the name."""
    at = 12
    while question[at]:
        at += question[at] + 1
    return int.from_bytes(question[at + 1 : at + 3], "big")


def reply(question: bytes, addresses: list[str]) -> bytes:
    """An answer that nobody is to keep."""
    records = [
        b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address) for address in addresses
    ]
    return (
        question[:2]
        + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
        + question[12:]
        + b"".join(records)
    )


class NameServer(threading.Thread):
    """Answers as it was told; what it is asked beside an IPv4 address, it does not know."""

    def __init__(self, answers: list[list[str]]) -> None:
        super().__init__(daemon=True)
        self._answers = answers
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))

    def run(self) -> None:
        while True:
            question, asker = self._socket.recvfrom(512)
            addresses: list[str] = []
            if question_type(question) == 1:
                addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self._socket.sendto(reply(question, addresses), asker)


def serve(address: str) -> None:
    listener = socket.create_server((address, PORT))

    def run() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(address.encode())

    threading.Thread(target=run, daemon=True).start()


def add_address(number: int, address: str) -> None:
    """Another address of the loopback."""
    name = f"lo:{number}".encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for request, text in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, ".".join(["255"] * 4))):
            value = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(text))
            fcntl.ioctl(asked, request, value)


def connect(door: Door) -> dict[str, object]:
    run = door.open([f"{HOST}:{PORT}"])
    done: subprocess.CompletedProcess[str] = run.execute(PYTHON, "-c", CLIENT, HOST, str(PORT))
    report = run.finish()
    assert report is not None, done.stderr
    return {"reached": done.stdout.strip(), "failed": report["hosts"][0].get("failed", {})}


def main(binary: str, answers: list[list[str]]) -> None:
    enter_namespaces()
    raise_loopback()
    places = dict.fromkeys(address for answer in answers for address in answer)
    for number, address in enumerate(places):
        if not address.startswith("127."):
            add_address(number, address)
        serve(address)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as resolver:
        resolver.write("nameserver 127.0.0.1\n")
        resolver.flush()
        mount_private_file(resolver.name, os.path.realpath("/etc/resolv.conf"))
        NameServer(list(answers)).start()
        with Door.start(Path(binary)) as door:
            for _ in answers:
                sys.stdout.write(json.dumps(connect(door)) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
