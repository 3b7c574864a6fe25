"""`mcp run` and `mcp dev`, the SDK's commands for servers that are Python files, with `rye_mcp/server.py`."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import rye_mcp.server
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.people import SCRIPTS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]  # the first one may have to install the Inspector

SERVER = Path(rye_mcp.server.__file__)

INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "inspector", "version": "1"},
    },
}

_OPEN_PAGE = re.compile(r"(http://127\.0\.0\.1:\d+)\?MCP_INSPECTOR_API_TOKEN=([0-9a-f]+)")


async def test_mcp_run_serves_over_standard_input_and_output(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/hello", 'print(json.dumps({"said": "hello"}))')
    parameters = StdioServerParameters(
        command=str(SCRIPTS / "mcp"),
        args=["run", str(SERVER)],
        env=dict(workshop.person.environment),
        cwd=workshop.project,
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        result = await client.call_tool("execute", {"item_id": "demo/hello"})
    assert facts(result)["data"] == {"said": "hello"}


@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
def test_mcp_run_opens_no_port_that_everybody_may_use(workshop: Workshop, transport: str) -> None:
    done = subprocess.run(
        [SCRIPTS / "mcp", "run", SERVER, "--transport", transport],
        env=workshop.person.environment,
        cwd=workshop.project,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert "rye-mcp --http" in done.stderr


@dataclass(frozen=True)
class Page:
    """The Inspector's server for its page."""

    address: str
    token: str

    def ask(self, path: str, sent: dict[str, Any] | None = None) -> Any:
        """What it answers."""
        with httpx.Client(base_url=self.address, trust_env=False, timeout=60) as client:
            headers = {"x-mcp-remote-auth": f"Bearer {self.token}", "Origin": self.address}
            answer = client.request("GET" if sent is None else "POST", path, json=sent, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    def event(self, session: str) -> Any:
        """The first message that a server has sent in a session."""
        with (
            httpx.Client(base_url=self.address, trust_env=False, timeout=60) as client,
            client.stream(
                "GET",
                f"/api/mcp/events?sessionId={session}",
                headers={"x-mcp-remote-auth": f"Bearer {self.token}", "Origin": self.address},
            ) as events,
        ):
            for line in events.iter_lines():
                if line.startswith("data:") and '"jsonrpc"' in line:
                    return json.loads(line.removeprefix("data:"))
        return None


def test_mcp_dev_starts_the_inspector_with_a_command_that_starts_the_server(
    node: NodePrograms, workshop: Workshop, tmp_path: Path
) -> None:
    environment = _environment(node, workshop, tmp_path)
    with _developed(environment, workshop.project) as page:
        assert "<title>MCP Inspector</title>" in page.ask("/")
        shown = page.ask("/api/config")
        command = [shown["defaultCommand"], *shown["defaultArgs"]]
        assert command[:2] == ["uv", "run"]
        assert command[-3:] == ["mcp", "run", str(SERVER)]
        server = {
            "type": "stdio",
            "command": command[0],
            "args": command[1:],
            "env": environment,
            "cwd": str(workshop.project),
        }
        session = page.ask("/api/mcp/connect", {"config": server})["sessionId"]
        sent = page.ask("/api/mcp/send", {"sessionId": session, "message": INITIALIZE})
        assert sent == {"ok": True}
        answer = page.event(session)
        assert '"name": "rye-mcp"' in json.dumps(answer)
        page.ask("/api/mcp/disconnect", {"sessionId": session})


def _environment(node: NodePrograms, workshop: Workshop, place: Path) -> dict[str, str]:
    """In which `npx` is the Inspector that is pinned, and uv finds all it wants in this environment."""
    npx = place / "npx"
    npx.write_text(
        f'#!/bin/sh\n[ "$1" = @modelcontextprotocol/inspector ] || exit 9\nshift\n'
        f'exec "{node.executable}" "{node.place}/node_modules/{INSPECTOR}" "$@"\n'
    )
    npx.chmod(0o755)
    return {
        **workshop.person.environment,
        "PATH": f"{place}:{SCRIPTS}:{os.environ['PATH']}",
        "VIRTUAL_ENV": sys.prefix,
        "UV_OFFLINE": "1",
        "UV_NO_CACHE": "1",
        "CLIENT_PORT": str(_free_port()),
        "MCP_SANDBOX_PORT": "0",
        "MCP_APP_ORIGIN_PORT": "0",
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_SECRET_STORE": "memory",
    }


def _free_port() -> int:
    """The Inspector wants to be told one, and takes none that the system chooses."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def _developed(environment: dict[str, str], cwd: Path) -> Iterator[Page]:
    """`mcp dev`, until the block ends."""
    process = subprocess.Popen(
        [SCRIPTS / "mcp", "dev", SERVER],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if found := _OPEN_PAGE.search(line):
                yield Page(found[1], found[2])
                break
        else:
            pytest.fail("".join(said))
    finally:
        os.killpg(process.pid, 15)
        process.stdout.close()
        process.wait(30)
