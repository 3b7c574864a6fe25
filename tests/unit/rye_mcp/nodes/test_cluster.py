"""Slots of a cluster: where calls wait for room, and what ends their waiting.

The cluster here is a twin that answers as a test says; tests/ray has a real one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux._frames import FrameDecoder, decode_header, encode_frame
from rye_mcp.errors import RyeError
from rye_mcp.metadata import Cluster
from rye_mcp.nodes import cluster as module
from rye_mcp.nodes.cluster import TRIES, RayCluster, Shape
from rye_mcp.nodes.lines import Hear, Sink
from rye_mcp.nodes.seal import Instance
from rye_mcp.receipts.runner import RunnerKey, RunnerKeys

pytestmark = pytest.mark.anyio

SHAPE = Shape(2.0, 0, 1, frozenset({("zone", "a")}))
CLUSTER = Cluster("10.0.0.1:6379", width=1, most=1)

Answer = Callable[["Twin", dict[str, Any]], None]


def connected(twin: Twin, _: dict[str, Any]) -> None:
    twin.say({"op": "connected"})


def silent(_: Twin, __: dict[str, Any]) -> None:
    """Say nothing."""


def ended(how: str, **more: Any) -> Answer:
    return lambda twin, asked: twin.say({"op": "ended", "slot": asked["slot"], "how": how, **more})


@dataclass
class Twin:
    """The program that speaks to the cluster, as a test has it answer."""

    node: RunnerKey
    on_open: Answer
    on_connect: Answer = connected
    said: str = ""
    ends: str | None = None
    heard: list[dict[str, Any]] = field(default_factory=list)
    _hear: Hear = field(default=lambda _: None)
    _frames: FrameDecoder = field(default_factory=FrameDecoder)
    _over: anyio.Event = field(default_factory=anyio.Event)

    async def carry(self, hear: Hear, begin: Callable[[Sink], None]) -> str:
        self._hear = hear
        begin(self)
        if self.ends is None:
            await self._over.wait()
        return self.ends or "its end"

    def tell(self, data: bytes) -> None:
        for raw, _ in self._frames.feed(data):
            header = decode_header(raw)
            self.heard.append(header)
            match header["op"]:
                case "connect":
                    self.on_connect(self, header)
                case "open":
                    self.on_open(self, header)

    def end_input(self) -> None:
        self._over.set()

    def say(self, header: dict[str, Any], payload: bytes = b"") -> None:
        self.raw(encode_frame(header, payload))

    def raw(self, data: bytes) -> None:
        self._hear(data)

    def place(self, asked: dict[str, Any]) -> None:
        """Have a worker be there."""
        instance = Instance.begin(self.node, lambda _: None, package="1")
        self.say({"op": "placed", "slot": asked["slot"], "width": asked["width"]})
        self.say({"op": "said", "slot": asked["slot"]}, encode_frame(instance.hello()))

    @property
    def opened(self) -> int:
        """How many slots the cluster was asked for."""
        return sum(header["op"] == "open" for header in self.heard)


@pytest.fixture
def node(tmp_path: Path) -> RunnerKey:
    return RunnerKeys(tmp_path / "node").ready({})


@asynccontextmanager
async def served(twin: Twin, cluster: Cluster = CLUSTER) -> AsyncIterator[RayCluster]:
    made = RayCluster("grid", cluster, twin, [twin.node.public.key_id], twin.node, command=["rye", "worker"])
    async with anyio.create_task_group() as group:
        group.start_soon(made.serve)
        try:
            yield made
        finally:
            made.close()


async def refusal(made: RayCluster, shape: Shape = SHAPE) -> RyeError:
    with pytest.raises(RyeError) as caught:
        async with made.placed(shape, lambda _: None):
            pytest.fail("expected no slot")
    return caught.value


async def test_calls_wait_for_room_in_order_and_share_the_slot_that_is_there(node: RunnerKey) -> None:
    twin, told, order = Twin(node, Twin.place), list[str](), list[str]()

    async def second(made: RayCluster) -> None:
        async with made.placed(SHAPE, told.append):
            order.append("second")

    async with served(twin) as made, anyio.create_task_group() as group, made.placed(SHAPE, told.append):
        group.start_soon(second, made)
        await anyio.wait_all_tasks_blocked()
        order.append("first")
    assert order == ["first", "second"]
    assert told == ["queued, 0 ahead"] * 2
    assert twin.opened == 1


async def test_a_call_that_no_node_fits_is_refused_at_once(node: RunnerKey) -> None:
    async with served(Twin(node, ended("", unfit=True))) as made:
        error = await refusal(made)
    assert error.code == "no_fitting_node"
    assert "cpu: 2, gpu: 1, the label zone: a" in error.message


async def test_a_call_is_tried_in_some_slots_and_then_refused(node: RunnerKey) -> None:
    twin = Twin(node, ended("that it ended with exit code 3", said="no such file"))
    async with served(twin, replace(CLUSTER, patience_s=5.0)) as made:
        error = await refusal(made)
    assert error.code == "engine_unreachable"
    assert "exit code 3. It said: no such file" in error.message
    assert twin.opened == TRIES


async def test_a_call_waits_for_room_no_longer_than_the_engine_says(node: RunnerKey) -> None:
    async with served(Twin(node, silent), replace(CLUSTER, patience_s=0.05)) as made:
        error = await refusal(made)
    assert (error.code, "found none" in error.message) == ("no_fitting_node", True)
    assert "patience_s" in str(error.hint)


async def test_a_worker_of_another_key_gets_no_call(node: RunnerKey, tmp_path: Path) -> None:
    stranger = RunnerKeys(tmp_path / "stranger").ready({})
    twin = Twin(node, lambda twin, asked: Twin.place(replace_node(twin, stranger), asked))
    async with served(twin) as made:
        error = await refusal(made)
    assert "expected a node that grid names" in error.message


def replace_node(twin: Twin, node: RunnerKey) -> Twin:
    """The same line, with a worker of another node."""
    return replace(twin, node=node)


LOST: dict[str, tuple[dict[str, Any], str]] = {
    "bytes that are no frames": (
        {"on_connect": lambda twin, _: twin.raw(b"\xff" * 8)},
        "found something else than frames",
    ),
    "it cannot connect": (
        {"on_connect": lambda twin, _: twin.say({"op": "failed", "how": "a wrong token"})},
        "found a wrong token",
    ),
    "it ends": (
        {"on_connect": silent, "ends": "that it ended with exit code 1", "said": "no ray"},
        "found that it ended with exit code 1. It said: no ray",
    ),
    "it ends later": ({"ends": "that it ended by the signal 9"}, "by the signal 9"),
}


@pytest.mark.parametrize("case", LOST)
async def test_a_cluster_that_is_lost_is_told_of_and_takes_no_more_calls(node: RunnerKey, case: str) -> None:
    how, found = LOST[case]
    async with served(Twin(node, silent, **how), replace(CLUSTER, patience_s=5.0)) as made:
        for _ in range(2):
            error = await refusal(made)
            assert error.code == "engine_unreachable"
            assert found in error.message
            await made.over.wait()


async def test_a_cluster_that_does_not_answer_is_given_up(
    node: RunnerKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT_S", 0.05)
    async with served(Twin(node, silent, on_connect=silent)) as made:
        error = await refusal(made)
    assert error.code == "engine_unreachable"
    assert "found no answer within 0.05 s" in error.message


async def test_slots_that_nobody_uses_make_room_for_another_shape(node: RunnerKey) -> None:
    twin, other = Twin(node, Twin.place), replace(SHAPE, gpu=0)
    async with served(twin) as made:
        for shape in (SHAPE, other):
            async with made.placed(shape, lambda _: None) as link:
                assert link.hello is not None
    assert [header["shape"]["gpu"] for header in twin.heard if header["op"] == "open"] == [1, 0]
    assert sum(header["op"] == "close" for header in twin.heard) == 2
