"""What tests of the server share: a person with a project, and the server with a client of the SDK before it.

A test module takes the fixtures by importing them:

    from tests.mcp_world import *
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio import to_thread
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult

from rye_mcp.items import ItemType
from tests import forked_server
from tests.people import SCRIPTS, Person

__all__ = [
    "SERVER",
    "Mode",
    "Workshop",
    "facts",
    "gone",
    "is_alive",
    "python_tool",
    "read",
    "text_of",
    "workshop",
    "write",
]

Mode = Literal["auto", "legacy"]

SERVER = SCRIPTS / "rye-mcp"
"""The installed script, for what a fork of it cannot show."""

_TOOL = '''\
"""{description}"""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
{metadata}

import json
import sys

params = json.loads(sys.argv[sys.argv.index("--params") + 1])
{code}
'''


def python_tool(code: str, *, description: str = "Does what a test needs.", metadata: str = "") -> str:
    """The source of a tool; `params` are its parameters."""
    return _TOOL.format(description=description, metadata=metadata, code=code)


@dataclass(frozen=True)
class Workshop:
    """A person, and a project of theirs."""

    person: Person
    project: Path

    def write(self, item_id: str, content: str, *, kind: str = "tools", extension: str = "py") -> Path:
        """Write an item, without a signature."""
        path = self.project / f".ai/{kind}/{item_id}.{extension}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def sign(self, item_id: str, item_type: str = "tool") -> None:
        """Sign an item, as the person."""
        self.person.sign(item_id, self.project, ItemType(item_type))

    def tool(self, item_id: str, code: str, **options: str) -> Path:
        """Write a tool and sign it."""
        path = self.write(item_id, python_tool(code, **options))
        self.sign(item_id)
        return path

    def pipe(self, name: str = "pipe") -> Path:
        """A pipe that a tool and a test can meet at."""
        pipe = self.project / name
        os.mkfifo(pipe)
        return pipe

    def parameters(
        self, *arguments: str, cwd: Path | None = None, installed: bool = False, **variables: str
    ) -> StdioServerParameters:
        """How the server is started: forked, or as the `installed` script where that makes a difference."""
        environment = self.person.environment | variables
        program, *first = [str(SERVER)] if installed else forked_server.command()
        return StdioServerParameters(
            command=program, args=[*first, *arguments], env=environment, cwd=cwd or self.project
        )

    @asynccontextmanager
    async def served(
        self,
        mode: Mode,
        *arguments: str,
        cwd: Path | None = None,
        client: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        installed: bool = False,
    ) -> AsyncIterator[Client]:
        """A client, connected to a server of its own."""
        parameters = self.parameters(*arguments, cwd=cwd, installed=installed, **(variables or {}))
        async with Client(stdio_client(parameters), mode=mode, **(client or {})) as connected:
            yield connected


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A person who has begun a project."""
    person, project = Person("ada", tmp_path / "ada"), tmp_path / "the project"
    project.mkdir()
    person.begin(project)
    return Workshop(person, project)


def facts(result: Any) -> dict[str, Any]:
    """The structured content of an answer."""
    assert isinstance(result, CallToolResult)
    found: dict[str, Any] | None = result.structured_content
    assert found is not None, result
    return found


def text_of(result: Any) -> str:
    """The text of an answer."""
    assert isinstance(result, CallToolResult)
    return "".join(block.text for block in result.content if block.type == "text")


async def read(pipe: Path) -> str:
    """What a tool writes to a pipe; a tool that never does holds up nobody who has given up waiting."""
    return await to_thread.run_sync(pipe.read_text, abandon_on_cancel=True)


async def write(pipe: Path, text: str = "go on") -> None:
    """Write to a pipe that a tool reads."""
    await to_thread.run_sync(pipe.write_text, text, abandon_on_cancel=True)


async def gone(pids: list[int]) -> None:
    """Wait for the end of processes; one that only waits to be fetched has ended."""
    while any(is_alive(pid) for pid in pids):  # noqa: ASYNC110 - nobody tells of a stranger's end
        await anyio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process is there, and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
