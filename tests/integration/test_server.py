"""The MCP server over stdio, with the client of the SDK, in both eras of the protocol."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from tests.people import SCRIPTS, Person

Mode = Literal["auto", "legacy"]

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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return Person("ada", tmp_path / "ada")


@pytest.fixture
def project(tmp_path: Path, ada: Person) -> Path:
    project = tmp_path / "the project"
    project.mkdir()
    ada.rye("init", cwd=project)
    return project


def write(project: Path, content: str, item_id: str = "demo/greet") -> Path:
    path = project / f".ai/tools/{item_id}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@asynccontextmanager
async def served(person: Person, project: Path, mode: Mode) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=str(SCRIPTS / "rye-mcp"), env=dict(person.environment), cwd=project
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


def facts(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    found: dict[str, Any] | None = result.structured_content
    assert found is not None
    return found


async def test_a_tool_is_written_signed_loaded_and_executed(ada: Person, project: Path, mode: Mode) -> None:
    write(project, TOOL)
    async with served(ada, project, mode) as client:
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


async def test_what_was_changed_after_it_was_signed_does_not_run(
    ada: Person, project: Path, mode: Mode
) -> None:
    path = write(project, TOOL)
    ada.rye("sign", "demo/greet", cwd=project)
    canary = project / "canary"
    async with served(ada, project, mode) as client:
        call = {"item_id": "demo/greet", "parameters": {"name": "Ada"}}
        assert facts(await client.call_tool("execute", call))["status"] == "success"
        path.write_text(path.read_text() + f"open({str(canary)!r}, 'w')\n")
        result = await client.call_tool("execute", call)
        assert isinstance(result, CallToolResult)
        assert result.is_error is True
        assert facts(result)["code"] == "content_changed"
    assert not canary.exists()


async def test_a_failure_is_an_answer_and_the_next_call_works(ada: Person, project: Path, mode: Mode) -> None:
    write(project, TOOL)
    ada.rye("sign", "demo/greet", cwd=project)
    async with served(ada, project, mode) as client:
        for name, arguments, code in (
            ("execute", {"item_id": "demo/greet"}, "invalid_parameters"),
            ("execute", {"item_id": "demo/greet", "nme": 1}, "unknown_argument"),
            ("execute", {"item_id": "../secret"}, "invalid_id"),
            ("execute", {"item_id": "demo/greet", "project_path": "relative"}, "no_project"),
            ("execute", {"item_id": "demo/greet", "project_path": "/nowhere"}, "no_project"),
            ("load", {"item_id": "demo/nothing"}, "item_not_found"),
            ("nothing", {}, "unknown_argument"),
        ):
            result = await client.call_tool(name, arguments)
            assert isinstance(result, CallToolResult)
            assert (result.is_error, facts(result)["code"]) == (True, code), (name, arguments)
        call = {"item_id": "demo/greet", "parameters": '{"name": "Ada"}'}
        assert facts(await client.call_tool("execute", call))["data"] == {"greeting": "Hello, Ada!"}


async def test_a_dry_run_tells_what_would_run_and_runs_nothing(
    ada: Person, project: Path, mode: Mode
) -> None:
    write(project, TOOL)
    ada.rye("sign", "demo/greet", cwd=project)
    async with served(ada, project, mode) as client:
        call = {"item_id": "demo/greet", "parameters": {"name": "Ada"}, "dry_run": True}
        found = facts(await client.call_tool("execute", call))
    assert found["status"] == "validation_passed"
    assert [element["item_id"] for element in found["chain"]] == [
        "demo/greet",
        "rye/core/runtimes/python_script_runtime",
        "rye/core/primitives/subprocess",
    ]
    assert json.dumps({"name": "Ada"}, separators=(",", ":")) in found["command"]
    assert not (project / ".ai/lockfiles").exists()


async def test_a_server_that_nobody_speaks_to_any_more_ends_at_once(
    ada: Person, project: Path, mode: Mode
) -> None:
    write(project, TOOL)
    async with served(ada, project, mode) as client:
        await client.list_tools()  # from now on it watches the files of its project
        left = anyio.current_time()
    assert anyio.current_time() - left < 2


@pytest.mark.parametrize("ending", ["cancel", "close", "kill"])
async def test_nothing_outlives_its_call(ada: Person, project: Path, mode: Mode, ending: str) -> None:
    write(project, WAITING, "demo/wait")
    ada.rye("sign", "demo/wait", cwd=project)
    pipe = project / "pipe"
    os.mkfifo(pipe)

    async def call(client: Client) -> None:
        await client.call_tool("execute", {"item_id": "demo/wait", "parameters": {"pipe": str(pipe)}})

    with anyio.fail_after(60):
        async with served(ada, project, mode) as client, anyio.create_task_group() as group:
            group.start_soon(call, client)
            pids = [int(pid) for pid in (await anyio.to_thread.run_sync(pipe.read_text)).split()]
            assert len(pids) == 2
            if ending == "kill":
                await anyio.to_thread.run_sync(os.kill, _server_above(pids[0]), signal.SIGKILL)
            group.cancel_scope.cancel()
            if ending != "close":
                await _gone(pids)
        await _gone(pids)


def _server_above(pid: int) -> int:
    """The server that a tool runs under."""
    while pid > 1:
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
        if b"rye-mcp" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("expected a server above the tool, found none")


async def _gone(pids: list[int]) -> None:
    """Wait for the end of processes; one that only waits to be fetched has ended."""
    while any(_is_alive(pid) for pid in pids):  # noqa: ASYNC110 - nobody tells of a stranger's end
        await anyio.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
