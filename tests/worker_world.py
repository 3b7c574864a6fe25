"""What tests of nodes share: a server and a node, which are two users with nothing in common but the package.

A worker is the real program, started as an engine starts it; its node trusts and accepts what a test says.
"""

from __future__ import annotations

import os
import sysconfig
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from lilux._frames import FrameDecoder, decode_header, encode_frame
from rye_mcp.errors import RyeError
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from rye_mcp.nodes.acceptance import accept
from rye_mcp.nodes.lines import Program
from rye_mcp.nodes.link import Link
from rye_mcp.nodes.messages import Incoming
from rye_mcp.nodes.outcomes import Remote
from rye_mcp.nodes.seal import Channel, Hello, Instance, seal
from rye_mcp.nodes.submitters import Submitters
from rye_mcp.nodes.worker import Worker
from rye_mcp.nodes.workspaces import Workspaces
from rye_mcp.receipts.runner import RunnerKey, RunnerKeys
from rye_mcp.runs.ids import new_run_id
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.runtime_workshop import Workshop
from tests.trust_world import World

__all__ = ["COUNTER", "Pair", "Wire", "above", "bash_tool", "frames_of", "worker_above"]

COUNTER = 'echo run >> "$COUNTED"; echo "{\\"word\\": \\"$RYE_PARAM_word\\"}"'
"""A script that leaves a line in a file of the node for each of its runs."""


def bash_tool(script: str, *, permissions: str | None = None, schema: str = "{}") -> str:
    """A tool that is a few lines of bash."""
    said = "" if permissions is None else f"# permissions: {permissions}\n"
    return (
        "# /// rye\n# executor_id: bash_runtime\n# config: {params_env: RYE_PARAM_}\n"
        f"# config_schema: {schema}\n{said}# ///\n{script}\n"
    )


@dataclass
class Pair:
    """A server and a node."""

    server: Workshop
    node: Workshop

    @classmethod
    def at(cls, root: Path) -> Pair:
        """Two users below a directory."""
        pair = cls(Workshop(World(root / "server")), Workshop(World(root / "node")))
        (pair.server.project / ".ai").mkdir(parents=True)
        pair.server.world.key()
        pair.node.world.key()
        return pair

    @property
    def submitters(self) -> Submitters:
        """Whom the node accepts."""
        trust = self.node.world.trust()
        return Submitters(self.node.world.state, trust.store.revocations)

    def key_of(self, workshop: Workshop) -> RunnerKey:
        """The key of a machine."""
        return RunnerKeys(workshop.world.state).ready({})

    def accept(self, *ids: str) -> None:
        """Have the node accept the server, for these tools."""
        document = TrustDocument.create(self.key_of(self.server).public, "server", kind=SignerKind.RUNNER)
        accept(document.data, Path("SERVER.toml"), self.node.world.state, self.submitters, ids=ids or ("*",))

    def trust(self) -> None:
        """Have the node trust who signs on the server."""
        self.node.world.trust_key(TrustDocument.create(self.server.world.key().public, "ada"))

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a worker of the node."""
        world = self.node.world
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(world.root / "home"),
            "XDG_STATE_HOME": str(world.state.parent),
            "XDG_CACHE_HOME": str(world.root / "cache"),
            "COUNTED": str(world.root / "counted"),
            **more,
        }

    @property
    def counted(self) -> int:
        """How many runs of `COUNTER` there were on the node."""
        place = self.node.world.root / "counted"
        return len(place.read_text().splitlines()) if place.exists() else 0

    async def bundle(self, item_id: str, values: Mapping[str, Any] | None = None, **options: Any) -> bytes:
        """A call that the server has decided."""
        world = self.server.world
        executor = PrimitiveExecutor(world.project, user_space=world.user_space.parent, state=world.state)
        try:
            caller = options.pop("caller", Caller())
            return (await executor.bundle(item_id, values, caller=caller, **options)).to_bytes()
        finally:
            await executor.close()

    @asynccontextmanager
    async def linked(
        self, *, command: Sequence[str] | None = None, nodes: Sequence[str] | None = None, **options: Any
    ) -> AsyncIterator[Link]:
        """A worker of the node, as the server speaks to it."""
        environment = options.pop("environment", None) or self.environment()
        link = Link(
            "gpu1",
            Program(command or (str(Path(sysconfig.get_path("scripts"), "rye")), "worker"), environment),
            [self.key_of(self.node).public.key_id] if nodes is None else nodes,
            self.key_of(self.server),
            **options,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(link.serve)
            try:
                yield link
            finally:
                link.close()

    @asynccontextmanager
    async def wired(self, **options: Any) -> AsyncIterator[Wire]:
        """A worker of the node in this process, frame by frame."""
        world = self.node.world
        (world.project / ".ai").mkdir(parents=True, exist_ok=True)
        executor = PrimitiveExecutor(
            world.project,
            user_space=world.user_space.parent,
            state=world.state,
            environment=self.environment(),
        )
        wire = Wire(self.key_of(self.server))
        instance = Instance(self.key_of(self.node), self.submitters.key, "1", lambda: wire.age_ms)
        try:
            async with anyio.create_task_group() as group:
                worker = Worker(instance, executor, self.submitters, self.workspaces(executor), **options)
                group.start_soon(wire.serve, worker)
                yield wire
                wire.say(b"")
        finally:
            with anyio.CancelScope(shield=True):
                await executor.close()

    def workspaces(self, executor: Any) -> Workspaces:
        """The directories of a worker in this process, which has one executor for all of them."""
        return Workspaces(self.node.world.root / "private", lambda _: executor, dict)

    async def call(
        self, link: Link, bundle: bytes, watch: Watch | None = None, *, limit_s: float = 600
    ) -> Remote:
        """What comes of a call through a link."""
        return await link.run(bundle, new_run_id(), watch or Watch(), limit_s=limit_s)


class Wire:
    """The server's end of a worker's streams, where a test decides about every frame."""

    def __init__(self, submitter: RunnerKey) -> None:
        self.submitter = submitter
        self.age_ms = 0.0
        """How old the worker is, by its own clock."""
        self.is_read = True
        """Whether the server takes what the worker writes."""
        self.written = bytearray()
        """All that the worker has written."""
        self._in: deque[bytes] = deque()
        self._out: deque[tuple[dict[str, Any], bytes]] = deque()
        self._frames = FrameDecoder()
        self._news = anyio.Event()
        self._hello: Hello | None = None
        self._failure: RyeError | None = None

    async def serve(self, worker: Worker) -> None:
        """Have a worker serve; what it ends with is for `failure`."""
        try:
            await worker.serve(self.read, self)
        except RyeError as exc:
            self._failure = exc
        self._tell()

    async def failure(self) -> RyeError:
        """What the worker has ended with."""
        while self._failure is None:
            await self._wait()
        return self._failure

    # --- what the worker sees ---

    async def read(self) -> bytes:
        while not self._in:
            await self._wait()
        return self._in.popleft()

    def take(self, data: memoryview) -> memoryview:
        if not self.is_read:
            return data
        self.written += data
        self._out.extend((decode_header(raw), payload) for raw, payload in self._frames.feed(data))
        self._tell()
        return data[:0]

    async def wait(self) -> None:
        while not self.is_read:
            await self._wait()

    # --- what a test does ---

    def read_again(self) -> None:
        """Take what the worker writes again."""
        self.is_read = True
        self._tell()

    def say(self, data: bytes) -> None:
        """Give bytes to the worker; none for the end."""
        self._in.append(data)
        self._tell()

    async def frame(self) -> tuple[dict[str, Any], bytes]:
        """The next frame of the worker."""
        while not self._out:
            await self._wait()
        return self._out.popleft()

    async def hello(self) -> Hello:
        """Who the worker is."""
        if self._hello is None:
            self._hello = Hello.read((await self.frame())[0])
        return self._hello

    async def sealed(self, run_id: str | None = None, **options: Any) -> tuple[dict[str, Any], Channel]:
        """An envelope for this worker, and its channel."""
        expires = options.pop("expires_ms", 60_000)
        return seal(await self.hello(), run_id or new_run_id(), self.submitter, expires_ms=expires)

    async def answer(self, channel: Channel) -> tuple[dict[str, Any], bytes]:
        """The last message of a call: all but pongs, output and that it has begun."""
        incoming = Incoming(limit=1 << 26)
        while True:
            header, payload = await self.frame()
            assert header["op"] == "sealed", header
            for found, body in incoming.feed(channel.open(header["n"], payload)):
                if found["op"] in ("result", "refused", "ended"):
                    return found, body

    async def _wait(self) -> None:
        await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def frames_of(channel: Channel, data: bytes) -> list[bytes]:
    """The frames in which a stream of a call travels."""
    return [
        encode_frame({"op": "sealed", "run": channel.run_id, "n": each.number}, each.data)
        for each in channel.seal(data)
    ]


def worker_above(pid: int) -> int:
    """The worker that a process of a run descends from: the nearest ancestor that is `rye worker`."""
    return above(pid, lambda words: words[-2:] == ["worker", ""])


def above(pid: int, is_right: Callable[[list[str]], bool]) -> int:
    """The nearest ancestor of a process that is the right one, by its command line."""
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        if is_right(words):
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("expected it among those above, found it nowhere")
