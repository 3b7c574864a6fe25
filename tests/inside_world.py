"""What tests of programs share: tools that call tools, run over MCP and at a terminal."""

from __future__ import annotations

import json
from typing import Any

from mcp import Client

from tests.mcp_world import Workshop, facts

__all__ = ["DOOR", "Programs", "execute", "program"]

PYTHON = '''\
"""{description}"""

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_runtime"
PERMISSIONS = {permissions}
LIMITS = {limits}

{code}
'''

DOOR = """
import json, os, socket

def door():
    return socket.socket(fileno=os.dup(int(os.environ["RYE_CALL_FD"])))

def said(*lines, half_closed=True):
    with door() as stream:
        stream.sendall(b"".join(lines))
        if half_closed:
            stream.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in stream.makefile("rb")]
"""
"""For programs that speak without the client."""


def program(code: str, *, calls: list[str] | None = None, limit: int = 50, **permissions: Any) -> str:
    """The source of a tool in Python; with `calls`, of one that may call."""
    may = {**permissions, **({} if calls is None else {"calls": calls})}
    return PYTHON.format(
        description="Does what a test needs.", permissions=may, limits={"calls": limit}, code=code
    )


class Programs:
    """A workshop with the tool `demo/echo`, which returns what it is given."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.add("demo/echo", "def main(**given):\n    return given")

    def add(self, item_id: str, code: str, **options: Any) -> None:
        """Write a tool and sign it, as the person."""
        self.workshop.write(item_id, program(code, **options))
        self.workshop.sign(item_id)

    def run(self, item_id: str, /, *options: str, code: int = 0, **parameters: Any) -> dict[str, Any]:
        """The result of a run at a terminal."""

        person, project = self.workshop.person, self.workshop.project
        given = ("--params", json.dumps(parameters))
        answer = person.rye("run", "--json", *options, *given, item_id, cwd=project, code=code)
        found: dict[str, Any] = answer.json
        return found

    def log(self) -> list[dict[str, Any]]:
        """All rows of the log, the newest first."""
        answer = self.workshop.person.rye("log", "--json", cwd=self.workshop.project)
        found: list[dict[str, Any]] = answer.json["runs"]
        return found


async def execute(client: Client, item_id: str, /, **parameters: Any) -> dict[str, Any]:
    """What a client is told."""
    asked = {"item_id": item_id, "parameters": parameters}
    return facts(await client.call_tool("execute", asked))
