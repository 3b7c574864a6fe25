"""What dies or hangs in a Ray cluster is told of, in its time, and nothing runs twice or is left behind."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from tests.engine_world import tool
from tests.mcp_world import gone
from tests.ray_world import Grid, RaySite, below, is_alive, network
from tests.worker_world import above, worker_above

pytestmark = pytest.mark.anyio

SOON_S = 15.0
"""Less than a silence that counts: whoever tells so soon was told of the end."""

SILENCE_S = 35.0
"""The 20 s of a silence that counts, and what a busy machine takes."""

WAIT = 'echo run >> "$COUNTED"; echo $$; sleep 600'


def slot_above(pid: int) -> int:
    """The actor that a process of a run descends from."""
    return above(pid, lambda words: words[0].startswith("ray::"))


def raylet_above(pid: int) -> int:
    return above(pid, lambda words: words[0].endswith("/raylet"))


def sidecar(_pid: int) -> int:
    """The process of this server that speaks to the cluster."""
    return next(
        pid for pid in below(os.getpid()) if b"sidecar.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


async def lost(site: RaySite, kill: Callable[[int], None], within_s: float) -> Any:
    """What comes of a call while something of it is killed, and how its process on the node is."""
    pids: list[int] = []
    killed: list[float] = []

    def heard(_stream: str, data: bytes, _skipped: int) -> None:
        pids.append(int(data))
        killed.append(time.monotonic())
        kill(pids[0])

    async with site.executor() as executor:
        result = await executor.run("demo/wait", watch=Watch(on_output=heard))
        told = time.monotonic() - killed[0]
        with anyio.fail_after(within_s):
            await gone([pids[0]])
    assert told < within_s
    return result


@pytest.mark.parametrize("victim", [worker_above, slot_above, sidecar], ids=["worker", "slot", "sidecar"])
async def test_what_is_killed_is_told_of_and_takes_the_run_with_it(
    site: RaySite, victim: Callable[[int], int]
) -> None:
    site.engine()
    site.server.sign("demo/wait.sh", tool(WAIT))
    before = site.counted
    result = await lost(site, lambda pid: os.kill(victim(pid), signal.SIGKILL), within_s=SOON_S)
    assert (result.code, site.counted - before) == ("lost", 1)
    assert "may_run_until" in result.metadata


async def test_a_node_that_is_lost_is_told_of_and_its_calls_end_and_the_next_call_runs_on_another(
    site: RaySite, grid: Grid
) -> None:
    gone = grid.add(f"{network()}.5", "--labels", "spare=yes")
    try:
        spare = RaySite(site.server.world.root.parent / "spare", grid)
        spare.engine()
        spare.server.sign("demo/wait.sh", tool(WAIT, 'placement: {labels: {spare: "yes"}}'))
        result = await lost(spare, lambda pid: os.kill(raylet_above(pid), signal.SIGKILL), within_s=SOON_S)
        assert (result.code, gone.counted) == ("lost", 1)
        assert (await spare.run("demo/count")).success
    finally:
        grid.remove(gone)


async def test_what_hangs_on_either_side_ends_the_call_and_both_are_told(tmp_path: Path, grid: Grid) -> None:
    """At once, because each takes 20 s to be noticed: a worker, a slot and a server."""
    sites = [RaySite(tmp_path / name, grid) for name in ("worker", "slot", "server")]
    before = sum(node.counted for node in grid.nodes)
    for site in sites:
        site.engine(width=1)
        site.server.sign("demo/wait.sh", tool(WAIT))
    async with anyio.create_task_group() as group:
        group.start_soon(hangs_on_the_node, sites[0], worker_above)
        group.start_soon(hangs_on_the_node, sites[1], slot_above)
        group.start_soon(server_hangs, sites[2])
    assert sum(node.counted for node in grid.nodes) - before == 3


async def hangs_on_the_node(site: RaySite, victim: Callable[[int], int]) -> None:
    """It is given up, and the caller hears until when the run may go on."""
    stopped: list[int] = []

    def stop(pid: int) -> None:
        stopped.append(victim(pid))
        os.kill(stopped[0], signal.SIGSTOP)

    try:
        result = await lost(site, stop, within_s=SILENCE_S)
    finally:
        for pid in stopped:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
    assert result.code == "lost"
    assert "may_run_until" in result.metadata


async def server_hangs(site: RaySite) -> None:
    """Its call is ended on the node, and it is told when it goes on."""
    with site.start_a_server("demo/wait") as server:
        assert server.stdout is not None
        pid = int(await anyio.to_thread.run_sync(server.stdout.readline))
        server.send_signal(signal.SIGSTOP)
        try:
            with anyio.fail_after(SILENCE_S):
                await gone([pid])
        finally:
            server.send_signal(signal.SIGCONT)
        told = await anyio.to_thread.run_sync(server.stdout.read)
    assert told.split()[-1] in ("cancelled", "lost")


async def test_a_call_that_may_run_again_does_so_in_another_slot(site: RaySite) -> None:
    site.engine()
    script = f'[ -e "$COUNTED.once" ] && rm "$COUNTED.once" && echo done && exit; : > "$COUNTED.once"; {WAIT}'
    labels = "placement: {labels: {accel: a100}}"
    site.server.sign("demo/wait.sh", tool(script, "idempotent: true", labels))
    killed: list[int] = []

    def heard(_stream: str, data: bytes, _skipped: int) -> None:
        if data.strip().isdigit():
            killed.append(worker_above(int(data)))
            os.kill(killed[0], signal.SIGKILL)

    result = await site.run("demo/wait", watch=Watch(on_output=heard))
    assert (result.success, result.data, len(killed)) == (True, "done\n", 1)
    assert [each.code for each in result.notices] == ["retried"]


async def test_a_server_that_is_killed_leaves_nothing_on_the_node(site: RaySite) -> None:
    site.engine()
    site.server.sign("demo/wait.sh", tool(WAIT))
    before = site.counted
    with site.start_a_server("demo/wait") as server:
        assert server.stdout is not None
        pid = int(await anyio.to_thread.run_sync(server.stdout.readline))
        server.kill()
    with anyio.fail_after(10):
        await gone([pid])
    assert site.counted - before == 1


async def test_a_wrong_token_and_a_dead_host_are_unreachable_and_nothing_runs(site: RaySite) -> None:
    before = site.counted
    wrong = site.server.world.root / "token"
    wrong.write_text("0" * 64)
    wrong.chmod(0o600)
    with socket.socket() as nobody:
        nobody.bind((site.grid.here, 0))
        dead = f"{site.grid.here}:{nobody.getsockname()[1]}"
        for cluster in ({"token_file": str(wrong)}, {"address": dead}):
            site.engine(**cluster)
            with anyio.fail_after(45), pytest.raises(RyeError) as caught:
                await site.run()
            assert caught.value.code == "engine_unreachable"
    assert (site.counted, site.ran_here) == (before, False)


async def test_a_python_without_ray_says_which_package_is_missing(site: RaySite) -> None:
    site.engine(python="/usr/bin/python3")
    with pytest.raises(RyeError) as caught:
        await site.run()
    assert caught.value.code == "engine_unreachable"
    assert "rye-mcp[ray]" in caught.value.message
