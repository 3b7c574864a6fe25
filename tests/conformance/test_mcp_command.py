"""`mcp run` and `mcp dev`, the SDK's commands for servers that are Python files, with the files for them."""

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
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import rye_mcp.inspector
import rye_mcp.server
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.node_world import *  # noqa: F403
from tests.node_world import NodePrograms
from tests.people import SCRIPTS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]  # the first one may have to install the Inspector

SERVER = Path(rye_mcp.server.__file__)
FOR_DEV = Path(rye_mcp.inspector.__file__)
"""What docs/how-to/try-it-with-the-inspector.md names."""

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
    with _developed(SERVER, environment, workshop.project) as page:
        assert "<title>MCP Inspector</title>" in page.ask("/")
        shown = page.ask("/api/config")
        assert [shown["defaultCommand"], *shown["defaultArgs"][:1]] == ["uv", "run"]
        assert shown["defaultArgs"][-3:] == ["mcp", "run", str(SERVER)]
        assert _connected(page, environment)["serverInfo"]["name"] == "rye-mcp"


@pytest.mark.network
def test_mcp_dev_connects_with_nothing_but_what_its_page_passes_on(
    node: NodePrograms, workshop: Workshop, tmp_path: Path
) -> None:
    """The page passes on HOME and PATH, and no virtual environment: uv makes one, without this package."""
    environment = _environment(node, workshop, tmp_path)
    for name in ("VIRTUAL_ENV", "UV_OFFLINE", "UV_NO_CACHE"):
        del environment[name]
    settings = Path(environment["HOME"], ".config/uv/uv.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text("system-certs = true\n")
    if not _can_install(environment):
        pytest.skip("uv cannot install the SDK")
    with _developed(FOR_DEV, environment, workshop.project) as page:
        passed_on = page.ask("/api/config")["defaultEnvironment"]
        assert "VIRTUAL_ENV" not in passed_on
        assert _connected(page, passed_on)["serverInfo"]["name"] == "rye-mcp"


def _can_install(environment: dict[str, str]) -> bool:
    """Whether uv can; what it has got is then in its cache, and waits for nobody."""
    command = [str(SCRIPTS / "uv"), "run", "--no-project", "--with", f"mcp[cli]=={version('mcp')}", "true"]
    return subprocess.run(command, env=environment, capture_output=True, timeout=240).returncode == 0


def _connected(page: Page, environment: dict[str, str]) -> Any:
    """What a server says of itself, when it is started as the button of the page starts it."""
    shown = page.ask("/api/config")
    server = {
        "type": "stdio",
        "command": shown["defaultCommand"],
        "args": shown["defaultArgs"],
        "env": environment,
        "cwd": shown["defaultCwd"],
    }
    session = page.ask("/api/mcp/connect", {"config": server})["sessionId"]
    assert page.ask("/api/mcp/send", {"sessionId": session, "message": INITIALIZE}) == {"ok": True}
    answer = page.event(session)
    page.ask("/api/mcp/disconnect", {"sessionId": session})
    return answer["data"]["result"] if "data" in answer else answer["result"]


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
def _developed(server: Path, environment: dict[str, str], cwd: Path) -> Iterator[Page]:
    """`mcp dev`, until the block ends."""
    process = subprocess.Popen(
        [SCRIPTS / "mcp", "dev", server],
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
