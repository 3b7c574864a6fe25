"""Nothing survives a warm call either, whatever its tool has done, and whoever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from rye_mcp.executor.primitive_executor import Watch
from tests.integration.test_warm_calls import calls, function, tool, waiting
from tests.runtime_workshop import Workshop
from tests.trust_world import World

GONE_S = 30.0

pytestmark = pytest.mark.thorough

FREE, CONFINED = "", 'PERMISSIONS = {"project": "read"}'
RIGHTS = pytest.mark.parametrize(
    "rights", [pytest.param(FREE, id="free"), pytest.param(CONFINED, id="confined")]
)

BEGIN = """\
import signal, time

def leave(token, *, forks=1, session=False, refuses=False):
    ready, said = os.pipe()
    if os.fork():
        os.close(said)
        os.read(ready, 1)  # until the last one executes another program
        os.close(ready)
        return
    if session:
        os.setsid()
    for _ in range(forks - 1):
        if os.fork():
            os._exit(0)
    if refuses:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    os.execv("/bin/sh", ["sh", "-c", "while :; do sleep 3600; done", token])

token = params["token"]
"""
WAYS = {
    "a child": "leave(token)",
    "a daemon": "leave(token, forks=2, session=True)",
    "a deep one": "leave(token, forks=12, session=True)",
    "one that refuses to end": "leave(token, refuses=True)",
    "a daemon that refuses": "leave(token, forks=3, session=True, refuses=True)",
    "many": "for _ in range(12): leave(token, session=True)",
}
"""What a tool leaves behind. It holds the streams of the tool open."""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


def with_token(token: str) -> Iterator[int]:
    """The processes that a tool has left."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if token.encode() in words and b"-c" in words:
            yield int(place.name)


def require_gone(token: str) -> None:
    deadline = time.monotonic() + GONE_S
    while left := [*with_token(token)]:
        assert time.monotonic() < deadline, left


@RIGHTS
@pytest.mark.parametrize("way", WAYS)
async def test_what_a_warm_call_leaves_behind_is_ended(workshop: Workshop, way: str, rights: str) -> None:
    item_id = tool(workshop, function(f"{BEGIN}{WAYS[way]}\nreturn os.getpid()"), more=rights)
    async with calls(workshop) as run:
        await run.run(item_id, token=os.urandom(8).hex())
        for _ in range(2):
            token = os.urandom(8).hex()
            await run.data(item_id, token=token)
            assert not [*with_token(token)]


@RIGHTS
async def test_a_warm_call_that_takes_too_long_is_ended_with_all_that_it_started(
    workshop: Workshop, rights: str
) -> None:
    body = f"{BEGIN}leave(token, session=True, refuses=True)\nif params['stays']: signal.pause()\nreturn 1"
    item_id = tool(workshop, function(body), more=rights)
    async with calls(workshop) as run:
        await run.run(item_id, token="first", stays=False)
        token = os.urandom(8).hex()
        result = await run.executor.execute(item_id, {"token": token, "stays": True}, timeout=1)
        assert (result.runtime and result.runtime.is_warm, result.code) == (True, "timeout")
        assert not [*with_token(token)]


KILLED = {"zygote": 0, "keeper": 1, "supervisor": 2}
"""How many generations above the zygote."""

STAYS = f"""\
{BEGIN}leave(token, forks=2, session=True)
print("ready")
if params["pipe"]:
    open(params["pipe"]).close()
return 1"""


@RIGHTS
@pytest.mark.parametrize("killed", KILLED)
async def test_nothing_survives_a_kill_during_a_warm_call(
    workshop: Workshop, killed: str, rights: str
) -> None:
    item_id = tool(workshop, function(STAYS), more=rights)
    pipe, token = workshop.project / "pipe", os.urandom(8).hex()
    os.mkfifo(pipe)
    found, ready = [], anyio.Event()

    def heard(*_: object) -> None:
        ready.set()

    async with calls(workshop) as run:
        await run.run(item_id, token="first", pipe="")
        pid = zygote()

        async def call() -> None:
            parameters = {"token": token, "pipe": str(pipe)}
            found.append(await run.executor.execute(item_id, parameters, watch=Watch(on_output=heard)))

        with anyio.fail_after(GONE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await ready.wait()
                assert [*with_token(token)]
                os.kill(ancestor(pid, KILLED[killed]), signal.SIGKILL)
                if killed == "zygote":  # what was forked goes on without it
                    await anyio.to_thread.run_sync(pipe.write_text, "")
        assert found[0].success is (killed == "zygote"), found[0]
        require_gone(token)
        assert (await run.run(item_id, token="last", pipe="")).success


def zygote() -> int:
    """The one that was there before what was forked from it."""
    return min((int(pid) for pid in waiting()), key=lambda pid: int(stat_of(pid)[19]))


def stat_of(pid: int) -> list[str]:
    return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()


def ancestor(pid: int, generations: int) -> int:
    for _ in range(generations):
        pid = int(stat_of(pid)[1])
    return pid
