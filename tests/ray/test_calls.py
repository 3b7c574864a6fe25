"""Calls on a Ray cluster are what they are everywhere else, and run on the nodes that fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.receipts import ReceiptStore
from tests.engine_world import tool
from tests.ray_world import RaySite, below
from tests.worker_world import COUNTER

pytestmark = pytest.mark.anyio


def key_of(result: ExecutionResult) -> str:
    assert result.node is not None
    return result.node.key_id


async def test_a_call_runs_on_a_node_and_both_logs_and_receipts_say_so(site: RaySite) -> None:
    site.engine()
    before = site.counted
    news: list[str] = []
    result = await site.run("demo/count", {"word": "hello"}, Watch(on_placing=news.append))
    assert (result.success, result.data) == (True, {"word": "hello"})
    assert (site.counted - before, site.ran_here) == (1, False)
    [node] = [each for each in site.grid.nodes if each.key.public.key_id == result.node.key_id]
    with ReceiptStore(node.world.state) as there:
        assert there.of(result.node.run_id).digest == result.node.receipt
    with RunLog(site.server.world.state) as log:
        assert [row.code for row in log.list()] == [None]
    assert news == ["queued, 0 ahead", "on grid"]
    assert result.as_dict()["node"]["queued_ms"] > 0


async def test_labels_and_resources_choose_the_node_and_what_fits_nowhere_is_said(site: RaySite) -> None:
    site.engine()
    labelled = site.grid.nodes[0]
    site.server.sign("demo/here.sh", tool(COUNTER, "placement: {labels: {accel: a100}}"))
    site.server.sign("demo/more.sh", tool(COUNTER, "resources: {cpu: 3}"))
    site.server.sign("demo/none.sh", tool(COUNTER, "placement: {labels: {accel: h100}}"))
    before = site.counted, labelled.counted
    async with site.executor() as executor:
        for _ in range(2):
            result = await executor.run("demo/here")
            assert result.success
            assert key_of(result) == labelled.key.public.key_id
        for item_id, wanted in (("demo/more", "cpu: 3"), ("demo/none", "the label accel: h100")):
            with pytest.raises(RyeError) as caught:
                await executor.run(item_id)
            assert caught.value.code == "no_fitting_node"
            assert wanted in caught.value.message
    assert (site.counted, labelled.counted) == (before[0] + 2, before[1] + 2)


async def test_many_calls_share_slots_on_several_nodes_and_each_runs_once(site: RaySite) -> None:
    site.engine()
    before = site.counted
    found: list[tuple[str, str]] = []
    news: list[str] = []
    async with site.executor() as executor, anyio.create_task_group() as group:

        async def call(number: int) -> None:
            result = await executor.run(
                "demo/count", {"word": str(number)}, watch=Watch(on_placing=news.append)
            )
            found.append((result.data["word"], key_of(result)))

        for number in range(24):
            group.start_soon(call, number)
    assert sorted(int(word) for word, _ in found) == list(range(24))
    assert site.counted - before == 24
    assert {key_id for _, key_id in found} == {each.key.public.key_id for each in site.grid.nodes}
    assert "queued, 23 ahead" in news


async def test_a_slot_of_another_shape_makes_room_when_nobody_uses_it(site: RaySite) -> None:
    site.engine(idle_s=600)
    site.server.sign(
        "demo/both.sh", tool(COUNTER, "resources: {cpu: 2}", "placement: {labels: {accel: a100}}")
    )
    site.server.sign("demo/one.sh", tool(COUNTER, "placement: {labels: {accel: a100}}"))
    async with site.executor() as executor:
        for item_id in ("demo/one", "demo/both", "demo/one"):
            assert (await executor.run(item_id)).success


async def test_a_call_for_which_there_is_no_room_for_long_says_so_and_runs_nowhere(site: RaySite) -> None:
    whole_node = ("resources: {cpu: 2}", "placement: {labels: {accel: a100}}")
    site.server.sign("demo/wait.sh", tool("echo begun; sleep 600", *whole_node))
    site.server.sign("demo/next.sh", tool(COUNTER, *whole_node))
    before = site.counted
    site.engine("grid")
    async with site.executor() as executor, anyio.create_task_group() as group:
        begun = anyio.Event()
        watch = Watch(on_output=lambda *_: begun.set())
        group.start_soon(partial(executor.run, "demo/wait", watch=watch))
        await begun.wait()
        site.engine("grid", patience_s=1)
        with pytest.raises(RyeError) as caught:
            await executor.run("demo/next")
        group.cancel_scope.cancel()
    assert (caught.value.code, site.counted) == ("no_fitting_node", before)
    assert "within 1 s" in caught.value.message


async def test_output_comes_as_it_is_written_and_a_long_result_whole(site: RaySite) -> None:
    site.engine()
    script = 'echo begun >&2; read -r line < "$COUNTED.go"; head -c 300000 /dev/zero | tr "\\0" x'
    site.server.sign("demo/long.sh", tool(script, "placement: {labels: {accel: a100}}"))
    heard = {"stdout": b"", "stderr": b""}

    def listen(stream: str, data: bytes, _skipped: int) -> None:
        heard[stream] += data
        if (stream, heard["stderr"]) == ("stderr", b"begun\n"):
            os.write(door, b"on\n")  # it waits for this: nothing but live output tells when

    with site.grid.nodes[0].door("counted.go") as door:
        result = await site.run("demo/long", watch=Watch(on_output=listen))
    assert result.success
    assert 0 < len(heard["stdout"]) <= 300_000
    assert result.data == "x" * 300_000


async def test_a_call_that_is_given_up_ends_on_the_node_with_all_that_it_started(site: RaySite) -> None:
    site.engine()
    site.server.sign("demo/wait.sh", tool("sleep 600 & echo $$ $!; wait"))
    pids = bytearray()
    async with site.executor() as executor:
        with anyio.CancelScope() as scope:

            def heard(_stream: str, data: bytes, _skipped: int) -> None:
                pids.extend(data)
                scope.cancel()

            await executor.run("demo/wait", watch=Watch(on_output=heard))
        assert len(pids.split()) == 2
        for pid in pids.split():
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid), 0)
        assert (await executor.run("demo/count")).success, "the slot goes on"


async def test_a_tool_for_which_the_node_does_not_accept_the_server_is_refused_there(site: RaySite) -> None:
    site.engine(takes=["demo/*", "other/*"])
    site.server.sign("other/count.sh", tool(COUNTER))
    before = site.counted
    async with site.executor() as executor:
        with pytest.raises(RyeError) as caught:
            await executor.run("other/count")
    assert caught.value.code == "node_refused"
    assert site.counted == before


async def test_a_node_that_the_engine_does_not_name_gets_no_call(site: RaySite) -> None:
    site.engine(nodes=["0" * 64])
    before = site.counted
    with pytest.raises(RyeError) as caught:
        await site.run()
    assert caught.value.code == "engine_unreachable"
    assert "expected a node that grid names" in caught.value.message
    assert site.counted == before


def maps_of_sidecars() -> Iterator[str]:
    """The files that are mapped into each process of this one that speaks to a cluster."""
    for pid in below(os.getpid()):
        process = Path(f"/proc/{pid}")
        if b"sidecar.py" in (process / "cmdline").read_bytes():
            yield (process / "maps").read_text()


async def test_the_process_that_speaks_to_the_cluster_holds_nothing_that_it_does_not_need(
    site: RaySite,
) -> None:
    site.engine()
    async with site.executor() as executor:
        assert (await executor.run("demo/count")).success
        mapped = list(maps_of_sidecars())
    assert any("_raylet" in each for each in mapped)
    assert not any("pydantic" in each for each in mapped)
