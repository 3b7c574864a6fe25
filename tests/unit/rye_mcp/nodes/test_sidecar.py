"""What speaks to a Ray cluster, without one: a slot with a worker, and what fits where."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.nodes import sidecar
from rye_mcp.nodes.sidecar import Slot, width_of
from tests.mcp_world import gone

pytestmark = pytest.mark.anyio

SMALL = {"Alive": True, "Resources": {"CPU": 2.0, "memory": 4e9}, "Labels": {}}
LARGE = {"Alive": True, "Resources": {"CPU": 8.0, "memory": 4e9, "GPU": 2.0}, "Labels": {"accel": "a100"}}


def shape(**wanted: Any) -> dict[str, Any]:
    return {"cpu": 1, "memory": 0, "gpu": 0, "labels": {}} | wanted


@pytest.mark.parametrize(
    ("wanted", "nodes", "width"),
    [
        (shape(), [SMALL], 2),
        (shape(), [SMALL, LARGE], 4),
        (shape(cpu=3), [SMALL], 0),
        (shape(cpu=3), [SMALL, LARGE], 2),
        (shape(cpu=0.5), [SMALL], 4),
        (shape(memory=3_000_000_000), [SMALL, LARGE], 1),
        (shape(memory=5_000_000_000), [SMALL, LARGE], 0),
        (shape(gpu=1), [SMALL], 0),
        (shape(gpu=1), [LARGE], 1),
        (shape(gpu=3), [LARGE], 0),
        (shape(labels={"accel": "a100"}), [SMALL], 0),
        (shape(labels={"accel": "h100"}), [SMALL, LARGE], 0),
        (shape(labels={"accel": "a100"}), [SMALL, LARGE], 4),
        (shape(), [LARGE | {"Alive": False}], 0),
        (shape(), [], 0),
    ],
)
def test_a_slot_is_as_wide_as_the_node_that_has_most_room(
    wanted: dict[str, Any], nodes: list[dict[str, Any]], width: int
) -> None:
    assert width_of(wanted, 4, nodes) == width


async def all_of(slot: Slot) -> bytes:
    found = b""
    while data := await slot.read():
        found += data
    return found


async def test_a_worker_is_given_its_bytes_in_order_and_says_how_it_ended() -> None:
    slot = Slot()
    await slot.begin(["/bin/cat"])
    for number, data in ((2, b"c"), (0, b"a"), (1, b"b")):
        await slot.feed(number, data)
    assert await slot.read() == b"abc"
    await slot.close()
    assert (await all_of(slot), await slot.end()) == (b"", b'[0, ""]')


async def test_a_worker_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "CLOSING_S", 0.01)
    slot = Slot()
    await slot.begin(["/bin/sleep", "600"])
    await slot.close()
    assert await slot.end() == b'[-9, ""]'
    await gone([slot._worker.pid])


def test_it_imports_the_standard_library_alone() -> None:
    text = Path(sidecar.__file__).read_text(encoding="utf-8")
    imported = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert {each.partition(".")[0] for each in imported} <= {*sys.stdlib_module_names, "__future__"}
