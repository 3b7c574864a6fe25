"""Calls of a server run on a node by what its user trusts, and end with whoever asked for them."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import time
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.nodes.worker import MAX_CALLS
from rye_mcp.runs.ids import time_of
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.verbs.receipts import ReceiptSources, verify_everything
from tests.worker_world import COUNTER, Pair, bash_tool, worker_above

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair.at(tmp_path.resolve())
    made.server.sign("demo/count.sh", bash_tool(COUNTER, schema="{properties: {word: {type: string}}}"))
    return made


async def test_a_call_runs_on_the_node_and_its_log_has_it(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    async with pair.linked() as link:
        remote = await pair.call(link, await pair.bundle("demo/count", {"word": "hello"}))
    assert remote.outcome.data == {"word": "hello"}
    assert pair.counted == 1
    assert remote.sealed
    with RunLog(pair.node.world.state) as log:
        [row] = log.list()
    assert (row.run_id, row.item_id, row.code) == (remote.run_id, "demo/count", None)
    with ReceiptStore(pair.node.world.state) as store:
        checked = verify_everything(
            ReceiptSources(pair.node.world.state, pair.node.world.trust().store), store
        )
        assert store.of(row.run_id).digest == remote.receipt
    assert (checked.receipts, checked.problems) == (1, ())


@pytest.mark.thorough
async def test_many_calls_share_a_worker(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    bundles = [await pair.bundle("demo/count", {"word": str(number)}) for number in range(8)]
    found = {}
    async with pair.linked() as link, anyio.create_task_group() as group:
        for number, bundle in enumerate(bundles):

            async def call(number: int = number, bundle: bytes = bundle) -> None:
                found[number] = (await pair.call(link, bundle)).outcome.data

            group.start_soon(call)
    assert found == {number: {"word": str(number)} for number in range(8)}
    assert pair.counted == 8


async def test_output_comes_as_it_is_written_and_a_long_result_whole(pair: Pair) -> None:
    script = 'echo begun >&2; read -r line < "$HOME/go"; head -c 300000 /dev/zero | tr "\\0" x'
    pair.server.sign("demo/long.sh", bash_tool(script))
    pair.accept()
    pair.trust()
    heard = bytearray()
    go = pair.node.world.root / "home/go"
    os.mkfifo(go)
    door = os.open(go, os.O_RDWR)

    def listen(stream: str, data: bytes, _skipped: int) -> None:
        heard.extend(data if stream == "stderr" else b"")
        if stream == "stderr" and heard == b"begun\n":
            os.write(door, b"on\n")  # it waits for this: nothing but live output tells when

    async with pair.linked() as link:
        remote = await pair.call(link, await pair.bundle("demo/long"), Watch(on_output=listen))
    os.close(door)
    assert remote.outcome.data == "x" * 300_000


async def test_a_failure_arrives_with_what_was_said(pair: Pair) -> None:
    pair.server.sign("demo/fail.sh", bash_tool("echo oh no >&2; exit 3"))
    pair.accept()
    pair.trust()
    async with pair.linked() as link:
        remote = await pair.call(link, await pair.bundle("demo/fail"))
    assert (remote.outcome.code, remote.outcome.exit.return_code) == ("tool_failed", 3)
    assert remote.outcome.stderr == "oh no\n"


@pytest.mark.thorough
async def test_a_call_that_is_given_up_ends_there_with_all_that_it_started(pair: Pair) -> None:
    pair.server.sign("demo/wait.sh", bash_tool("sleep 600 & echo $$ $!; wait"))
    pair.accept()
    pair.trust()
    pids = bytearray()
    bundle = await pair.bundle("demo/wait")
    async with pair.linked() as link:
        with anyio.CancelScope() as scope:

            def heard(_stream: str, data: bytes, _skipped: int) -> None:
                pids.extend(data)
                scope.cancel()

            await pair.call(link, bundle, Watch(on_output=heard))
        for pid in pids.split():
            with pytest.raises(ProcessLookupError):
                os.kill(int(pid), 0)
        assert (await pair.call(link, await pair.bundle("demo/count"))).outcome.success, "it goes on"
    with RunLog(pair.node.world.state) as log:
        assert [each.code for each in log.list()] == [None, "cancelled"]


@pytest.mark.thorough
async def test_more_calls_than_a_worker_does_at_a_time_wait_for_their_turn(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    bundle, done = await pair.bundle("demo/count"), []
    async with pair.linked() as link, anyio.create_task_group() as group:

        async def call() -> None:
            done.append((await pair.call(link, bundle)).outcome.success)

        for _ in range(MAX_CALLS + 6):
            group.start_soon(call)
    assert done == [True] * (MAX_CALLS + 6)
    assert pair.counted == MAX_CALLS + 6


@pytest.mark.first_case
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_worker_that_dies_or_hangs_is_told_of_and_never_waited_for(
    pair: Pair, sign: signal.Signals
) -> None:
    pair.server.sign("demo/wait.sh", bash_tool("echo $$ $PPID; sleep 600"))
    pair.accept()
    pair.trust()
    pids = bytearray()
    async with pair.linked(give_up_s=5.0, ping_s=0.2) as link:

        def heard(_stream: str, data: bytes, _skipped: int) -> None:
            pids.extend(data)
            os.kill(worker_above(int(pids.split()[0])), sign)

        with pytest.raises(RyeError) as caught:
            await pair.call(link, await pair.bundle("demo/wait"), Watch(on_output=heard))
    assert caught.value.code == "lost"
    assert caught.value.details["sent"] is True
    assert "may_run_until" in caught.value.details
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.split()[0]), 0)  # whoever closes the link ends the worker, and all below it


async def test_a_worker_that_cannot_be_started_says_why(pair: Pair) -> None:
    for command in (["/no/such/program"], ["/bin/false"], ["/bin/echo", "hello"]):
        async with pair.linked(command=command) as link:
            with pytest.raises(RyeError) as caught:
                await pair.call(link, await pair.bundle("demo/count"))
        assert caught.value.code == "engine_unreachable"
    assert pair.counted == 0


WRONG_CLOCK = """\
import sys, time
now, now_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: now() + {off}, lambda: now_ns() + {off} * 10**9
from rye_mcp.cli import main
sys.argv = ["rye", "worker"]
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("off", [-3600, 3600])
async def test_a_clock_that_is_an_hour_off_is_no_hindrance(pair: Pair, off: int) -> None:
    pair.accept()
    pair.trust()
    async with pair.linked(command=[sys.executable, "-P", "-c", WRONG_CLOCK.format(off=off)]) as link:
        remote = await pair.call(link, await pair.bundle("demo/count"))
    assert remote.outcome.success
    apart = time_of(remote.run_id).timestamp() - time.time()
    assert abs(apart - off) < 600, "the node does think that it is another time"


MISTAKE = """\
import sys
import sysconfig
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
async def broken(self, bundle, *, granted=None, watch=None):
    {begun}
    raise LookupError("a mistake")
PrimitiveExecutor.run_bundle = broken
from rye_mcp.cli import main
sys.argv = ["rye", "worker"]
main()
"""


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("begun", "code"), [("pass", "internal"), ('watch.on_begun("0" * 26)', "lost")], ids=["before", "after"]
)
async def test_a_mistake_of_the_node_is_a_refusal_only_before_the_run_has_begun(
    pair: Pair, begun: str, code: str
) -> None:
    pair.accept()
    async with pair.linked(command=[sys.executable, "-P", "-c", MISTAKE.format(begun=begun)]) as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, await pair.bundle("demo/count"))
    assert caught.value.code == code
    assert caught.value.details.get("sent", False) is (code == "lost")


FULL_DISK = 'ulimit -f 0; exec "$0" worker'


@pytest.mark.thorough
async def test_a_node_whose_disk_is_full_runs_nothing_and_says_so(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    rye = str(Path(sysconfig.get_path("scripts"), "rye"))
    async with pair.linked() as link:
        assert (await pair.call(link, await pair.bundle("demo/count"))).outcome.success
    async with pair.linked(command=["/bin/sh", "-c", FULL_DISK, rye]) as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, await pair.bundle("demo/count"))
    assert (caught.value.code, pair.counted) == ("write_failed", 1)
    assert "on the node" in caught.value.hint
