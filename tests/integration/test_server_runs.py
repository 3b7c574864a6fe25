"""Runs over MCP: how far they are, how they are ended, and what keeps the two streams clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import SERVER, Mode, Workshop, facts, gone, is_alive, python_tool, read, write
from tests.people import SCRIPTS

pytestmark = pytest.mark.anyio

STUBBORN = """\
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
with open(params["pipe"], "w") as pipe:
    pipe.write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""

OVERSIZED = b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": {"_meta": {"a": "%s"}}}' % (
    b"x" * (33 << 20)
)

HANDSHAKE: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


class Heard:
    """What a client was told of a call."""

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str]] = []
        self.is_enough = anyio.Event()
        self.wanted = ""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message or ""))
        if self.wanted in (message or ""):
            self.is_enough.set()


async def test_what_a_tool_prints_is_told_while_it_runs(workshop: Workshop, mode: Mode) -> None:
    pipe = workshop.pipe()
    workshop.tool(
        "demo/talk",
        'print("half of it \\x1b[2J\\u202e", flush=True)\nprint("not a line yet", end="", flush=True)\n'
        'open(params["pipe"]).read()\nprint(" done")',
    )
    heard = Heard()
    heard.wanted = "half of it"
    results: list[Any] = []
    with anyio.fail_after(50):
        async with workshop.served(mode) as client, anyio.create_task_group() as group:

            async def call() -> None:
                arguments = {"item_id": "demo/talk", "parameters": {"pipe": str(pipe)}}
                results.append(await client.call_tool("execute", arguments, progress_callback=heard))

            group.start_soon(call)
            await heard.is_enough.wait()
            assert not results
            await write(pipe)
    assert facts(results[0])["status"] == "success"
    times = [progress for progress, _, _ in heard.told]
    assert times == sorted(set(times))
    assert {total for _, total, _ in heard.told} == {None}
    messages = [message for _, _, message in heard.told]
    assert "half of it \\x1b[2J\\u202e" in messages
    assert not any(message == "not a line yet" for message in messages)


@pytest.mark.thorough
async def test_a_silent_tool_has_a_heartbeat(workshop: Workshop, mode: Mode) -> None:
    pipe = workshop.pipe()
    workshop.tool("demo/quiet", 'open(params["pipe"]).read()')
    heard = Heard()
    heard.wanted = "running for"
    with anyio.fail_after(50):
        async with workshop.served(mode) as client, anyio.create_task_group() as group:

            async def call() -> None:
                arguments = {"item_id": "demo/quiet", "parameters": {"pipe": str(pipe)}}
                await client.call_tool("execute", arguments, progress_callback=heard)

            group.start_soon(call)
            await heard.is_enough.wait()
            await write(pipe)
    assert 2 <= heard.told[0][0] < 20


async def test_what_is_refused_is_refused_as_usual_when_somebody_wants_to_hear(
    workshop: Workshop, mode: Mode
) -> None:
    async with workshop.served(mode) as client:
        result = await client.call_tool("execute", {"item_id": "demo/none"}, progress_callback=Heard())
    assert facts(result)["code"] == "item_not_found"


@pytest.mark.first_case
@pytest.mark.parametrize("ending", ["cancel", "close"])
async def test_a_tool_that_will_not_end_is_ended_within_a_second(
    workshop: Workshop, mode: Mode, ending: str
) -> None:
    pipe = workshop.pipe()
    workshop.tool("demo/stubborn", STUBBORN)
    calls = anyio.CancelScope()
    with anyio.fail_after(50):
        async with workshop.served(mode) as client, anyio.create_task_group() as group:

            async def call() -> None:
                arguments = {"item_id": "demo/stubborn", "parameters": {"pipe": str(pipe)}}
                with calls:
                    await client.call_tool("execute", arguments)

            group.start_soon(call)
            pids = [int(pid) for pid in (await read(pipe)).split()]
            begun = time.monotonic()
            calls.cancel()
            if ending == "cancel":
                await gone(pids)
                assert time.monotonic() - begun < 1.0
                assert facts(await client.call_tool("search", {"query": "*"}))["total"] > 0
        await gone(pids)
    log = workshop.person.rye("log", "--json", cwd=workshop.project).json
    assert [run["code"] for run in log["runs"]] == ["cancelled"]


@pytest.mark.thorough
def test_a_server_ends_with_its_parent_though_its_streams_stay_open(workshop: Workshop) -> None:
    """The test itself holds the other ends; the process in between starts the server and is killed."""
    incoming, to_server = os.pipe()
    from_server, outgoing = os.pipe()
    between = subprocess.Popen(
        ["sh", "-c", 'exec 3<&0; "$0" <&3 & echo $! >&2; wait', SERVER],
        stdin=incoming,
        stdout=outgoing,
        stderr=subprocess.PIPE,
        env=workshop.person.environment,
        cwd=workshop.project,
    )
    os.close(outgoing)
    os.close(incoming)
    assert between.stderr is not None
    with between.stderr as said:
        pid = int(said.readline())
    _send(to_server, HANDSHAKE)
    with os.fdopen(from_server, "rb") as answers:
        assert json.loads(answers.readline())["result"]["serverInfo"]["name"] == "rye-mcp"
        between.kill()
        between.wait()
        assert answers.read() == b"", f"the server {pid} has gone on"
    os.close(to_server)


@pytest.mark.thorough
def test_what_is_printed_never_reaches_the_client(workshop: Workshop) -> None:
    """A library that prints while it is imported, while calls run, from C, and at the end."""
    stray = Path(workshop.project, "stray")
    stray.mkdir()
    (stray / "msgspec_noise.py").write_text("")
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); print('stray: before')\n"
        "import os, subprocess, atexit\n"
        "from rye_mcp.mcp_server import calls\n"
        "from rye_mcp import server\n"
        "search = calls.CALLS['search']\n"
        "async def noisy(arguments, asked):\n"
        "    sys.__stdout__.write('stray: stream\\n'); sys.__stdout__.flush(); print('stray: print')\n"
        "    os.write(1, b'stray: descriptor\\n'); os.system('echo stray: child')\n"
        "    assert sys.stdin.read() == ''\n"
        "    return await search(arguments, asked)\n"
        "calls.CALLS = {**calls.CALLS, 'search': noisy}\n"
        "atexit.register(print, 'stray: end', file=sys.stderr)\n"
        "server.main()\n"
    )
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {}}}
    with subprocess.Popen(
        [sys.executable, "-c", program, stray],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=workshop.person.environment,
        cwd=workshop.project,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        _send(server.stdin.fileno(), [*HANDSHAKE, call])
        lines = [server.stdout.readline(), server.stdout.readline()]
        server.stdin.close()
        rest, said = server.stdout.read(), server.stderr.read().decode()
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert not json.loads(lines[1])["result"]["isError"], lines[1]
    assert rest == b""
    for stray_text in ("before", "print", "stream", "descriptor", "child", "end"):
        assert f"stray: {stray_text}" in said, said
    assert server.returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b'{"jsonrpc": "2.0"',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        OVERSIZED,
        b"null",
        b"",
    ],
    ids=["open", "cut", "not text", "deep", "oversized", "null", "empty"],
)
def test_a_malformed_message_is_no_end(workshop: Workshop, frame: bytes) -> None:
    with subprocess.Popen(
        [SCRIPTS / "rye-mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=workshop.person.environment,
        cwd=workshop.project,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        _send(server.stdin.fileno(), HANDSHAKE)
        assert json.loads(server.stdout.readline())["id"] == 1
        server.stdin.write(frame + b"\n")
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode() + b"\n")
        server.stdin.flush()
        while (found := json.loads(server.stdout.readline()).get("id")) != 2:
            assert found != 9, "a message that is too long was taken"
        server.stdin.close()
    assert server.returncode == 0


def _send(descriptor: int, messages: list[dict[str, Any]]) -> None:
    os.write(descriptor, b"".join(json.dumps(message).encode() + b"\n" for message in messages))


async def test_a_run_that_nobody_waits_for_is_followed_and_read(workshop: Workshop, mode: Mode) -> None:
    pipe = workshop.pipe()
    code = 'print("the needle", flush=True)\nopen(params["pipe"]).read()\nprint("x" * 3_000_000)'
    workshop.tool("demo/long", code)
    with anyio.fail_after(50):
        async with workshop.served(mode) as client:
            arguments = {"item_id": "demo/long", "parameters": {"pipe": str(pipe)}, "async": True}
            begun = facts(await client.call_tool("execute", arguments))
            run_id = begun["run_id"]
            assert (begun["status"], begun["item_id"]) == ("running", "demo/long")
            found = await _until(client, run_id, lambda answer: "the needle" in answer.get("stdout", ""))
            assert found["status"] == "running"
            await write(pipe)
            ended = await _until(client, run_id, lambda answer: answer["status"] != "running")
            assert (ended["status"], ended["run_id"]) == ("success", run_id)
            assert ended["output"] == f"rye://runs/{run_id}/stdout"
            for arguments in (
                {"run_id": run_id, "pattern": "needle"},
                {"run_id": ended["output"], "length": 20},
            ):
                piece = facts(await client.call_tool("load", arguments))
                assert "the needle" in piece["content"], arguments


async def test_a_run_that_nobody_waits_for_is_ended(workshop: Workshop, mode: Mode) -> None:
    pipe = workshop.pipe()
    workshop.tool("demo/stubborn", STUBBORN)
    arguments = {"item_id": "demo/stubborn", "parameters": {"pipe": str(pipe)}, "async": True}
    with anyio.fail_after(50):
        async with workshop.served(mode) as client:
            run_id = facts(await client.call_tool("execute", arguments))["run_id"]
            pids = [int(pid) for pid in (await read(pipe)).split()]
            ended = await client.call_tool("execute", {"run_id": run_id, "action": "cancel"})
            assert facts(ended)["status"] == "cancelled"
            assert not any(is_alive(pid) for pid in pids)
            again = facts(await client.call_tool("execute", {"run_id": run_id}))
            assert again["status"] == "cancelled"
            await client.call_tool("execute", arguments)
            pids = [int(pid) for pid in (await read(pipe)).split()]
        await gone(pids)


async def test_what_cannot_run_beside_is_refused_at_once(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/unsigned", python_tool("print(1)"))
    stranger = "01m7r64xnv25r13hyhb9ccmrbf"
    async with workshop.served(mode) as client:
        for name, arguments, code in (
            ("execute", {"item_id": "demo/unsigned", "async": True}, "unsigned"),
            ("execute", {"item_id": "demo/a", "item_type": "knowledge", "async": True}, "unknown_argument"),
            ("execute", {"item_id": "demo/unsigned", "dry_run": True, "async": True}, "unknown_argument"),
            ("execute", {"run_id": stranger}, "run_not_found"),
            ("execute", {"run_id": "../../etc", "action": "cancel"}, "invalid_run_id"),
            ("execute", {"run_id": stranger, "item_id": "demo/unsigned"}, "invalid_parameters"),
            ("execute", {"run_id": stranger, "parameters": {"a": 1}}, "unknown_argument"),
            ("execute", {}, "invalid_parameters"),
            ("execute", {"item_id": "demo/unsigned", "action": "status"}, "unknown_argument"),
            ("load", {}, "invalid_parameters"),
            ("load", {"run_id": stranger}, "output_not_found"),
            ("load", {"run_id": stranger, "destination": "project"}, "unknown_argument"),
            ("load", {"item_id": "demo/unsigned", "offset": 1}, "unknown_argument"),
        ):
            result = await client.call_tool(name, arguments)
            assert facts(result)["code"] == code, (name, arguments, facts(result))


async def test_all_that_is_listed_is_within_its_budget(workshop: Workshop, mode: Mode) -> None:
    async with workshop.served(mode) as client:
        listed = await client.list_tools()
    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
    assert len(json.dumps(tools, separators=(",", ":"))) / 4 <= 1500
    for tool in tools:
        assert set(tool["outputSchema"]) == {"type", "properties"}


async def _until(client: Any, run_id: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while not is_so(found := facts(await client.call_tool("execute", {"run_id": run_id}))):  # noqa: ASYNC110
        await anyio.sleep(0.02)
    return found
