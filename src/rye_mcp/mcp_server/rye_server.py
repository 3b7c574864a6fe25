"""The MCP server object: it lists what there is, checks arguments, calls the verbs and answers.

Every caller is an agent, whatever its arguments say. Nothing heavy is imported before it is needed, because
a client waits for the answer to `initialize`. Every failure of a tool is an answer that names the project; a
tool that does not exist is an error of the protocol. Cancelling a call ends what it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions
from mcp.server.request_state import RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    Tool,
    ToolAnnotations,
)

from rye_mcp.apart import apart, apart_if_large, off_loop
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import (
    QUESTION_LIFETIME_S,
    QuestionAsked,
    answer,
    exposed_answer,
    refusal,
    unexpected,
)
from rye_mcp.mcp_server.app_view import RUN_VIEW, run_view, view_of
from rye_mcp.mcp_server.background_runs import BackgroundRuns
from rye_mcp.mcp_server.definitions import DEFINITIONS, Definition
from rye_mcp.mcp_server.exposed_items import ExposedTools
from rye_mcp.mcp_server.file_changes import FileChanges
from rye_mcp.mcp_server.greeting import INSTRUCTIONS, NAME, TITLE, Greeting
from rye_mcp.mcp_server.listings import Listed, Listings, page_of
from rye_mcp.mcp_server.projects import OpenProjects
from rye_mcp.mcp_server.requests import (
    agree_on_a_revision_without_batches,
    begin_once,
    client_of,
    complete,
    in_its_turn,
    logged,
    protocol_error,
    sender_of,
    session_of,
    teller_of,
    trace_of_call,
)
from rye_mcp.mcp_server.skills import SkillsExtension
from rye_mcp.mcp_server.subscriptions import Announcer, SubscriptionHandlers
from rye_mcp.own_directories import state_directory

if TYPE_CHECKING:
    from mcp.server.lowlevel.helper_types import ReadResourceContents
    from mcp.types import GetPromptResult, ResourceTemplate

    from rye_mcp.app import App
    from rye_mcp.configuration import Action
    from rye_mcp.mcp_server.calls import Asked
    from rye_mcp.runs.board import RunBoard

__all__ = ["RyeServer"]

_LISTED: Final = CacheHint(ttl_ms=60_000, scope="private")
_FIXED: Final = CacheHint(ttl_ms=3_600_000, scope="public")
_CALLS: Final = "rye_mcp.mcp_server.calls"


class RyeServer(MCPServer[None]):
    """The tools of rye-mcp over MCP. `open_app` opens the parts for a project path, or for none; `expose`
    are the patterns of ids whose tools are tools of MCP themselves."""

    def __init__(
        self,
        open_app: Callable[[Path | None], App],
        *,
        version: str = "",
        expose: tuple[str, ...] = (),
        confirm: frozenset[Action] = frozenset(),
        state_keys: tuple[str, ...] = (),
    ) -> None:
        bus = InMemorySubscriptionBus()
        super().__init__(
            NAME,
            title=TITLE,
            instructions=INSTRUCTIONS,
            version=version,
            lifespan=self._living,
            subscriptions=bus,
            extensions=[skills := SkillsExtension(), run_view()],
            middleware=[begin_once, agree_on_a_revision_without_batches, in_its_turn],
            request_state_security=RequestStateSecurity(
                keys=state_keys or [os.urandom(32)], ttl=QUESTION_LIFETIME_S
            ),
            cache_hints={
                "tools/list": _LISTED,
                "prompts/list": _LISTED,
                "resources/list": _LISTED,
                "resources/templates/list": _FIXED,
            },
        )
        self._changes = FileChanges()
        self._apps = OpenProjects(open_app, self._changes.forget)
        self._runs = BackgroundRuns(_board(state_keys))
        self._native = ExposedTools(expose)
        self._confirm = confirm
        self._announcing = Announcer(bus, self._runs.beside)
        self._listings = Listings(self._native, self._announcing, self._changes, self._runs.beside)
        skills.serve(self._apps, self._listings)
        self._lives = 0
        self._add_handlers()

    def _add_handlers(self) -> None:
        """Answer what the SDK's server leaves out, or does without pages; promise notices of changes."""
        server = self._lowlevel_server
        options = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        vars(server)["create_initialization_options"] = partial(server.create_initialization_options, options)
        for name, handler in (("initialized", self._on_initialized), ("roots/list_changed", self._on_roots)):
            server.add_notification_handler(f"notifications/{name}", NotificationParams, handler)
        server.add_request_handler("completion/complete", CompleteRequestParams, self._complete)
        lists = {"tools": self._list_tools, "prompts": self._list_prompts, "resources": self._list_resources}
        for name, listing in lists.items():
            server.add_request_handler(f"{name}/list", PaginatedRequestParams, listing)
        SubscriptionHandlers(self._apps, self._listings).serve(server)

    async def run_stdio_async(self, greeting: Greeting | None = None) -> None:
        """Serve one client over standard input and output, which nothing else uses meanwhile."""
        from rye_mcp.mcp_server.framing import framed
        from rye_mcp.mcp_server.stdio import claimed, parent_gone

        greeting = greeting or Greeting()
        with claimed(greeting.taken) as (lines, wire):
            async with anyio.create_task_group() as group:

                async def end_with_parent() -> None:
                    await parent_gone(greeting.parent)
                    group.cancel_scope.cancel()

                group.start_soon(end_with_parent)
                async with framed(lines, wire, greeting) as (incoming, outgoing):
                    options = self._lowlevel_server.create_initialization_options()
                    await self._lowlevel_server.run(incoming, outgoing, options)
                group.cancel_scope.cancel()

    def run(self, transport: str = "stdio", **_: Any) -> None:
        """Serve one client, for `mcp run`; not over HTTP, where the SDK's own server asks for no token."""
        if transport != "stdio":
            raise SystemExit(f"expected the transport stdio, found {transport}\nhint: rye-mcp --http")
        anyio.run(self.run_stdio_async)

    # --- tools ---

    async def _list_tools(self, context: Any, params: PaginatedRequestParams) -> ListToolsResult:
        """A page of what the server offers: the four tools of it first."""
        listed, following = await self._page("tools", self._listings.tools, params)
        own = () if params.cursor else DEFINITIONS.values()
        fixed = [_tool(each, view_of(each.name, context)) for each in own]
        return ListToolsResult(tools=[*fixed, *listed], next_cursor=following)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None
    ) -> CallToolResult | InputRequiredResult:
        """Do what a client asks for, or ask for what is missing: that somebody agrees."""
        return await logged(name, arguments, context, partial(self._call_tool, name, arguments, context))

    async def _call_tool(
        self, name: str, arguments: dict[str, Any], context: Any
    ) -> CallToolResult | InputRequiredResult:
        about: dict[str, Any] = {}
        if _CALLS not in sys.modules:
            await off_loop(_import_calls)
        try:
            if name in DEFINITIONS:
                return await self._call(DEFINITIONS[name], arguments, context, about)
            return await self._call_native(name, arguments, context, about)
        except RyeError as exc:
            return refusal(exc, **about)
        except QuestionAsked as exc:
            return exc.result
        except MCPError:
            raise
        except Exception as exc:  # noqa: BLE001 - its text must not reach the client
            return unexpected(exc)

    async def _call(
        self, definition: Definition, given: Mapping[str, Any] | None, context: Any, about: dict[str, Any]
    ) -> CallToolResult:
        from rye_mcp.mcp_server.calls import CALLS
        from rye_mcp.mcp_server.definitions import check_arguments
        from rye_mcp.mcp_server.room import Room

        arguments = await apart_if_large(given, partial(check_arguments, definition, given))
        path = arguments.pop("project_path", None)
        async with self._apps.using(path, session_of(context)) as app:
            about["project"] = _project_of(app)
            room = Room.of(app, context, as_handle=arguments.pop("as_handle", False))
            facts = {**await CALLS[definition.name](arguments, self._asked(app, context)), **about}
            return await room.fit(facts, answer)

    async def _call_native(
        self, name: str, arguments: dict[str, Any], context: Any, about: dict[str, Any]
    ) -> CallToolResult:
        async with self._apps.using(None, session_of(context)) as app:
            about["project"] = _project_of(app)
            return await self._run_native(app, name, arguments, context, about)

    async def _run_native(
        self, app: App, name: str, arguments: dict[str, Any], context: Any, about: dict[str, Any]
    ) -> CallToolResult:
        from rye_mcp.mcp_server.calls import run_tool
        from rye_mcp.mcp_server.room import Room

        item_id = await self._native.id_of(name, app)
        if item_id is None:
            what = f"expected a tool of tools/list, such as {', '.join(DEFINITIONS)}, found {name[:80]!r}"
            with protocol_error():
                raise RyeError("unknown_argument", what, hint="tools/list names the tools")
        found = await run_tool(item_id, arguments, self._asked(app, context))
        facts, schema = {**found, **about}, self._native.output_schema(name)
        room, make = Room.of(app, context), partial(exposed_answer, schema=schema)
        is_promised = schema is not None and facts.get("status") == "success"
        return await (room.fit_promised if is_promised else room.fit)(facts, make)

    def _tool_input_schema(self, name: str) -> dict[str, Any] | None:
        """Parameters that clients of 2026 repeat as headers (`x-mcp-header`) are compared with these."""
        if name in DEFINITIONS:
            return DEFINITIONS[name].input_schema
        return self._native.input_schema(name)

    async def look_up(self, name: str) -> None:
        """Know a tool before the SDK asks for its schema, which it does where nothing can wait."""
        with suppress(RyeError):  # the call says why
            if name not in DEFINITIONS:
                await self._native.look_up(name, self._apps.named_at_start())

    def _asked(self, app: App, context: Any) -> Asked:
        from rye_mcp.mcp_server.calls import Asked
        from rye_mcp.mcp_server.confirmation import Confirmer

        return Asked(
            app,
            tell=teller_of(context),
            sender=sender_of(context),
            client=client_of(context),
            confirmer=Confirmer(app, self._confirm, context),
            trace=trace_of_call(),
            runs=self._runs,
            changes=self._changes,
            keeping=self._apps.keeping,
        )

    # --- prompts and resources ---

    async def _list_prompts(self, _: Any, params: PaginatedRequestParams) -> ListPromptsResult:
        """A page of the directives."""
        listed, following = await self._page("prompts", self._listings.prompts, params)
        return ListPromptsResult(prompts=listed, next_cursor=following)

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Any = None
    ) -> GetPromptResult:
        """The instructions of a directive."""
        from rye_mcp.mcp_server.exposed_items import get_prompt

        with protocol_error():
            async with self._apps.using(None, session_of(context)) as app:
                return await get_prompt(app, name, arguments or {})

    async def _list_resources(self, _: Any, params: PaginatedRequestParams) -> ListResourcesResult:
        """A page of the knowledge."""
        listed, following = await self._page("resources", self._listings.resources, params)
        return ListResourcesResult(resources=listed, next_cursor=following)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Addresses of items and of the output of runs."""
        from rye_mcp.mcp_server.exposed_items import TEMPLATES

        return list(TEMPLATES)

    async def read_resource(self, uri: Any, context: Any = None) -> Iterable[ReadResourceContents]:
        """Read the resource at an address."""
        from rye_mcp.mcp_server.exposed_items import read_resource

        if str(uri) == RUN_VIEW:
            return await super().read_resource(uri, context)  # type: ignore[return-value] # it asks nobody
        with protocol_error(uri=str(uri)):
            async with self._apps.using(None, session_of(context)) as app:
                return [await apart(partial(read_resource, app, self._runs, str(uri)))]

    async def _complete(self, _: Any, params: CompleteRequestParams) -> CompleteResult:
        with protocol_error():
            return await apart(partial(complete, await self._apps.own(), params))

    # --- what changes ---

    async def _page(
        self,
        name: str,
        listing: Callable[[App], Awaitable[list[Listed[Any]]]],
        params: PaginatedRequestParams,
    ) -> tuple[list[Any], str | None]:
        """A page of the list as it is now, with the next cursor. Its client is told when the list changes."""
        with protocol_error():
            return page_of(await self._list(listing), params.cursor, name)

    async def _list(self, listing: Callable[[App], Awaitable[list[Listed[Any]]]]) -> list[Listed[Any]]:
        try:
            app = await self._apps.own()
        except RyeError:
            return []  # every call says why
        self._listings.watch(app)
        return await listing(app)

    async def _on_initialized(self, context: Any, _: NotificationParams) -> None:
        self._announcing.remember(context.session)
        await self._on_roots(context, _)

    async def _on_roots(self, context: Any, _: NotificationParams) -> None:
        if context.request is None:  # over HTTP nobody tells the server where to look
            self._runs.beside(partial(self._look_at_roots, context.session))

    async def _look_at_roots(self, session: Any) -> None:
        await self._apps.ask_for_roots(session)
        if self._listings.are_known:
            await self._listings.compare(await self._apps.own())

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
                    await self._apps.close()


def _board(keys: tuple[str, ...]) -> RunBoard | None:
    """Where workers with the same keys see the runs of each other; None for a server of its own."""
    if not keys:
        return None
    from rye_mcp.runs.board import RunBoard

    return RunBoard(state_directory(), keys)


def _import_calls() -> None:
    """Import what the first call needs: about 200 modules, and other clients are answered meanwhile."""
    from rye_mcp.mcp_server import calls, room  # noqa: F401


def _project_of(app: App) -> str | None:
    return None if app.spaces.project is None else str(app.settings.project)


def _tool(definition: Definition, meta: dict[str, Any] | None) -> Tool:
    return Tool(
        name=definition.name,
        title=definition.title,
        description=definition.description,
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        annotations=ToolAnnotations.model_validate({"title": definition.title, **definition.hints}),
        _meta=meta,
    )
