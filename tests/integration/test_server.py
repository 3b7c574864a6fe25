"""The MCP server over stdio, with the client of the SDK, in both eras of the protocol."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts, gone

TOOL = '''\
"""Greets somebody."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
CONFIG_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

import json
import sys

params = json.loads(sys.argv[sys.argv.index("--params") + 1])
print(json.dumps({"greeting": f"Hello, {params['name']}!"}))
'''

WAITING = '''\
"""Waits until it is ended."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"

import json
import os
import subprocess
import sys
import time

params = json.loads(sys.argv[sys.argv.index("--params") + 1])
child = subprocess.Popen(["sleep", "600"])
with open(params["pipe"], "w") as pipe:
    pipe.write(f"{os.getpid()} {child.pid}")
time.sleep(600)
'''

pytestmark = pytest.mark.anyio


async def test_the_installed_script_serves(workshop: Workshop, mode: Mode) -> None:
    """The other tests fork the server, which is quicker."""
    workshop.write("demo/greet", TOOL)
    async with workshop.served(mode, installed=True) as client:
        signed = facts(await client.call_tool("sign", {"item_id": "demo/greet"}))
        assert (signed["status"], signed["signer"]["kind"]) == ("signed", "agent")
        call = {"item_id": "demo/greet", "parameters": {"name": "Ada"}}
        assert facts(await client.call_tool("execute", call))["data"] == {"greeting": "Hello, Ada!"}


async def test_a_tool_is_written_signed_loaded_and_executed(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/greet", TOOL)
    async with workshop.served(mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["search", "load", "execute", "sign"]
        refused = facts(await client.call_tool("execute", {"item_id": "demo/greet"}))
        assert (refused["code"], refused["status"]) == ("unsigned", "error")
        signed = facts(await client.call_tool("sign", {"item_id": "demo/greet"}))
        assert (signed["status"], signed["signer"]["kind"]) == ("signed", "agent")
        loaded = facts(await client.call_tool("load", {"item_id": "demo/greet"}))
        assert loaded["integrity"]["state"] == "verified"
        found = facts(await client.call_tool("search", {"query": "how do I greet somebody?"}))
        assert [hit["id"] for hit in found["results"]][:1] == ["demo/greet"]
        call = {"item_id": "demo/greet", "parameters": {"name": "${HOME} {tool_path} 'é'"}}
        result = await client.call_tool("execute", call)
        assert facts(result)["data"] == {"greeting": "Hello, ${HOME} {tool_path} 'é'!"}
        assert facts(result)["sealed"] is True


async def test_what_was_changed_after_it_was_signed_does_not_run(workshop: Workshop, mode: Mode) -> None:
    path = workshop.write("demo/greet", TOOL)
    workshop.sign("demo/greet")
    canary = workshop.project / "canary"
    async with workshop.served(mode) as client:
        call = {"item_id": "demo/greet", "parameters": {"name": "Ada"}}
        assert facts(await client.call_tool("execute", call))["status"] == "success"
        path.write_text(path.read_text() + f"open({str(canary)!r}, 'w')\n")
        result = await client.call_tool("execute", call)
        assert isinstance(result, CallToolResult)
        assert result.is_error is True
        assert facts(result)["code"] == "content_changed"
    assert not canary.exists()


async def test_a_failure_is_an_answer_and_the_next_call_works(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/greet", TOOL)
    workshop.sign("demo/greet")
    async with workshop.served(mode) as client:
        for name, arguments, code in (
            ("execute", {"item_id": "demo/greet"}, "invalid_parameters"),
            ("execute", {"item_id": "demo/greet", "nme": 1}, "unknown_argument"),
            ("execute", {"item_id": "../secret"}, "invalid_id"),
            ("execute", {"item_id": "demo/greet", "project_path": "relative"}, "no_project"),
            ("execute", {"item_id": "demo/greet", "project_path": "/nowhere"}, "no_project"),
            ("load", {"item_id": "demo/nothing"}, "item_not_found"),
        ):
            result = await client.call_tool(name, arguments)
            assert isinstance(result, CallToolResult)
            assert (result.is_error, facts(result)["code"]) == (True, code), (name, arguments)
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nothing", {})
        assert (unknown.value.code, unknown.value.data["code"]) == (INVALID_PARAMS, "unknown_argument")
        call = {"item_id": "demo/greet", "parameters": '{"name": "Ada"}'}
        assert facts(await client.call_tool("execute", call))["data"] == {"greeting": "Hello, Ada!"}


async def test_a_dry_run_tells_what_would_run_and_runs_nothing(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/greet", TOOL)
    workshop.sign("demo/greet")
    async with workshop.served(mode) as client:
        call = {"item_id": "demo/greet", "parameters": {"name": "Ada"}, "dry_run": True}
        found = facts(await client.call_tool("execute", call))
    assert found["status"] == "validation_passed"
    assert [element["item_id"] for element in found["chain"]] == [
        "demo/greet",
        "rye/core/runtimes/python_script_runtime",
        "rye/core/primitives/subprocess",
    ]
    assert json.dumps({"name": "Ada"}, separators=(",", ":")) in found["command"]
    assert not (workshop.project / ".ai/lockfiles").exists()


async def test_a_server_that_nobody_speaks_to_any_more_ends_at_once(workshop: Workshop, mode: Mode) -> None:
    workshop.write("demo/greet", TOOL)
    async with workshop.served(mode) as client:
        await client.list_tools()  # from now on it watches the files of its project
        left = anyio.current_time()
    assert anyio.current_time() - left < 2


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["cancel", "close", "kill"])
async def test_nothing_outlives_its_call(workshop: Workshop, mode: Mode, ending: str) -> None:
    workshop.write("demo/wait", WAITING)
    workshop.sign("demo/wait")
    pipe = workshop.pipe()

    async def call(client: Client) -> None:
        await client.call_tool("execute", {"item_id": "demo/wait", "parameters": {"pipe": str(pipe)}})

    with anyio.fail_after(60):
        async with (
            workshop.served(mode, installed=ending == "kill") as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(call, client)
            pids = [int(pid) for pid in (await anyio.to_thread.run_sync(pipe.read_text)).split()]
            assert len(pids) == 2
            if ending == "kill":
                await anyio.to_thread.run_sync(os.kill, _server_above(pids[0]), signal.SIGKILL)
            group.cancel_scope.cancel()
            if ending != "close":
                await gone(pids)
        await gone(pids)


def _server_above(pid: int) -> int:
    """The server that a tool runs under."""
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        if b"rye-mcp" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("expected a server above the tool, found none")
