"""A Ray cluster as the server sees it: the process that speaks to it, and the slots in which workers run.

A slot holds what some calls of one shape need of a node, and one worker, with a link of its own. Calls wait
for room in a slot, in order; another slot is started for them as far as the cluster has room for it. Placing
a call may be repeated; it is sent once. The server never imports ray.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from lilux._dataclasses import dataclass
from lilux._frames import PAYLOAD_LIMIT, FrameDecoder, Header, decode_header, encode_frame
from lilux.primitives.errors import SupervisorError
from rye_mcp.errors import RyeError
from rye_mcp.files import read_private
from rye_mcp.metadata import Cluster, Placement, Resources
from rye_mcp.nodes.lines import Hear, Line, Program, Sink
from rye_mcp.nodes.link import IDLE_S, Link
from rye_mcp.nodes.seal import Identity

__all__ = ["CONNECT_S", "RayCluster", "Shape", "Sidecar", "sidecar_program"]

CONNECT_S: Final = 20.0
"""How long the cluster may take to answer at first."""

CLOSING_S: Final = 5.0
"""How long slots may take to end."""

STARTING: Final = 2
"""How many slots of one shape are asked for at a time: the next one when one of them is there."""

TRIES: Final = 3
"""In how many slots a call is placed at most: those before have ended before it was sent."""

_SIDECAR: Final = Path(__file__).with_name("sidecar.py")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a call needs of a node."""

    cpu: float
    memory: int
    gpu: int
    labels: frozenset[tuple[str, str]]

    @classmethod
    def of(
        cls, wanted: Resources | None, placement: Placement | None, given: Collection[tuple[str, str]]
    ) -> Shape:
        """That of a tool; the whole engine has the labels that are `given`. A call needs a processor."""
        found = wanted or Resources()
        labels = (placement or Placement()).labels.difference(given)
        return cls(found.cpu or 1.0, found.memory or 0, found.gpu or 0, labels)

    def as_dict(self) -> dict[str, Any]:
        """It as data."""
        return {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu, "labels": dict(self.labels)}

    def __str__(self) -> str:
        labels = [f"the label {name}: {value}" for name, value in sorted(self.labels)]
        amounts = [f"cpu: {self.cpu:g}", *([f"memory: {self.memory}"] if self.memory else [])]
        return ", ".join([*amounts, *([f"gpu: {self.gpu}"] if self.gpu else []), *labels])


def sidecar_program(python: str, cluster: Cluster, variables: Mapping[str, str]) -> Program:
    """The program that speaks to a cluster, with no variable of Ray but those of the engine.

    RyeError `unsafe_permissions` for a token that others can read: they could start programs on all nodes.
    """
    own = {name: value for name, value in variables.items() if not name.startswith("RAY_")}
    own |= {"RAY_USAGE_STATS_ENABLED": "0"}
    if cluster.token_file is not None:
        read_private(Path(cluster.token_file), "the token of a cluster", limit=1)
        own |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": cluster.token_file}
    return Program((cluster.python or python, "-I", "-B", str(_SIDECAR)), own)


class Sidecar:
    """The program that speaks to the cluster: opens slots there, and carries what is told and said."""

    def __init__(self, name: str, line: Line, cluster: Cluster) -> None:
        self.is_connected = False
        self.over = anyio.Event()
        self._name = name
        self._line = line
        self._cluster = cluster
        self._settled = anyio.Event()
        self._problem: RyeError | None = None
        self._sink: Sink | None = None
        self._frames = FrameDecoder()
        self._slots: dict[int, SlotLine] = {}
        self._numbers = 0

    async def serve(self) -> None:
        """Run the program until it ends, or the caller is cancelled."""
        try:
            self._fail(await self._line.carry(self._hear, self._begin))
        except RyeError as exc:
            self._problem = self._problem or exc
        finally:
            self.over.set()
            self._settled.set()
            for slot in self._slots.values():
                slot.end(self.problem())

    async def connected(self) -> None:
        """Wait for the cluster; RyeError `engine_unreachable` when it does not answer."""
        with anyio.move_on_after(CONNECT_S):
            await self._settled.wait()
        if not self.is_connected or self.over.is_set():
            raise self.problem()

    def problem(self) -> RyeError:
        """Why nothing comes of it."""
        found = self._problem
        if found is None:
            self._fail(f"no answer within {CONNECT_S:g} s")
            return self.problem()
        return RyeError(found.code, found.message, hint=found.hint)

    def register(self, slot: SlotLine) -> int:
        """A number for a slot, whose frames go to it from now on."""
        self._numbers += 1
        self._slots[self._numbers] = slot
        return self._numbers

    def forget(self, number: int) -> None:
        """Give up a slot: it is ended."""
        if self._slots.pop(number, None) is not None:
            self.tell({"op": "close", "slot": number})

    def tell(self, header: Mapping[str, Any], payload: bytes = b"") -> None:
        """Write a frame."""
        if self._sink is not None:
            self._sink.tell(encode_frame(dict(header), payload))

    def end_input(self) -> None:
        """Have it end by itself, with all slots."""
        if self._sink is not None:
            self._sink.end_input()

    def _begin(self, sink: Sink) -> None:
        self._sink = sink
        self.tell({"op": "connect", "address": self._cluster.address, "here": self._cluster.here})

    def _fail(self, found: str) -> None:
        beside = f". It said: {self._line.said}" if self._line.said else ""
        what = f"expected the Ray cluster {self._cluster.address} of {self._name}, found {found}{beside}"
        hint = "rye engine check; the machine of the server has to be in the cluster: docs/scale-out.md"
        self._problem = self._problem or RyeError("engine_unreachable", what, hint=hint)

    def _hear(self, data: bytes) -> None:
        try:
            for raw, payload in self._frames.feed(data):
                self._take(decode_header(raw), payload)
        except SupervisorError as exc:
            self._fail(f"something else than frames: {exc.message}")
            self._settled.set()

    def _take(self, header: Header, payload: bytes) -> None:
        slot = self._slots.get(header.get("slot", 0))
        match header.get("op"):
            case "connected":
                self.is_connected = True
                self._settled.set()
            case "failed":
                self._fail(str(header.get("how")))
                self._settled.set()
            case "placed" if slot is not None:
                slot.place(int(header["width"]))
            case "said" if slot is not None:
                slot.hear(payload)
            case "ended" if slot is not None:
                slot.end(_end_of_slot(header))


def _end_of_slot(header: Header) -> RyeError:
    if header.get("unfit"):
        return RyeError("no_fitting_node", "no node of the cluster has it, used or not")
    said = f". It said: {header['said']}" if header.get("said") else ""
    return RyeError("engine_unreachable", f"{header.get('how')}{said}")


class SlotLine:
    """The line to the worker of one slot."""

    said = ""

    def __init__(self, sidecar: Sidecar, shape: Shape, width: int, command: Sequence[str]) -> None:
        self.shape = shape
        self.width = 0
        """How many calls it has room for; 0 until it is on a node."""
        self.settled = anyio.Event()
        """Set when it is on a node, or never will be."""
        self._open = {
            "op": "open",
            "shape": shape.as_dict(),
            "width": width,
            "command": list(command),
        }
        self._sidecar = sidecar
        self._number = 0
        self._hear: Hear | None = None
        self._begin: Callable[[Sink], None] | None = None
        self._ended = anyio.Event()
        self._problem: RyeError | None = None

    async def carry(self, hear: Hear, begin: Callable[[Sink], None]) -> str:
        """Have the cluster place it, and carry until its worker ends."""
        self._hear, self._begin = hear, begin
        self._number = self._sidecar.register(self)
        self._sidecar.tell({**self._open, "slot": self._number})
        try:
            await self._ended.wait()
        finally:
            self._sidecar.forget(self._number)
            self.settled.set()
        if self._problem is not None and self._problem.code == "no_fitting_node":
            what = f"expected a node with {self.shape}, found that {self._problem.message}"
            raise RyeError("no_fitting_node", what)
        return "its end" if self._problem is None else self._problem.message

    def tell(self, data: bytes) -> None:
        """Write to the worker."""
        for start in range(0, len(data), PAYLOAD_LIMIT):
            piece = data[start : start + PAYLOAD_LIMIT]
            self._sidecar.tell({"op": "feed", "slot": self._number}, piece)

    def end_input(self) -> None:
        """End the worker, and with it the slot."""
        self._sidecar.forget(self._number)
        self._ended.set()

    def place(self, width: int) -> None:
        """Take note that it is on a node, with room for so many calls."""
        self.width = width
        if self._begin is not None:
            self._begin(self)
        self.settled.set()

    def hear(self, data: bytes) -> None:
        """Take bytes of the worker."""
        if self._hear is not None:
            self._hear(data)

    def end(self, problem: RyeError) -> None:
        """Take note of why it ends."""
        self._problem = self._problem or problem
        self._ended.set()


@dataclass(slots=True, eq=False)
class _Slot:
    line: SlotLine
    link: Link
    is_ready: bool = False
    calls: int = 0

    @property
    def has_room(self) -> bool:
        return self.is_ready and not self.link.is_past and self.calls < self.line.width


@dataclass(slots=True, eq=False)
class _Waiting:
    shape: Shape
    settled: anyio.Event = field(default_factory=anyio.Event)
    slot: _Slot | None = None
    problem: RyeError | None = None
    failures: int = 0

    def take(self, slot: _Slot) -> None:
        slot.calls += 1
        self.slot = slot
        self.settled.set()

    def fail(self, problem: RyeError) -> None:
        self.problem = RyeError(problem.code, problem.message, hint=problem.hint)
        self.settled.set()


class RayCluster:
    """A cluster and its slots, in one event loop. `nodes` are the ids of the keys that workers may have."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        program: Line,
        nodes: Collection[str],
        submitter: Identity,
        *,
        command: Sequence[str],
    ) -> None:
        """`command` starts a worker on a node."""
        self.over = anyio.Event()
        self._name = name
        self._cluster = cluster
        self._sidecar = Sidecar(name, program, cluster)
        self._nodes = frozenset(nodes)
        self._submitter = submitter
        self._command = tuple(command)
        self._slots: list[_Slot] = []
        self._waiting: deque[_Waiting] = deque()
        self._closing = anyio.Event()
        self._used = 0
        self._group: TaskGroup | None = None

    # --- its life ---

    async def serve(self) -> None:
        """Keep the cluster until `close`, or until it is lost, or nobody has used it for long."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._speak)
                await self._connect(group)
                await self._until_closed()
                for slot in self._slots:
                    slot.link.close()
                self._sidecar.end_input()
                with anyio.move_on_after(CLOSING_S):
                    await self._sidecar.over.wait()
                group.cancel_scope.cancel()
        finally:
            self._fail_all()
            self.over.set()

    def _fail_all(self) -> None:
        """End it, and tell those who wait that nothing more comes."""
        self.close()
        for waiting in self._waiting:
            waiting.fail(self._sidecar.problem())

    def close(self) -> None:
        """End it, with all of its slots."""
        self._closing.set()

    @property
    def is_past(self) -> bool:
        """Whether no call can be placed any more."""
        return self._closing.is_set() or self.over.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way or waits."""
        return bool(self._waiting) or any(slot.calls for slot in self._slots)

    async def _speak(self) -> None:
        await self._sidecar.serve()
        self._fail_all()

    async def _connect(self, group: TaskGroup) -> None:
        try:
            await self._sidecar.connected()
        except RyeError:
            self._fail_all()
            return
        self._group = group
        self._dispatch()

    async def _until_closed(self) -> None:
        while not self._closing.is_set():
            used = self._used
            with anyio.move_on_after(IDLE_S):
                await self._closing.wait()
            if used == self._used and not self.is_busy:
                self.close()

    # --- a call ---

    @asynccontextmanager
    async def placed(self, shape: Shape, tell: Callable[[str], None]) -> AsyncIterator[Link]:
        """The link of a slot that has room for a call of this shape; `tell` hears where it waits.

        RyeError `no_fitting_node` when no node has so much, or none has room for as long as the engine says.
        """
        self._used += 1
        waiting = _Waiting(shape)
        self._waiting.append(waiting)
        try:
            self._dispatch()
            await self._settle(waiting, tell)
            if waiting.slot is None:
                raise waiting.problem or self._nothing_free(shape)
            yield waiting.slot.link
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            if waiting.slot is not None:
                waiting.slot.calls -= 1
            self._dispatch()

    async def _settle(self, waiting: _Waiting, tell: Callable[[str], None]) -> None:
        if self.is_past:
            waiting.fail(self._sidecar.problem())
        elif not waiting.settled.is_set():
            tell(f"queued, {self._waiting.index(waiting)} ahead")
        with anyio.move_on_after(self._cluster.patience_s):
            await waiting.settled.wait()

    def _nothing_free(self, shape: Shape) -> RyeError:
        what = f"expected room for {shape} on {self._name} within {self._cluster.patience_s:g} s, found none"
        return RyeError(
            "no_fitting_node", what, hint="call it again later, or give the engine more patience_s"
        )

    # --- slots ---

    def _dispatch(self) -> None:
        """Give waiting calls their places, in order; start slots for the calls that find none."""
        left: deque[_Waiting] = deque()
        for waiting in self._waiting:
            slot = self._with_room(waiting.shape)
            if waiting.settled.is_set():
                continue
            if slot is None:
                left.append(waiting)
            else:
                waiting.take(slot)
        self._waiting = left
        for slot in self._slots:
            if not slot.line.settled.is_set() and all(each.shape != slot.line.shape for each in left):
                slot.link.close()
        for shape in dict.fromkeys(each.shape for each in left):
            self._grow(shape, sum(each.shape == shape for each in left))

    def _with_room(self, shape: Shape) -> _Slot | None:
        fitting = (slot for slot in self._slots if slot.line.shape == shape and slot.has_room)
        return min(fitting, key=lambda slot: slot.calls, default=None)

    def _grow(self, shape: Shape, wanted: int) -> None:
        """Start slots for so many calls. Slots of other shapes that nobody uses make room for them."""
        starting = sum(slot.line.shape == shape and not slot.is_ready for slot in self._slots)
        missing = min(math.ceil(wanted / self._cluster.width), STARTING) - starting
        if missing > 0:
            self._let_go(shape)
        for _ in range(min(missing, self._cluster.most - len(self._slots))):
            self._start(shape)

    def _let_go(self, shape: Shape) -> None:
        for slot in self._slots:
            if slot.is_ready and slot.line.shape != shape and not slot.calls:
                slot.link.close()

    def _start(self, shape: Shape) -> None:
        if self._group is None or self.is_past:
            return
        line = SlotLine(self._sidecar, shape, self._cluster.width, self._command)
        link = Link(self._name, line, self._nodes, self._submitter, idle_s=self._cluster.idle_s)
        slot = _Slot(line, link)
        self._slots.append(slot)
        self._group.start_soon(self._hold, slot)

    async def _hold(self, slot: _Slot) -> None:
        """The life of a slot."""
        problem = None
        async with anyio.create_task_group() as group:
            group.start_soon(slot.link.serve)
            await slot.line.settled.wait()
            try:
                await slot.link.ready()
                slot.is_ready = True
                self._dispatch()
            except RyeError as exc:
                problem = exc
            await slot.link.over.wait()
        self._slots.remove(slot)
        if problem is not None:
            self._refuse(slot.line.shape, problem)
        self._dispatch()

    def _refuse(self, shape: Shape, problem: RyeError) -> None:
        """Tell those who wait for a shape that there will be no slot for it, unless others may still come."""
        for waiting in self._waiting:
            if waiting.shape == shape:
                waiting.failures += 1
                if problem.code == "no_fitting_node" or waiting.failures >= TRIES:
                    waiting.fail(problem)
