"""The server over HTTP: Streamable HTTP at `/mcp`, HTTP+SSE at `/sse` for old clients, `/healthz`, `/readyz`.

Rules:

- All of it is one application, behind one gate (`http_gate`): no path of it can be forgotten.
- Whoever goes away leaves nothing running, and neither does a server that ends (`http_traffic`).
- One line of JSON on standard output says where the server listens, for scripts; everything else goes to
  standard error. A token that was made is shown there, once; one that was given is shown nowhere.
- Answers are always streams and sessions are always kept: without either, calls could not be cancelled.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import anyio
from mcp.server import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import require_fitting
from rye_mcp.mcp_server.http_events import Events
from rye_mcp.mcp_server.http_gate import MAX_BODY_BYTES, Application, Gate
from rye_mcp.mcp_server.http_listening import connection_limit, listen, serve
from rye_mcp.mcp_server.http_names import KnownNames
from rye_mcp.mcp_server.http_sessions import MAX_SESSIONS, Sessions
from rye_mcp.mcp_server.http_state_keys import find_state_keys
from rye_mcp.mcp_server.http_token import TOKEN_VARIABLE, Token
from rye_mcp.mcp_server.http_traffic import MAX_STREAMS, Traffic
from rye_mcp.mcp_server.line_ends import WholeEvents
from rye_mcp.mcp_server.options import HttpOptions
from rye_mcp.mcp_server.projects import Projects
from rye_mcp.visible import visible

__all__ = ["http_application", "known_names", "serve_http"]

EXIT_REFUSED: Final = 1

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

_CHECKED_BY_THE_GATE: Final = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def serve_http(make: Callable[..., MCPServer[Any]], projects: Projects, options: HttpOptions) -> int:
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


def http_application(
    server: MCPServer[Any], traffic: Traffic, *, max_sessions: int = MAX_SESSIONS
) -> Application:
    """Both transports, and what is asked about health; a `Gate` stands in front of it."""
    sessions = Sessions(
        server._lowlevel_server,
        max_sessions=max_sessions,
        max_request_body_size=MAX_BODY_BYTES,
        security_settings=_CHECKED_BY_THE_GATE,
    )
    events = Events(
        server,
        traffic.requests,
        max_request_body_size=MAX_BODY_BYTES,
        security_settings=_CHECKED_BY_THE_GATE,
    )
    server._lowlevel_server.middleware += [traffic, sessions, require_fitting]

    def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    def readiness(_: Request) -> JSONResponse:
        if traffic.is_draining:
            return JSONResponse({"status": "draining"}, status_code=503)
        return JSONResponse({"status": "ready"})

    def lifespan(_: Starlette) -> AbstractAsyncContextManager[None]:
        return sessions.run()

    routes = [
        Route("/mcp", StreamableHTTPASGIApp(sessions)),
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
