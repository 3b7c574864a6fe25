"""What dies or hangs of the cluster itself, its head or a node, is told of in its time."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from tests.engine_world import tool
from tests.mcp_world import gone
from tests.ray_world import Grid, RaySite, below, is_alive, network, short_directory
from tests.worker_world import above

pytestmark = pytest.mark.anyio

SETTINGS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "8",
}
"""Ray notices within seconds what it usually notices after a minute."""

PYTHON = """\
#!/bin/sh
export RAY_gcs_rpc_server_reconnect_timeout_s=8
exec {python} "$@"
"""
"""The same for the process that speaks to the cluster, which gets no variable of Ray from its server."""

NOTICED_S = 60.0
"""By when something of that is told of, on a busy machine."""

SILENCE_S = 35.0
"""The 15 s after which a worker ends a call that nobody asks about, and what a busy machine takes."""

WAIT = 'echo run >> "$COUNTED"; echo $$; sleep 600'


@pytest.fixture
def own() -> Iterator[Grid]:
    """A cluster that a test may break."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: make test-ray")
    with short_directory() as root:
        made = Grid(root, f"{network()}.8", SETTINGS)
        try:
            made.add(f"{network()}.9")
            yield made
        finally:
            made.stop()


@pytest.fixture
def site(tmp_path: Path, own: Grid) -> RaySite:
    made = RaySite(tmp_path.resolve(), own)
    python = tmp_path / "python"
    python.write_text(PYTHON.format(python=shlex.quote(sys.executable)))
    python.chmod(0o755)
    made.engine(python=str(python.resolve()))
    made.server.sign("demo/wait.sh", tool(WAIT))
    made.server.sign("demo/large.sh", tool('echo large >> "$COUNTED"', "resources: {cpu: 2}"))
    return made


def store_of(grid: Grid) -> int:
    """The process of a cluster that knows its nodes."""
    commands = {
        pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] for pid in below(grid.head.process.pid)
    }
    return next(pid for pid, command in commands.items() if command.endswith(b"/gcs_server"))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGCONT)


def raylet_above(pid: int) -> int:
    return above(pid, lambda words: words[0].endswith("/raylet"))


async def test_a_store_that_hangs_holds_up_what_needs_another_slot_and_one_that_is_killed_all(
    site: RaySite, own: Grid
) -> None:
    pids: list[int] = []

    def kill(_stream: str, data: bytes, _skipped: int) -> None:
        pids.append(int(data))
        os.kill(store_of(own), signal.SIGKILL)

    async with site.executor() as executor:
        assert (await executor.run("demo/count")).success
        with stopped(store_of(own)):
            with anyio.fail_after(SILENCE_S):
                assert (await executor.run("demo/count")).success
            with anyio.fail_after(NOTICED_S), pytest.raises(RyeError) as hung:
                await executor.run("demo/large")
            assert (hung.value.code, site.counted) == ("engine_unreachable", 2)
        with anyio.fail_after(2 * NOTICED_S):
            result = await executor.run("demo/wait", watch=Watch(on_output=kill))
        assert (result.code, len(pids), site.counted) == ("lost", 1, 3)
        with anyio.fail_after(SILENCE_S):
            await gone(pids)
        with anyio.fail_after(NOTICED_S), pytest.raises(RyeError) as killed:
            await executor.run("demo/count")
    assert (killed.value.code, site.counted, site.ran_here) == ("engine_unreachable", 3, False)


async def test_a_node_that_hangs_is_told_of_and_its_worker_ends_the_run(site: RaySite) -> None:
    pids: list[int] = []
    with ExitStack() as stack:

        def stop(_stream: str, data: bytes, _skipped: int) -> None:
            pids.append(int(data))
            stack.enter_context(stopped(raylet_above(pids[0])))

        async with site.executor() as executor:
            with anyio.fail_after(NOTICED_S):
                result = await executor.run("demo/wait", watch=Watch(on_output=stop))
            assert (result.code, len(pids), site.counted) == ("lost", 1, 1)
            with anyio.fail_after(SILENCE_S):
                await gone(pids)
            with pytest.raises(RyeError) as caught:
                await executor.run("demo/count")
    assert (caught.value.code, site.counted, site.ran_here) == ("no_fitting_node", 1, False)
