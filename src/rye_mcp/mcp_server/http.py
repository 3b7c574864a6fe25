"""The server over HTTP: Streamable HTTP at `/mcp`, HTTP+SSE at `/sse` for old clients, `/healthz`, `/readyz`.

It is one application behind one gate (`http_gate`), so that no path is forgotten. Answers are always streams
and sessions are always kept: calls could not be cancelled otherwise. An idle session ends, sooner if it never
called anything. One line of JSON on standard output says where the server listens; a new token is shown once.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
from mcp.server import MCPServer
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from rye_mcp.apart import on_behalf_of
from rye_mcp.errors import RyeError
from rye_mcp.known_names import KnownNames
from rye_mcp.mcp_server.framing import BUSY, one_line
from rye_mcp.mcp_server.http_connections import connection_limit, listen, serve
from rye_mcp.mcp_server.http_gate import MAX_BODY_BYTES, Gate
from rye_mcp.mcp_server.http_requests import (
    EXCHANGE_KEY,
    MAX_STREAMS,
    MESSAGES_PATH,
    Exchange,
    Requests,
    Traffic,
    stream_of,
)
from rye_mcp.mcp_server.options import TOKEN_VARIABLE, HttpOptions, Token, find_state_keys
from rye_mcp.mcp_server.projects import Projects
from rye_mcp.mcp_server.room import require_fitting
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from rye_mcp.mcp_server.rye_server import RyeServer

__all__ = [
    "CALLED_IDLE_S",
    "MAX_SESSIONS",
    "MAX_WAITING_BYTES",
    "UNCALLED_IDLE_S",
    "Events",
    "LookedUp",
    "Sessions",
    "WholeEvents",
    "http_application",
    "known_names",
    "serve_http",
]

MAX_SESSIONS: Final = 1024
"""How many sessions there may be."""

CALLED_IDLE_S: Final = 30 * 60.0
"""How long a session may be idle."""

UNCALLED_IDLE_S: Final = 60.0
"""How long a session may be idle that has asked for nothing yet."""

_BEGINNING: Final = frozenset({"initialize", "ping"})


class Sessions(StreamableHTTPSessionManager):
    """The SDK's sessions under these rules; it is also what the SDK's server asks before each request."""

    def __init__(self, app: Any, *, uncalled_idle_s: float = UNCALLED_IDLE_S, **options: Any) -> None:
        super().__init__(app, session_idle_timeout=uncalled_idle_s, **options)

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Pass a request on; the session that it belongs to may be idle for longer from now on."""
        session_id = "" if ctx.request is None else ctx.request.headers.get(MCP_SESSION_ID_HEADER, "")
        session = self._server_instances.get(session_id)
        if session is not None and ctx.request_id is not None and ctx.method not in _BEGINNING:
            session._idle_timeout = CALLED_IDLE_S
        return await call_next(ctx)

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            self._end_the_first()
        return super()._admit_session(requestor)

    def _end_the_first(self) -> None:
        """End the idle session that would end first; none if all have something under way."""
        ends = {session_id: _end_of(each) for session_id, each in self._server_instances.items()}
        first = min(ends, key=lambda session_id: ends[session_id])
        if ends[first] == math.inf:
            return
        session = self._server_instances.pop(first)
        if session.idle_scope is not None:
            session.idle_scope.cancel()


def _end_of(session: StreamableHTTPServerTransport) -> float:
    return math.inf if session.idle_scope is None else session.idle_scope.deadline


MAX_WAITING_BYTES: Final = 16 << 20
"""How long the answers may be together that wait for one client."""

_TOO_MUCH: Final = (
    f"expected a client that reads its answers, found {MAX_WAITING_BYTES} bytes of them waiting: call again"
)


class Events(SseServerTransport):
    """The SDK's transport, whose answers are counted."""

    def __init__(self, server: MCPServer[Any], requests: Requests, **options: Any) -> None:
        super().__init__(MESSAGES_PATH, **options)
        self._server = server._lowlevel_server
        self._requests = requests

    def routes(self) -> list[BaseRoute]:
        """Where clients listen, and where they send."""
        return [
            Route("/sse", endpoint=_Listening(self), methods=["GET"]),
            Mount(MESSAGES_PATH, app=self.handle_post_message),
        ]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client as long as it listens."""
        async with self.connect_sse(scope, receive, send) as (incoming, outgoing):
            session = stream_of(
                next(reversed(self._read_stream_writers))
            )  # no other task had a turn meanwhile
            exchange: Exchange | None = scope.get(EXCHANGE_KEY)
            if exchange is not None:
                exchange.session = session
            options = self._server.create_initialization_options()
            self._requests.open(session)
            try:
                await self._server.run(incoming, _Counted(outgoing, self._requests, session), options)
            finally:
                self._requests.close(session)


class _Listening:
    """The application of the path where clients listen."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._events.serve(scope, receive, send)


class _Counted:
    """A place for the messages to a client; a request is over when its answer was taken."""

    def __init__(self, outgoing: Any, requests: Requests, session: str) -> None:
        self._outgoing = outgoing
        self._requests = requests
        self._session = session
        self._waiting = self._bytes = 0
        self._refusals: list[SessionMessage] = []

    async def send(self, item: SessionMessage) -> None:
        """Give out a message, when those before are on their way; an answer that is too much is refused."""
        size = _length(item) if self._waiting else 0
        if self._bytes + size > MAX_WAITING_BYTES and isinstance(item.message, JSONRPCResponse):
            self._refusals.append(_refusal(item.message.id))
            return
        self._waiting += 1
        self._bytes += size
        try:
            await self._give(item)
        finally:
            self._waiting -= 1
            self._bytes -= size
        while self._refusals:
            await self._give(self._refusals.pop())

    async def _give(self, item: SessionMessage) -> None:
        await self._outgoing.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._requests.end(self._session, item.message.id)

    async def aclose(self) -> None:
        """Take no more messages."""
        await self._outgoing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _length(item: SessionMessage) -> int:
    return len(item.message.model_dump_json(by_alias=True, exclude_unset=True))


def _refusal(number: str | int) -> SessionMessage:
    error = ErrorData(code=BUSY, message=_TOO_MUCH)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))


class LookedUp:
    """An application that gets a call when the tool of the call was looked up."""

    def __init__(self, application: ASGIApp, look_up: Callable[[str], Awaitable[None]]) -> None:
        self._application = application
        self._look_up = look_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        exchange: Exchange | None = scope.get(EXCHANGE_KEY)
        if exchange is not None and exchange.tool is not None:
            with on_behalf_of(exchange.client):
                await self._look_up(exchange.tool)
        await self._application(scope, receive, send)


class WholeEvents:
    """An application whose server-sent events have none of these characters; the SDK writes each at once."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        are_events = False

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal are_events
            if message["type"] == "http.response.start":
                are_events = _are_events(message)
            elif are_events and message.get("body"):
                message = {**message, "body": one_line(message["body"])}
            await send(message)

        await self._application(scope, receive, sent)


def _are_events(start: MutableMapping[str, Any]) -> bool:
    kinds = (value for name, value in start["headers"] if name.lower() == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


EXIT_REFUSED: Final = 1

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

_CHECKED_BY_THE_GATE: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def serve_http(make: Callable[..., RyeServer], projects: Projects, options: HttpOptions) -> int:
    """Serve until a signal comes; the exit code of the command. `make` makes the server."""
    try:
        token = None if options.is_open else Token.find(options.token_file, os.environ)
        state_keys = find_state_keys(options.state_key_file, os.environ)
        for project in (*projects.named, None):
            projects.open(project)  # what cannot be a project is said now, not to the first client
        listening = listen(options.address, is_open=options.is_open)
    except RyeError as exc:
        lines = [f"rye-mcp: {exc.code}: {exc.message}", f"  where: {exc.where}", f"  hint:  {exc.hint}"]
        shown = [visible(line) for line in lines if exc.where or "where:" not in line]
        print("\n".join(shown), file=sys.stderr)  # noqa: T201
        return EXIT_REFUSED
    traffic = Traffic(max_streams=min(MAX_STREAMS, connection_limit() * 3 // 4))
    server = make(state_keys=state_keys)
    names = known_names(listening, options)
    application = Gate(http_application(server, traffic), token=token, names=names, traffic=traffic)
    _announce(_url(listening), token)
    anyio.run(partial(serve, application, listening, traffic, drain_s=options.drain_s))
    return 0


def http_application(server: RyeServer, traffic: Traffic) -> ASGIApp:
    """Both transports, and what is asked about health; a `Gate` stands in front of it."""
    sessions = Sessions(
        server._lowlevel_server,
        max_sessions=MAX_SESSIONS,
        max_request_body_size=MAX_BODY_BYTES,
        security_settings=_CHECKED_BY_THE_GATE,
    )
    events = Events(
        server,
        traffic.requests,
        max_request_body_size=MAX_BODY_BYTES,
        security_settings=_CHECKED_BY_THE_GATE,
    )
    server.middleware.extend([traffic, sessions, require_fitting])

    def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    def readiness(_: Request) -> JSONResponse:
        if traffic.is_draining:
            return JSONResponse({"status": "draining"}, status_code=503)
        return JSONResponse({"status": "ready"})

    def lifespan(_: Starlette) -> AbstractAsyncContextManager[None]:
        return sessions.run()

    routes = [
        Route("/mcp", LookedUp(StreamableHTTPASGIApp(sessions), server.look_up)),
        *events.routes(),
        Route("/healthz", health),
        Route("/readyz", readiness),
    ]
    return WholeEvents(Starlette(routes=routes, lifespan=lifespan))


def known_names(listening: socket.socket, options: HttpOptions) -> KnownNames:
    """The hosts and origins that are known: this machine, the address itself, and what was named."""
    hosts = {*_LOOPBACK_NAMES, _host(listening), _bracketed(options.address.host), *options.allowed_hosts}
    secure = (f"https://{host}" for host in options.allowed_hosts)
    return KnownNames.of(hosts, (*(f"http://{host}" for host in hosts), *secure), options.allowed_origins)


def _host(listening: socket.socket) -> str:
    return _bracketed(listening.getsockname()[0])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _url(listening: socket.socket) -> str:
    return f"http://{_host(listening)}:{listening.getsockname()[1]}"


def _announce(url: str, token: Token | None) -> None:
    """Say where the server is, and how to use it."""
    facts = {"url": f"{url}/mcp", "sse": f"{url}/sse", "pid": os.getpid()}
    print(json.dumps(facts), flush=True)  # noqa: T201
    print("\n".join(_usage(url, token)), file=sys.stderr, flush=True)  # noqa: T201


def _usage(url: str, token: Token | None) -> list[str]:
    lines = [f"rye-mcp: listening on {url}/mcp, and on {url}/sse for old clients"]
    if token is None:
        return [
            *lines,
            "no token is asked for: every program on this machine can use it",
            f"  claude mcp add --transport http rye {url}/mcp",
        ]
    if token.is_new:
        value = token.text
        lines += [f"token, made now and shown this once: {token.text}"]
    else:
        value = f"${TOKEN_VARIABLE}"
    bearer = f"Authorization: Bearer {value}"
    return [
        *lines,
        f'  claude mcp add --transport http rye {url}/mcp --header "{bearer}"',
        f'  npx @modelcontextprotocol/inspector --cli {url}/mcp --method tools/list --header "{bearer}"',
    ]
