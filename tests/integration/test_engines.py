"""A tool that says so runs where a signed engine of its user leads, and everything tells where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.elsewhere import Place
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.results import Node
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.receipts import ReceiptStore
from tests.engine_world import Site, tool
from tests.worker_world import COUNTER, worker_above

pytestmark = pytest.mark.anyio


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path.resolve())
    made.pair.accept()
    made.pair.trust()
    made.pair.server.sign("demo/count.sh", tool())
    return made


async def test_a_tool_runs_on_the_node_and_both_logs_and_receipts_say_so(site: Site) -> None:
    site.engine()
    result = await site.run("demo/count", {"word": "hello"})
    assert (result.success, result.data) == (True, {"word": "hello"})
    assert (site.pair.counted, site.ran_here) == (1, False)
    assert (result.node.engine, result.node.key_id) == ("gpu1", site.node_key)
    assert result.as_dict()["node"]["run_id"] == result.node.run_id
    with ReceiptStore(site.pair.node.world.state) as there:
        assert there.of(result.node.run_id).digest == result.node.receipt
    with ReceiptStore(site.pair.server.world.state) as here:
        shown = here.of(result.run_id)
    assert shown.digest == result.receipt
    assert f'"key_id":"{site.node_key}"'.encode() in shown.payload
    assert site.told.read_text().split()[-4:] == ["--", "gpu1", "rye", "worker"]


@pytest.mark.thorough
async def test_workers_are_kept_for_the_next_call_and_gone_when_the_server_ends(site: Site) -> None:
    site.engine()
    async with site.executor() as executor:
        for _ in range(3):
            assert (await executor.run("demo/count")).success
    assert len(site.told.read_text().splitlines()) == 1
    assert site.pair.counted == 3


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("tool_says", "engine_says", "here"),
    [
        ((), {"takes": ["sim/*"]}, True),
        (("resources: {cpu: 2}",), {"offers": {"cpu": 1}}, True),
        (("resources: {cpu: 2, memory: 1GiB}",), {"offers": {"cpu": 2, "memory": "1024MiB"}}, False),
        (("resources: {gpu: 1}",), {}, True),
        (("placement: {labels: {accel: a100}}",), {}, True),
        (("placement: {labels: {accel: a100}}",), {"labels": {"accel": "a100", "zone": "b"}}, False),
    ],
    ids=["takes", "too little", "enough", "not offered", "no label", "label"],
)
async def test_what_does_not_fit_runs_here(site: Site, tool_says: Any, engine_says: Any, here: bool) -> None:
    site.pair.server.sign("demo/count.sh", tool(COUNTER, *tool_says))
    site.engine(**engine_says)
    result = await site.run()
    assert result.success
    assert (site.ran_here, site.pair.counted) == ((True, 0) if here else (False, 1))
    noticed = {each.code for each in result.notices}
    assert ("resources_not_enforced" in noticed) == any("resources" in line for line in tool_says)


async def test_what_runs_elsewhere_or_not_at_all_is_refused_where_nothing_fits(site: Site) -> None:
    site.pair.server.sign("demo/count.sh", tool(COUNTER, "placement: {required: true}"))
    for takes in ([], ["sim/*"]):
        if takes:
            site.engine(takes=takes)
        with pytest.raises(RyeError) as caught:
            await site.run()
        assert caught.value.code == "no_fitting_node"
    assert (site.ran_here, site.pair.counted) == (False, 0)


async def test_a_tool_without_a_workspace_runs_here_whatever_engines_take(site: Site) -> None:
    site.engine(takes=["*"])
    site.pair.server.sign("demo/count.sh", tool().replace("# workspace: none\n", ""))
    assert (await site.run()).success
    assert (site.ran_here, site.pair.counted) == (True, 0)


async def test_a_node_that_cannot_be_reached_is_told_of_and_nothing_runs_in_its_place(site: Site) -> None:
    site.engine()
    (site.bin / "ssh").write_text("#!/bin/sh\necho no route to host >&2; exit 255\n")
    with pytest.raises(RyeError) as caught:
        await site.run()
    assert caught.value.code == "engine_unreachable"
    assert "no route to host" in caught.value.message
    assert (site.ran_here, site.pair.counted) == (False, 0)


async def test_what_the_node_refuses_is_a_refusal_here_and_on_record_in_both_logs(site: Site) -> None:
    site.engine()
    for each in (site.pair.node.world.user_space / "trusted_keys").iterdir():
        each.unlink()
    with pytest.raises(RyeError) as caught:
        await site.run()
    assert caught.value.code == "untrusted_key"
    assert "on the node" in caught.value.hint
    assert caught.value.receipt is not None
    for world in (site.pair.server.world, site.pair.node.world):
        with RunLog(world.state) as log:
            assert [row.code for row in log.list()] == ["untrusted_key"]
    assert site.pair.counted == 0


@pytest.mark.first_case
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_that_is_lost_is_made_again_only_where_the_tool_says_that_it_may(
    site: Site, idempotent: bool
) -> None:
    script = 'echo run >> "$COUNTED"; [ "$(wc -l < "$COUNTED")" -gt 1 ] || { echo $$; sleep 600; }; echo done'
    site.pair.server.sign("demo/count.sh", tool(script, *(["idempotent: true"] if idempotent else [])))
    site.engine()
    killed = []

    def kill(stream: str, data: bytes, _skipped: int) -> None:
        if data.strip().isdigit():
            killed.append(worker_above(int(data)))
            os.kill(killed[-1], signal.SIGKILL)

    result = await site.run(watch=Watch(on_output=kill))
    assert len(killed) == 1
    if not idempotent:
        assert (result.code, site.pair.counted) == ("lost", 1)
        assert "may_run_until" in result.metadata
        assert result.hint == "look at what it has done before you run it again"
        return
    assert (result.success, result.data, site.pair.counted) == (True, "done\n", 2)
    assert [each.code for each in result.notices] == ["retried"]


async def test_a_dry_run_says_where_a_tool_would_run_and_starts_nothing(site: Site) -> None:
    text = "executor_id: rye/core/primitives/subprocess\nworkspace: none\nconfig: {command: /no/such}\n"
    site.pair.server.sign("demo/odd.yaml", text)
    async with site.executor() as executor:
        here = await executor.outlook("demo/odd")
        assert (here.place, here.obstacle and here.obstacle.code) == (None, "spawn_failed")
        site.engine()
        for found in (await executor.dry_run("demo/odd"), await executor.outlook("demo/odd")):
            assert found.as_dict()["runs_on"] == {"engine": "gpu1", "leads_to": "gpu1"}
            assert found.facts()["runs on"] == "gpu1, which leads to gpu1"
            assert (found.obstacle, found.enforceable) == (None, None)
    assert not site.told.exists()


async def test_a_dry_run_of_what_runs_elsewhere_or_not_at_all_says_that_nothing_fits(site: Site) -> None:
    site.pair.server.sign("demo/count.sh", tool(COUNTER, "placement: {required: true}"))
    async with site.executor() as executor:
        for look in (executor.dry_run, executor.outlook):
            with pytest.raises(RyeError) as caught:
                await look("demo/count", {})
            assert caught.value.code == "no_fitting_node"


class _Overdue:
    """An engine that has a call for too long, and the time that it was told."""

    node = Node("gpu1", "sha256:" + "0" * 64)

    def __init__(self) -> None:
        self.limits: list[float] = []

    async def fitting(self, _decided: Any) -> Any:
        return Place("gpu1", "nowhere", self._reach)

    async def close(self) -> None:
        """It has nothing open."""

    @asynccontextmanager
    async def _reach(self, _tell: Any) -> AsyncIterator[_Overdue]:
        yield self

    async def run(self, _bundle: bytes, _run_id: str, _watch: Watch, *, limit_s: float, tree: object) -> Any:
        assert tree is None
        self.limits.append(limit_s)
        raise RyeError("node_overdue", "expected an end, found none", sent=True)


async def test_a_call_that_a_node_does_not_end_is_told_of_and_made_only_once(site: Site) -> None:
    text = tool(COUNTER, "idempotent: true").replace("RYE_PARAM_}", "RYE_PARAM_, timeout: 7}")
    site.pair.server.sign("demo/count.sh", text)
    engines = _Overdue()
    async with site.executor() as executor:
        executor._open_engines = lambda: engines
        result = await executor.run("demo/count")
        await executor.run("demo/count", timeout=3)
    assert result.exit is not None
    assert (result.code, result.exit.kind, site.ran_here) == ("node_overdue", "lost", False)
    assert (result.hint or "").startswith("see what it did")
    assert engines.limits == [7, 3]
    with RunLog(site.pair.server.world.state) as log:
        assert [row.code for row in log.list()] == ["node_overdue"] * 2


@pytest.mark.thorough
def test_a_server_without_engines_loads_nothing_of_nodes() -> None:
    code = (
        "import sys, rye_mcp.server, rye_mcp.app, rye_mcp.executor.primitive_executor; "
        "print([m for m in sys.modules if m.startswith('rye_mcp.nodes') or m == 'rye_mcp.executor.engine'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
