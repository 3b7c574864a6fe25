"""Measures connections and streams through the door, and what a way to it adds to a start."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.execution import Target
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from lilux.primitives.subprocess import Hosts, Policy, ProcessSpec, SubprocessPrimitive, SubprocessResult

__all__ = ["main"]

HOST: Final = "server.test"
HERE: Final = "127.0.0.1"
QUIET_PERCENT: Final = 90
BLOCK: Final = 1 << 20
STREAM_BYTES, QUICK_BYTES = 256 << 20, 8 << 20
CONNECTIONS, QUICK_CONNECTIONS = 200, 10
STARTS, QUICK_STARTS = 100, 5
MAX_CONNECTION_MS: Final = 2.0
MIN_MB_S: Final = 200.0
MAX_START_MS: Final = 0.1

CLIENT: Final = """
import json, socket, sys, time
host, port, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
address, times, block = (socket.gethostbyname(host), port), [], bytearray(1 << 20)
for _ in range(count):
    started = time.perf_counter()
    with socket.create_connection(address) as connection:
        connection.sendall(b"1")
        assert connection.recv(1) == b"1"
        times.append(time.perf_counter() - started)
def stream(kind):
    with socket.create_connection(address) as connection:
        connection.sendall(kind + size.to_bytes(8, "big"))
        started, left = time.perf_counter(), size
        while left > 0:
            if kind == b"G":
                left -= connection.recv_into(block)
            else:
                connection.sendall(block)
                left -= len(block)
        if kind == b"P":
            connection.recv(1)
        return size / (time.perf_counter() - started) / 1e6
median = sorted(times)[count // 2] * 1e3
print(json.dumps({"connection_ms": median, "down": stream(b"G"), "up": stream(b"P")}))
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians: milliseconds of a connection, megabytes a second from and to the server."""

    connection_ms: float
    down: float
    up: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The door, beside nothing between the program and its server; and starts, in milliseconds."""

    direct: Figures
    door: Figures
    start_ms: float
    start_with_hosts_ms: float
    added_ms: float

    @property
    def targets(self) -> list[Target]:
        """What must be reached."""
        added = self.door.connection_ms - self.direct.connection_ms
        slowest = min(self.door.up, self.door.down)
        return [
            Target("a connection through the door, over none", added, MAX_CONNECTION_MS, "ms"),
            Target("time for a megabyte through the door", 1e3 / slowest, 1e3 / MIN_MB_S, "ms"),
            Target("a start with hosts, over one with no network", self.added_ms, MAX_START_MS, "ms"),
        ]


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    try:
        with _server() as port:
            measured = asyncio.run(_measure(port, options.quick, 1 if options.quick else options.rounds))
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    if measured is None:
        print("expected a machine that can make cells, found none: nothing was measured", file=sys.stderr)
        return 0
    print(f"{machine()}\n\n{'':<20}{'connection':>14}{'from server':>14}{'to server':>14}")
    for name, figures in (("straight", measured.direct), ("through the door", measured.door)):
        print(f"{name:<20}{figures.connection_ms:11.2f} ms{figures.down:9.0f} MB/s{figures.up:9.0f} MB/s")
    print(f"\nstart: {measured.start_ms:.2f} ms, with hosts {measured.start_with_hosts_ms:.2f} ms\n")
    print("\n".join(target.line for target in measured.targets), flush=True)
    if options.json:
        report: dict[str, Any] = {"quick": options.quick, "machine": machine(), "idle_percent": idle}
        report |= {"figures": asdict(measured)}
        report |= {"targets": [asdict(each) | {"is_met": each.is_met} for each in measured.targets]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not all(target.is_met for target in measured.targets))


async def _measure(port: int, quick: bool, rounds: int) -> Measured | None:
    count = QUICK_CONNECTIONS if quick else CONNECTIONS
    size = QUICK_BYTES if quick else STREAM_BYTES
    here = Policy(tier="cell", net=Hosts([f"{HOST}:{port}"], {HOST: [HERE]}))
    primitive = SubprocessPrimitive()
    first = await _true(primitive, here)
    if first.enforced is None or first.enforced.level != "cell":
        return None
    direct, door, plain, hosts = [], [], [], []
    for _ in range(rounds):
        direct.append(await _talk(primitive, HERE, port, count, size, None))
        door.append(await _talk(primitive, HOST, port, count, size, here))
        for _ in range(QUICK_STARTS if quick else STARTS):
            plain.append(await _timed(primitive, Policy(tier="cell")))
            hosts.append(await _timed(primitive, here))
    # Both sides of a pair were measured a moment apart: what slows the machine down slows down both.
    added = statistics.median(after - before for before, after in zip(plain, hosts, strict=True))
    starts = (statistics.median(plain), statistics.median(hosts), added)
    return Measured(_median(direct), _median(door), *starts)


def _median(rounds: list[Figures]) -> Figures:
    columns = zip(*((each.connection_ms, each.down, each.up) for each in rounds), strict=True)
    return Figures(*(statistics.median(column) for column in columns))


async def _talk(
    primitive: SubprocessPrimitive, host: str, port: int, count: int, size: int, policy: Policy | None
) -> Figures:
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    args = ["-c", CLIENT, host, str(port), str(count), str(size)]
    done = await primitive.run(ProcessSpec(command=python, args=args, cwd="/", policy=policy))
    if not done.success:
        raise IncorrectError(f"the client failed: {done.stderr or done.error}")
    if policy is not None:
        _check(done, count, size)
    return Figures(**json.loads(done.stdout))


def _check(done: SubprocessResult, count: int, size: int) -> None:
    """The door has counted the same."""
    found = [(each.connections, each.received) for each in done.network.hosts] if done.network else []
    if found != [(count + 2, count + size + 1)]:
        raise IncorrectError(f"expected {count + 2} connections and {count + size + 1} bytes, found {found}")


async def _true(primitive: SubprocessPrimitive, policy: Policy) -> SubprocessResult:
    done = await primitive.run(ProcessSpec(command="/bin/true", cwd="/", policy=policy))
    if not done.success:
        raise IncorrectError(f"/bin/true failed: {done.stderr or done.error}")
    return done


async def _timed(primitive: SubprocessPrimitive, policy: Policy) -> float:
    started = time.perf_counter()
    await _true(primitive, policy)
    return (time.perf_counter() - started) * 1e3


@contextlib.contextmanager
def _server() -> Iterator[int]:
    listener = socket.create_server((HERE, 0), backlog=128)
    thread = threading.Thread(target=_accept, args=(listener,), daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # it was shut down: the benchmark is over
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    answers: dict[bytes, Callable[[socket.socket], None]] = {b"1": _echo, b"G": _give, b"P": _take}
    with connection:
        answers.get(connection.recv(1), _echo)(connection)


def _echo(connection: socket.socket) -> None:
    connection.sendall(b"1")


def _give(connection: socket.socket) -> None:
    block = bytes(BLOCK)
    for _ in range(int.from_bytes(connection.recv(8), "big") // BLOCK):
        connection.sendall(block)


def _take(connection: socket.socket) -> None:
    left, block = int.from_bytes(connection.recv(8), "big"), bytearray(BLOCK)
    while left > 0:
        left -= connection.recv_into(block) or left
    connection.sendall(b"1")


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, for scripts")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="see only that it works")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds to take the median of")
    return parser.parse_args()
