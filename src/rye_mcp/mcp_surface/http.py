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
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rye_mcp.errors import RyeError
from rye_mcp.mcp_surface.http_gate import MAX_BODY_BYTES, Application, Gate
from rye_mcp.mcp_surface.http_listening import listen, serve
from rye_mcp.mcp_surface.http_state_keys import find_state_keys
from rye_mcp.mcp_surface.http_token import TOKEN_VARIABLE, Token
from rye_mcp.mcp_surface.http_traffic import Traffic
from rye_mcp.mcp_surface.options import HttpOptions
from rye_mcp.mcp_surface.projects import Projects

__all__ = ["http_application", "security_settings", "serve_http"]

MAX_SESSIONS: Final = 1024
"""How many sessions of 2025 clients there may be; each ends after half an hour without a word."""

EXIT_REFUSED: Final = 1

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


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
        print("\n".join(line for line in lines if exc.where or "where:" not in line), file=sys.stderr)  # noqa: T201
        return EXIT_REFUSED
    traffic = Traffic()
    security = security_settings(listening, options)
    server = make(state_keys=state_keys)
    application = Gate(
        http_application(server, traffic, security), token=token, security=security, traffic=traffic
    )
    _announce(_url(listening), token)
    anyio.run(partial(serve, application, listening, traffic, drain_s=options.drain_s))
    return 0


def http_application(
    server: MCPServer[Any], traffic: Traffic, security: TransportSecuritySettings
) -> Application:
    """Both transports, and what is asked about health."""
    streamable = server.streamable_http_app(
        max_request_body_size=MAX_BODY_BYTES, max_sessions=MAX_SESSIONS, transport_security=security
    )
    events = server.sse_app(max_request_body_size=MAX_BODY_BYTES, transport_security=security)
    server._lowlevel_server.middleware.append(traffic)

    def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    def readiness(_: Request) -> JSONResponse:
        if traffic.is_draining:
            return JSONResponse({"status": "draining"}, status_code=503)
        return JSONResponse({"status": "ready"})

    def lifespan(_: Starlette) -> AbstractAsyncContextManager[None]:
        return server.session_manager.run()

    routes = [
        *streamable.routes,
        *events.routes,
        Route("/healthz", health),
        Route("/readyz", readiness),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def security_settings(listening: socket.socket, options: HttpOptions) -> TransportSecuritySettings:
    """The hosts and origins that are known: this machine, the address itself, and what was named."""
    hosts = {*_LOOPBACK_NAMES, _host(listening), _bracketed(options.address.host)}
    hosts |= set(options.allowed_hosts)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=sorted(form for host in hosts for form in _with_any_port(host)),
        allowed_origins=sorted(
            {
                *(form for host in hosts for form in _with_any_port(f"http://{host}")),
                *(form for host in options.allowed_hosts for form in _with_any_port(f"https://{host}")),
                *options.allowed_origins,
            }
        ),
    )


def _with_any_port(name: str) -> tuple[str, ...]:
    has_port = name.rpartition(":")[2].isdigit() and not name.endswith("]")
    return (name,) if has_port else (name, f"{name}:*")


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
