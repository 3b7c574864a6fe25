"""The MCP clients that `rye install` knows: where each keeps its configuration, and what stands in it.

Rules:

- Nothing here reads or writes a file: what the surroundings are comes in, what would be written comes out.
- The command is an absolute path: a program with windows starts servers with hardly any PATH, from `/`.
- What decides whom to trust, and where that is kept, has to be the same in the client as in the terminal: the
  variables of `KEPT` go along when they are set. No other one does.
- Claude Code knows servers of one project alone, and a project's goes there. The others know servers of the
  user, and `--project` names the project.
- A project can bring a file of its own for a client along (`project_file`). What stands in it was written by
  whoever writes to the project, and not by the person.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

__all__ = ["CLIENTS", "KEPT", "Client", "ClientName", "Surroundings", "entry"]

KEPT: Final = ("USER_SPACE", "XDG_STATE_HOME", "XDG_CACHE_HOME", "RYE_LOCKED")
"""The variables that a server has to have as the terminal has them."""


class ClientName(StrEnum):
    """A client, as people call it on the command line."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides where a client keeps its configuration."""

    home: Path
    environment: Mapping[str, str]
    platform: str = sys.platform

    def configuration(self) -> Path:
        """Where programs keep their configuration."""
        if self.platform == "darwin":
            return self.home / "Library/Application Support"
        named = Path(self.environment.get("XDG_CONFIG_HOME", ""))
        return named if named.is_absolute() else self.home / ".config"


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its title, its file, the object in it that holds servers, and what makes it read them.

    `project_file` is where a project keeps servers for everybody who works on it, relative to the project.
    """

    title: str
    file: Callable[[Surroundings], Path]
    servers: str
    says_type: bool
    restart: str
    knows_projects: bool = False
    project_file: str | None = None

    def path_of(self, name: str, project: Path | None) -> tuple[str, ...]:
        """Where a server stands in the file."""
        if self.knows_projects and project is not None:
            return ("projects", str(project), self.servers, name)
        return (self.servers, name)


def entry(
    client: Client,
    command: Path,
    project: Path | None,
    environment: Mapping[str, str],
    *,
    user_directory: Path,
) -> dict[str, Any]:
    """What stands in the configuration for the server; `user_directory` is the user's home."""
    variables = {name: environment[name] for name in KEPT if environment.get(name)}
    if variables.get("USER_SPACE") == str(user_directory):
        del variables["USER_SPACE"]
    found: dict[str, Any] = {"type": "stdio"} if client.says_type else {}
    found |= {"command": str(command), "args": [] if project is None else ["--project", str(project)]}
    return found | ({"env": variables} if variables else {})


def _claude_code(surroundings: Surroundings) -> Path:
    named = Path(surroundings.environment.get("CLAUDE_CONFIG_DIR", ""))
    return (named if named.is_absolute() else surroundings.home) / ".claude.json"


CLIENTS: Final[Mapping[ClientName, Client]] = MappingProxyType(
    {
        ClientName.CLAUDE_DESKTOP: Client(
            "Claude Desktop",
            lambda at: at.configuration() / "Claude/claude_desktop_config.json",
            "mcpServers",
            says_type=False,
            restart="quit Claude Desktop and start it again",
        ),
        ClientName.CLAUDE_CODE: Client(
            "Claude Code",
            _claude_code,
            "mcpServers",
            says_type=True,
            restart="begin a new session of Claude Code",
            knows_projects=True,
            project_file=".mcp.json",
        ),
        ClientName.CURSOR: Client(
            "Cursor",
            lambda at: at.home / ".cursor/mcp.json",
            "mcpServers",
            says_type=False,
            restart="switch the server on in Cursor's settings, under MCP",
            project_file=".cursor/mcp.json",
        ),
        ClientName.VSCODE: Client(
            "VS Code",
            lambda at: at.configuration() / "Code/User/mcp.json",
            "servers",
            says_type=True,
            restart="start the server in VS Code: MCP: List Servers",
            project_file=".vscode/mcp.json",
        ),
    }
)
"""Every client, by its name."""
