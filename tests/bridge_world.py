"""What tests of bridged servers share: a person with a project, and servers that they bring in.

Everything is in this process but the servers: `Bridged` is what `rye mcp`, and an agent's call, come to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.bridge.definitions import Definition
from rye_mcp.bridge.pool import offered_by
from rye_mcp.executor.job.jobs import Watch
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import SpaceName
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs import mcp_servers as servers
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.execute import ExecuteRequest, execute
from rye_mcp.verbs.mcp_servers import Known, ServerPlan, Written

__all__ = ["RAW", "Bridged"]

RAW = Path(__file__).with_name("raw_mcp_server.py")


class Bridged:
    """A person and a project, in which servers are brought in and called."""

    def __init__(self, place: Path, **variables: str) -> None:
        self.place = place
        self.project = place / "project"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(place), **variables}
        self.app = App.open(self.settings())

    def settings(self) -> Settings:
        (self.project / ".ai").mkdir(parents=True, exist_ok=True)
        return Settings.find(
            project=self.project,
            user_directory=self.place,
            state=self.place / "state",
            environment=self.environment,
        )

    @property
    def person(self) -> Context:
        self.app.keys.ensure(SignerKind.PERSON, owner="ada")
        return self.app.context(SignerKind.PERSON)

    def config(self, behaviour: str = "good", *args: str, name: str = "raw", **more: Any) -> dict[str, Any]:
        """What the tools of a raw server say of it."""
        command = {"command": sys.executable, "args": [str(RAW), behaviour, *args]}
        return {"transport": "stdio", "server": name, **command, **more}

    async def offered(self, config: Mapping[str, Any]) -> Mapping[str, Definition]:
        whole = servers.whole_config(config, self.person)
        project, directories = str(self.project), self.app.trust.directories
        return await offered_by(
            whole, self.environment, cwd=project, project=project, directories=directories
        )

    async def add(
        self, config: Mapping[str, Any], *only: str, space: SpaceName = SpaceName.PROJECT
    ) -> Written:
        offered = await self.offered(config)
        plan = ServerPlan(config["server"], config, space, only)
        context = self.person
        return servers.add(plan, offered, context, servers.signing_key(context))

    def known(self, name: str = "raw") -> Known:
        (found,) = servers.known_servers(self.person, [SpaceName.PROJECT], name)
        return found

    def item(self, tool: str, name: str = "raw") -> Path:
        return self.project / f".ai/tools/mcp/{name}/{tool}.yaml"

    async def call(
        self,
        tool: str,
        *,
        name: str = "raw",
        timeout: float | None = None,
        watch: Watch | None = None,
        **given: Any,
    ) -> ExecutionResult:
        """What an agent gets that calls a tool."""
        request = ExecuteRequest(f"mcp/{name}/{tool}", parameters=given, timeout=timeout)
        found = await execute(request, self.app.context(), watch=watch)
        assert isinstance(found, ExecutionResult)
        return found

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Bridged]:
        """As a server does it: connections are kept until the block ends."""
        async with self.app.closing():
            yield self
        self.app = App.open(self.settings())

    @staticmethod
    def text(result: ExecutionResult) -> str:
        """The text of an answer with one block."""
        (block,) = result.data["content"]
        return str(block["text"])

    @classmethod
    def json(cls, result: ExecutionResult) -> Any:
        return json.loads(cls.text(result))
