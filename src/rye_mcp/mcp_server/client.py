"""A client of a server that is started for it: what a client configuration does, for who wants to see it.

async with client_of([rye_mcp], environment=environment, directory=project) as call:
    answer = await call("execute", {"item_id": "demo/hello"})
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from rye_mcp.errors import RyeError

__all__ = ["Call", "Hear", "client_of", "server_command"]


class Hear(Protocol):
    """Is told how far a call is, out of how much, and a message."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take note of it."""


class Call(Protocol):
    """Calls a tool of the server by its name; its answer as data."""

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], hear: Hear | None = None, /
    ) -> dict[str, Any]:
        """Call it, and let somebody hear how far it is."""


def server_command() -> str:
    """The `rye-mcp` that was installed with this package, by its whole path."""
    return str(Path(sysconfig.get_path("scripts"), "rye-mcp"))


@asynccontextmanager
async def client_of(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path
) -> AsyncIterator[Call]:
    """Start a server with exactly this environment, speak to it over its standard streams, and end it."""
    program, *arguments = command
    parameters = StdioServerParameters(
        command=program, args=arguments, env=dict(environment), cwd=os.fspath(directory)
    )
    async with Client(stdio_client(parameters)) as client:

        async def call(
            name: str, arguments: Mapping[str, Any], hear: Hear | None = None, /
        ) -> dict[str, Any]:
            result = await client.call_tool(name, dict(arguments), progress_callback=hear)
            if result.structured_content is None:
                raise RyeError(
                    "internal", f"expected an answer to {name} with structured content, found none"
                )
            answer: dict[str, Any] = result.structured_content
            return answer

        yield call
