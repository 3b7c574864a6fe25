"""What tests of Ray share: a real cluster on this machine, whose nodes have addresses and users of their own.

Each raylet runs below a supervisor that ends with the tests, so that nothing of Ray is left whatever a test
does. Nothing here kills a process that does not descend from these.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from rye_mcp.items import SpaceName
from rye_mcp.nodes.acceptance import accept
from rye_mcp.nodes.items import engine_text
from rye_mcp.nodes.submitters import Submitters
from rye_mcp.receipts.runner import RunnerKey, RunnerKeys
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.engine_world import tool
from tests.runtime_workshop import Workshop
from tests.trust_world import World
from tests.worker_world import COUNTER

__all__ = [
    "Grid",
    "RaySite",
    "Raylet",
    "below",
    "is_alive",
    "network",
    "one_start_at_a_time",
    "short_directory",
]

SCRIPTS = Path(sysconfig.get_path("scripts"))
START_S = 120.0
MEMORY = 2 << 30
_PR_SET_PDEATHSIG = 1


SERVER = """\
import os, sys, anyio
from pathlib import Path
from rye_mcp.app import App, Settings
from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch

async def main(project, home, state, item_id):
    settings = Settings.find(
        project=Path(project), user_directory=Path(home), state=Path(state), environment=dict(os.environ)
    )
    app = App.open(settings)
    async with app.closing():
        watch = Watch(on_output=lambda stream, data, skipped: os.write(1, data))
        try:
            said = (await app.executor().run(item_id, watch=watch)).code
        except RyeError as exc:
            said = exc.code
    print(said)

anyio.run(main, *sys.argv[1:])
"""
"""A server that makes one call, and says what came of it."""


def _with_its_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Raylet:
    """A node of the cluster, and its user."""

    address: str
    world: World
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def key(self) -> RunnerKey:
        return RunnerKeys(self.world.state).ready({})

    @property
    def lines(self) -> list[str]:
        """What runs have left here."""
        place = self.world.root / "counted"
        return place.read_text().splitlines() if place.exists() else []

    @property
    def counted(self) -> int:
        """How many runs of `COUNTER` there were here."""
        return len(self.lines)

    @contextmanager
    def door(self, name: str) -> Iterator[int]:
        """A pipe with a name, for a run that waits until a test writes into it."""
        place = self.world.root / name
        os.mkfifo(place)
        door = os.open(place, os.O_RDWR)
        try:
            yield door
        finally:
            os.close(door)
            place.unlink()

    def accept(self, server: RunnerKey, *ids: str) -> None:
        """Accept a server, for these tools."""
        submitters = Submitters(self.world.state, self.world.trust().store.revocations)
        document = TrustDocument.create(server.public, "server", kind=SignerKind.RUNNER)
        accept(document.data, Path("SERVER.toml"), self.world.state, submitters, ids=ids)

    def stop(self) -> None:
        """End it with everything that it has started."""
        self.process.terminate()
        self.process.wait(START_S)


def network() -> str:
    """The first three numbers of the addresses of this process: tests run beside each other."""
    return f"127.0.{int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0')[2:]) + 1}"


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory for a cluster: sockets are far below it, and their paths may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="rye-", ignore_cleanup_errors=True) as made:
        yield Path(made).resolve()


@contextmanager
def one_start_at_a_time() -> Iterator[None]:
    """Start nodes of Ray one after the other: they choose ports, and two may choose the same one."""
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Grid:
    """A cluster with a token of its own: a head without processors, and nodes with two each."""

    def __init__(self, root: Path, head: str, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """`settings` are variables of Ray."""
        self.root = root
        self.settings = settings
        self.here = head
        """The address of the machine of the server."""
        self.token = root / "token"
        self.token.write_text(secrets.token_hex(32))
        self.token.chmod(0o600)
        self.nodes: list[Raylet] = []
        with one_start_at_a_time():
            self.address = f"{head}:{_free_port(head)}"
            self.head = self._start(head, "--head", f"--port={self.address.partition(':')[2]}", cpus=0)

    def add(self, address: str, *options: str) -> Raylet:
        """Another node."""
        with one_start_at_a_time():
            started = self._start(address, f"--address={self.address}", *options, cpus=2)
        self.nodes.append(started)
        return started

    def remove(self, node: Raylet) -> None:
        """End a node, and know it no more."""
        self.nodes.remove(node)
        node.stop()

    def stop(self) -> None:
        """End all."""
        for node in (*self.nodes, self.head):
            node.stop()

    def _start(self, address: str, *options: str, cpus: int) -> Raylet:
        world = World(self.root / f"user-{address}")
        world.project.mkdir(parents=True)
        world.key()
        log = self.root / f"{address}.log"
        words = ["start", *options, f"--node-ip-address={address}", f"--num-cpus={cpus}", "--block"]
        words += [f"--memory={MEMORY}", "--object-store-memory=80000000", "--disable-usage-stats"]
        words += [f"--temp-dir={self.root / 'ray'}", "--include-dashboard=false"] if "--head" in words else []
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(world.root / "home"),
            "XDG_STATE_HOME": str(world.state.parent),
            "XDG_CACHE_HOME": str(world.root / "cache"),
            "COUNTED": str(world.root / "counted"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            **self.settings,
        }
        supervised = [str(SCRIPTS / "lilux-proc"), "exec", "--cmd", "sh", "--arg=-c"]
        supervised += ["--arg", f'exec "$@" > {log} 2>&1']
        for word in ("sh", str(SCRIPTS / "ray"), *words):
            supervised += ["--arg", word]
        with log.open("wb") as out:
            process = subprocess.Popen(
                supervised,
                env=environment,
                stdout=out,
                preexec_fn=_with_its_parent,  # noqa: PLW1509 - no other thread of the tests holds a lock here
            )
        made = Raylet(address, world, process, log)
        _until(lambda: "Ray runtime started" in log.read_text(), process, log)
        return made


class RaySite:
    """A server whose user has an engine that is a Ray cluster."""

    def __init__(self, root: Path, grid: Grid) -> None:
        self.grid = grid
        self.server = Workshop(World(root / "server"))
        (self.server.project / ".ai").mkdir(parents=True)
        key = RunnerKeys(self.server.world.state).ready({})
        signer = TrustDocument.create(self.server.world.key().public, "ada")
        for node in grid.nodes:
            node.accept(key, "demo/*")
            node.world.trust_key(signer)
        self.server.sign("demo/count.sh", tool(COUNTER))

    @property
    def counted(self) -> int:
        """How many runs of `COUNTER` there were on all nodes."""
        return sum(node.counted for node in self.grid.nodes)

    @property
    def ran_here(self) -> bool:
        return (self.server.world.root / "counted").exists()

    def engine(
        self,
        name: str = "grid",
        *,
        nodes: Sequence[str] | None = None,
        takes: Sequence[str] = ("demo/*",),
        **cluster: Any,
    ) -> Path:
        """The engine, as its user has signed it."""
        # The path of this installation may hold a space, which the program of an engine may not.
        program = self.server.world.root / "rye"
        if not program.is_symlink():
            program.symlink_to(SCRIPTS / "rye")
        config = {
            "via": "ray",
            "program": str(program),
            "nodes": list(nodes or ()) or [each.key.public.key_id for each in self.grid.nodes],
            "takes": list(takes),
            "cluster": {
                "address": self.grid.address,
                "here": self.grid.here,
                "token_file": str(self.grid.token),
                **cluster,
            },
        }
        world = self.server.world
        text = engine_text(name, config).encode()
        file = world.file(text, item_id=f"engines/{name}", extension=".yaml", space=SpaceName.USER)
        return world.stored(world.signed(file)).path

    @asynccontextmanager
    async def executor(self) -> AsyncIterator[PrimitiveExecutor]:
        world = self.server.world
        settings = Settings.find(
            project=world.project,
            user_directory=world.user_space.parent,
            state=world.state,
            environment={
                "PATH": os.environ["PATH"],
                "HOME": str(world.root / "home"),
                "COUNTED": str(world.root / "counted"),
            },
        )
        app = App.open(settings)
        async with app.closing():
            yield app.executor()

    def start_a_server(self, item_id: str) -> subprocess.Popen[str]:
        """Another server of this user, which calls a tool and prints its output as it comes."""
        world = self.server.world
        paths = [str(world.project), str(world.user_space.parent), str(world.state)]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(world.root / "home"),
            "PYTHONPATH": str(Path.cwd()),
        }
        return subprocess.Popen(
            [sys.executable, "-c", SERVER, *paths, item_id],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_with_its_parent,  # noqa: PLW1509 - no other thread of the tests holds a lock here
        )

    async def run(self, item_id: str = "demo/count", values: Any = None, watch: Watch | None = None) -> Any:
        async with self.executor() as executor:
            return await executor.run(item_id, values, watch=watch)


def below(pid: int) -> Iterator[int]:
    """Every process that descends from one, and it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield from below(int(child))


def is_alive(pid: int) -> bool:
    """Whether a process is there that does something."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "XZ"
    except OSError:
        return False


def _free_port(host: str) -> int:
    with socket.socket() as made:
        made.bind((host, 0))
        return int(made.getsockname()[1])


def _until(is_so: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a program that tells nobody when it is ready."""
    until = time.monotonic() + START_S
    while not is_so():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
