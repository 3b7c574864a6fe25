"""The MCP server object: lists the tools, checks arguments, calls the verbs, answers.

Rules:

- Whoever calls is an agent: the context that a verb gets says so, whatever the arguments are.
- Nothing heavy is imported before it is needed: a client waits for the answer to `initialize`, and most of
  that time is imports.
- Every failure is an answer. Cancelling a call ends what it runs.
- Over standard input and output the server ends when its client closes them, and when its parent has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, Tool, ToolAnnotations

from rye_mcp.errors import RyeError
from rye_mcp.mcp_surface.answers import answer, refusal, unexpected
from rye_mcp.mcp_surface.definitions import DEFINITIONS, Definition
from rye_mcp.mcp_surface.requests import client_of, teller_of
from rye_mcp.mcp_surface.runs import Runs

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.mcp_surface.calls import Asked

__all__ = ["RyeServer"]

INSTRUCTIONS = (
    "Tools, directives and knowledge of this project, each a signed file. load shows one, execute runs it, "
    "sign makes what you wrote runnable. Every refusal has a code and a hint: follow the hint."
)


class RyeServer(MCPServer[None]):
    """The tools of rye-mcp over MCP. `open_app` opens the parts for a project path, or for none."""

    def __init__(self, open_app: Callable[[Path | None], App], *, version: str = "") -> None:
        super().__init__(
            "rye-mcp", title="Rye", instructions=INSTRUCTIONS, version=version, lifespan=self._living
        )
        self._open_app = open_app
        self._apps: dict[str | None, App] = {}
        self._lives = 0
        self._runs = Runs()

    async def run_stdio_async(self) -> None:
        """Serve one client over standard input and output, which nobody else gets at meanwhile."""
        from rye_mcp.mcp_surface.stdio import claimed, parent_gone

        with claimed() as (lines, wire):
            async with anyio.create_task_group() as group:

                async def end_with_parent() -> None:
                    await parent_gone()
                    group.cancel_scope.cancel()

                group.start_soon(end_with_parent)
                streams = stdio_server(cast(Any, lines), cast(Any, wire))
                async with streams as (incoming, outgoing):
                    options = self._lowlevel_server.create_initialization_options()
                    await self._lowlevel_server.run(incoming, outgoing, options)
                group.cancel_scope.cancel()

    async def list_tools(self) -> list[Tool]:
        """What the server offers."""
        return [_tool(definition) for definition in DEFINITIONS.values()]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> CallToolResult:
        """Do what a client asks for."""
        try:
            return answer(await self._call(name, arguments, context))
        except RyeError as exc:
            return refusal(exc)
        except Exception as exc:  # noqa: BLE001 - its text must not reach the client
            return unexpected(exc)

    async def _call(self, name: str, given: Mapping[str, Any] | None, context: Any) -> Mapping[str, Any]:
        from rye_mcp.mcp_surface.arguments import check_arguments
        from rye_mcp.mcp_surface.calls import CALLS

        definition = DEFINITIONS.get(name)
        if definition is None:
            what = f"expected one of {', '.join(DEFINITIONS)}, found {name[:80]!r}"
            raise RyeError("unknown_argument", what, hint="tools/list names the tools")
        arguments = check_arguments(definition, given)
        app = self._app(arguments.pop("project_path", None))
        return await CALLS[name](arguments, self._asked(app, context))

    def _asked(self, app: App, context: Any) -> Asked:
        from rye_mcp.mcp_surface.calls import Asked

        return Asked(app, tell=teller_of(context), client=client_of(context), runs=self._runs)

    def _app(self, project_path: str | None) -> App:
        """The parts for a project; those of the server's own are opened once."""
        if project_path is not None and not project_path.startswith("/"):
            what = f"expected an absolute path as project_path, found {project_path[:80]!r}"
            raise RyeError("no_project", what, hint="name the whole path of the project, or leave it out")
        app = self._apps.get(project_path)
        if app is None:
            app = self._apps[project_path] = self._open_app(
                None if project_path is None else Path(project_path)
            )
        return app

    @asynccontextmanager
    async def _living(self, _: MCPServer[None]) -> AsyncIterator[None]:
        """The time in which one transport serves clients; what was opened is closed after the last."""
        self._lives += 1
        try:
            async with self._runs.group():
                yield None
        finally:
            self._lives -= 1
            if not self._lives:
                with anyio.CancelScope(shield=True):
                    while self._apps:
                        await self._apps.popitem()[1].close()


def _tool(definition: Definition) -> Tool:
    return Tool(
        name=definition.name,
        title=definition.title,
        description=definition.description,
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        annotations=ToolAnnotations.model_validate({"title": definition.title, **definition.hints}),
    )
