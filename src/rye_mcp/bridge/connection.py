"""One connection to another MCP server: what it offers, and calls of its tools.

It is served by a task of its own, `serve`, which never raises: `problem` says what it came to. It speaks both
eras of the protocol, asks again what a server offers when that may have changed, and ends each call with its
answer, its time, its caller or the connection. The rules are in docs/architecture/bridge.md.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    ToolListChangedNotification,
)

from rye_mcp.apart import apart
from rye_mcp.bridge.definitions import Definition
from rye_mcp.bridge.incoming import MAX_TOOLS, IncomingCheck, LeftOutTool, first_line
from rye_mcp.bridge.servers import BridgeError
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import TaskGroup
    from mcp.client import ClientSession

    from lilux.primitives.subprocess import Enforced
    from rye_mcp.bridge.servers import Server
    from rye_mcp.permissions.denials import Denial

__all__ = ["MAX_PAGES", "MAX_TOOLS", "Connection", "first_of"]

MAX_PAGES: Final = 100
"""How many pages a list of tools may have."""

LIST_AGE_S: Final = 60.0
"""How old what a server offers may be before it is asked again."""

END_LIMIT_S: Final = 5.0
"""How long parting from a server may take."""

_NEVER: Final = -math.inf
_OLDEST: Final = "2024-11-05"
_SHOWN_CHARACTERS: Final = 500
_HOW_TO_LOOK: Final = {
    "stdio": "run its command in a terminal: it has to speak MCP over its standard input and output",
    "http": "look whether the server runs, and whether that is its address",
}
_WHO_FIXES: Final = "try another version of the server, or report it to its makers"
_HOW_TO_RAISE: Final = "raise config.max_message_bytes of its tools, if it has to be so much"
_SESSION_GONE: Final = frozenset({CONNECTION_CLOSED, INVALID_REQUEST})
"""Codes by which the SDK says that a server over HTTP is gone or has restarted and lost the session."""


class Progress(Protocol):
    """Takes how far a call is, out of how much, and a message."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class _Transport(Protocol):
    problem: BridgeError | None
    noise_lines: int
    enforced: Enforced | None

    @property
    def last_words(self) -> str: ...

    def denied(self, said: str) -> Denial | None: ...

    def streams(self) -> AbstractAsyncContextManager[Any]: ...


class _Answer(CallToolResult):
    """An answer, or a question: that one has no content."""

    content: list[ContentBlock] = []  # noqa: RUF012 - a field of a model, which copies it


class _Listing:
    """One question about what a server offers, shared by all callers that wait for the answer."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.problem: BridgeError | None = None


class Connection:
    """A connection, from its start to its end."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.ready = anyio.Event()
        self.over = anyio.Event()
        self.problem: BridgeError | None = None
        self.tools: Mapping[str, Definition] = {}
        self.last_used = time.monotonic()
        self._closing = anyio.Event()
        self._is_closed = False
        self._incoming = IncomingCheck(server.name)
        self._session: ClientSession | None = None
        self._transport: _Transport | None = None
        self._calls: set[anyio.CancelScope] = set()
        self._listed_at = _NEVER
        self._has_changed = False
        self._listing: _Listing | None = None
        self._beside: TaskGroup | None = None

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._calls)

    @property
    def is_ending(self) -> bool:
        """Whether it was there, and nobody should begin anything with it any more."""
        return self.ready.is_set() and self._closing.is_set()

    @property
    def enforced(self) -> Enforced | None:
        """The confinement of a server that is a program; None without one."""
        return None if self._transport is None else self._transport.enforced

    def denied(self, said: str) -> Denial | None:
        """Return the rights that a confined program lacked, judging by its message about a failed call."""
        return None if self._transport is None else self._transport.denied(said)

    @property
    def noise_lines(self) -> int:
        """How many lines of its standard output were no messages."""
        return 0 if self._transport is None else self._transport.noise_lines

    def close(self) -> None:
        """Let it end."""
        self._is_closed = True
        self._closing.set()

    async def serve(self, *, idle_s: float) -> None:
        """Connect, and stay connected until it is closed, ends, or nobody has used it for so long."""
        try:
            for mode in ("auto", "legacy"):
                if not await self._attempt(mode, idle_s):
                    break
        finally:
            self.over.set()
            for scope in self._calls:
                scope.cancel()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, timeout: float, progress: Progress | None = None
    ) -> CallToolResult:
        """Call a tool; BridgeError if the call fails."""
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))

        async def ask(session: ClientSession) -> Any:
            return await session.send_request(request, _Answer, progress_callback=progress)

        answer = await self._within(timeout, ask)
        if answer.result_type == "input_required":
            what = f"expected an answer of {self._shown}, found a question, which nobody here can be asked"
            raise BridgeError("tool_failed", what, hint=_WHO_FIXES)
        return answer  # type: ignore[no-any-return]

    async def offered(self) -> Mapping[str, Definition]:
        """The tools, by their names, as the server says it now or has said it not long ago."""
        is_ours = False
        while not (self._is_listed or is_ours):
            is_ours = self._listing is None
            listing = self._listing or self._begin_listing()
            await listing.done.wait()
            if listing.problem is not None:
                raise listing.problem
        return self.tools

    def _begin_listing(self) -> _Listing:
        if self._beside is None or self.over.is_set():
            raise self._lost()
        listing = self._listing = _Listing()
        self._beside.start_soon(self._list_again, listing)
        return listing

    async def _list_again(self, listing: _Listing) -> None:
        listing.problem = self._lost()  # unless it comes to something
        try:
            await self._list(self._within(self.server.start_timeout, self._ask_for_tools))
            listing.problem = None
        except BridgeError as exc:
            listing.problem = exc
        finally:
            self._listing = None
            listing.done.set()

    @property
    def _is_listed(self) -> bool:
        return time.monotonic() - self._listed_at <= LIST_AGE_S

    @property
    def _died(self) -> bool:
        return self.problem is not None and self.problem.code == "lost"

    # --- the connection ---

    async def _attempt(self, mode: str, idle_s: float) -> bool:
        """Connect in one era; True when the other one is worth a try."""
        self._closing = anyio.Event()
        transport = self._transport = _transport_of(self.server, self._closing.set)
        if self._is_closed:
            return False
        try:
            await self._connected(transport, mode, idle_s)
        except BaseExceptionGroup as group:
            problem = _problem_in(group)
            if problem is None:
                raise
            self.problem = transport.problem or self._failure(problem)
        except Exception as exc:  # noqa: BLE001 - whatever a server makes the SDK raise ends the connection alone
            self.problem = transport.problem or self._failure(exc)
        else:
            self.problem = transport.problem
        return mode == "auto" and not self.ready.is_set() and self.server.transport == "stdio" and self._died

    async def _connected(self, transport: _Transport, mode: str, idle_s: float) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._limit_start, group.cancel_scope)
            async with Client(
                self._incoming.over(transport.streams()),
                mode=mode,
                cache=None,
                client_info=Implementation(name="rye-mcp", version=version("rye-mcp")),
                message_handler=self._hear,
            ) as client:
                self._session = client.session
                self._incoming.version = client.session.protocol_version or _OLDEST
                await self._list(self._ask_for_tools(client.session))
                self.last_used = time.monotonic()
                async with anyio.create_task_group() as self._beside:
                    self.ready.set()
                    await self._stay(idle_s)
                    self._beside.cancel_scope.cancel()
                group.cancel_scope.deadline = anyio.current_time() + END_LIMIT_S
        if not self.ready.is_set():
            limit = self.server.start_timeout
            what = f"expected {self._shown} to say within {limit:g} s what it offers, found that it did not"
            hint = "look at the server, or raise config.start_timeout"
            raise BridgeError("timeout", what, hint=hint, said=transport.last_words)

    async def _limit_start(self, scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(self.server.start_timeout):
            await first_of(self.ready, self._closing)
        if not self.ready.is_set():
            scope.cancel()

    async def _stay(self, idle_s: float) -> None:
        """Until somebody closes it, or nobody has used it for long."""
        while not self._closing.is_set():
            left = self.last_used + idle_s - time.monotonic()
            if left <= 0 and not self.is_busy:
                self.close()
                return
            with anyio.move_on_after(max(left, 1.0)):
                await self._closing.wait()

    async def _list(self, listing: Awaitable[Mapping[str, Definition]]) -> None:
        """Take what the server offers; what has changed while it said so is asked again by the next call."""
        self._listed_at, self._has_changed = _NEVER, False
        self.tools = await listing
        if not self._has_changed:
            self._listed_at = time.monotonic()

    async def _ask_for_tools(self, session: ClientSession) -> Mapping[str, Definition]:
        """All pages of what the server offers."""
        offered = _Offered(self.server.max_message_bytes)
        params: PaginatedRequestParams | None = None
        for _ in range(MAX_PAGES):
            page = await session.list_tools(params=params)
            await apart(partial(offered.take, page, self._incoming.left_out))
            if page.next_cursor is None:
                return offered.once(self._shown)
            params = PaginatedRequestParams(cursor=page.next_cursor)
        raise BridgeError("lost", f"expected a list of tools of at most {MAX_PAGES} pages, found more")

    async def _hear(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._listed_at, self._has_changed = _NEVER, True

    # --- calls ---

    async def _within(self, timeout: float, ask: Callable[[ClientSession], Awaitable[Any]]) -> Any:
        """Ask the server, and wait at most so many seconds for the answer."""
        if self._session is None or self.over.is_set():
            raise self._lost()
        with anyio.move_on_after(timeout) as scope:
            self._calls.add(scope)
            try:
                return await ask(self._session)
            except MCPError as exc:
                raise self._refused(exc) from exc
            except (RuntimeError, ValueError) as exc:
                what = f"expected an answer of {self._shown} as MCP has it, found: {first_line(exc)}"
                raise BridgeError("tool_failed", what, hint=_WHO_FIXES) from exc
            finally:
                self._calls.discard(scope)
                self.last_used = time.monotonic()
        if self.over.is_set() or self._closing.is_set():
            raise self._lost()
        what = f"expected an answer of {self._shown} within {timeout:g} s, found none, and gave the call up"
        raise BridgeError("timeout", what)

    def _refused(self, error: MCPError) -> BridgeError:
        """Translate an error of the protocol: the connection is gone, or the server refused."""
        if isinstance(error.data, BridgeError):
            return error.data
        # A server may say the very code by which the SDK tells that a program has closed its output.
        if self._closing.is_set() or (self.server.transport == "http" and error.code in _SESSION_GONE):
            if self._transport is not None:
                self.problem = self.problem or self._transport.problem
            self.close()
            return self._lost(error)
        said = visible(error.message[:_SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS]
        what = f"{self._shown} refused the call with {error.code}: {said}"
        return BridgeError("tool_failed", what, hint="look at the parameters, or at what it needs to do it")

    def _lost(self, error: Exception | None = None) -> BridgeError:
        problem = self.problem or (self._transport.problem if self._transport is not None else None)
        if problem is not None:
            return problem
        why = "the connection was ended" if error is None else first_line(error)
        if self.server.transport == "http":
            why += f" (an answer has at most {self.server.max_message_bytes} bytes)"
        return BridgeError("lost", f"expected {self._shown} to answer, found: {why}")

    def _failure(self, error: BaseException) -> BridgeError:
        """Turn the end of the connection into an error that says whose fault it was."""
        error = error.data if isinstance(error, MCPError) and isinstance(error.data, BridgeError) else error
        if isinstance(error, BridgeError):
            return error
        what = f"expected {self._shown} to speak MCP, found: {first_line(error)}"
        return BridgeError("lost", what, hint=_HOW_TO_LOOK[self.server.transport])

    @property
    def _shown(self) -> str:
        return f"the server {visible(self.server.name)}"


async def first_of(*events: anyio.Event) -> None:
    """Wait until one of them is set."""
    if any(event.is_set() for event in events):
        return
    async with anyio.create_task_group() as group:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            group.cancel_scope.cancel()

        for event in events:
            group.start_soon(wait, event)


def _transport_of(server: Server, on_end: Callable[[], None]) -> _Transport:
    if server.transport == "stdio":
        from rye_mcp.bridge.stdio import StdioProgram

        return StdioProgram(server, on_end)
    from rye_mcp.bridge.http import HttpEndpoint

    return HttpEndpoint(server)


class _Offered:
    """The entries of a list so far, page by page; BridgeError when they exceed the limit of one message."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._tools: dict[str, Definition] = {}
        self._twice: set[str] = set()

    def take(self, page: ListToolsResult, left_out: Iterable[LeftOutTool]) -> None:
        """Add a page, and what it was left without."""
        text = page.model_dump_json(by_alias=True, exclude_unset=True)
        self._size += len(text.encode()) + sum(each.size for each in left_out)
        if self._size > self._limit:
            what = f"expected a list of tools of at most {self._limit} bytes in all its pages, found more"
            raise BridgeError("lost", what, hint=_HOW_TO_RAISE)
        faulty = (Definition.malformed(each.name, each.problem) for each in left_out)
        for said in (*map(Definition.of, json.loads(text)["tools"]), *faulty):
            if said.name in self._tools:
                self._twice.add(said.name)
            self._tools[said.name] = said
        if len(self._tools) > MAX_TOOLS:
            raise BridgeError("lost", f"expected at most {MAX_TOOLS} tools of a server, found more")

    def once(self, server: str) -> Mapping[str, Definition]:
        """The tools that stand there once; BridgeError when all of them are malformed."""
        once = {name: said for name, said in self._tools.items() if name not in self._twice}
        problems = [said.problem for said in once.values() if said.problem is not None]
        if problems and len(problems) == len(once):
            raise BridgeError("lost", f"expected {server} to speak MCP, found: {problems[0]}")
        return once


def _problem_in(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The first that is no cancellation; None when there are only cancellations."""
    cancelled = anyio.get_cancelled_exc_class()
    for each in group.exceptions:
        found = _problem_in(each) if isinstance(each, BaseExceptionGroup) else each
        if found is not None and not isinstance(found, cancelled):
            return found
    return None
