"""What every HTTP request passes before anything of it is believed.

Rules, in this order:

1. `Host` and `Origin` are known ones, whatever the address is that the server listens on. A page in a browser
   that has led its own name to this machine (DNS rebinding) ends here.
2. The token is right. The two paths about health, which tell nothing, need none of these.
3. The body is there within `BODY_LIMIT_S` and not longer than `MAX_BODY_BYTES`. Whoever has no token does not
   get as far as sending one.

Whoever is refused gets the reason, and the connection is closed. A request that is let through is known to
the `Traffic` until its answer is out, or its client gone.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import anyio
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response

from rye_mcp.mcp_surface.http_token import Token
from rye_mcp.mcp_surface.http_traffic import EXCHANGE_KEY, Exchange, Traffic

__all__ = ["BODY_LIMIT_S", "HEALTH_PATHS", "MAX_BODY_BYTES", "Gate"]

MAX_BODY_BYTES: Final = 4 << 20
"""How long the body of a request may be."""

BODY_LIMIT_S: Final = 20.0
"""How long a client may take to send one."""

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What anybody may ask for."""

_INVALID_REQUEST: Final = -32600

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gate:
    """The application behind these checks; without a `token`, everybody who gets here may come in."""

    def __init__(
        self,
        application: Application,
        *,
        token: Token | None,
        security: TransportSecuritySettings,
        traffic: Traffic,
        body_limit_s: float = BODY_LIMIT_S,
    ) -> None:
        self._application = application
        self._token = token
        self._security = TransportSecurityMiddleware(security)
        self._traffic = traffic
        self._body_limit_s = body_limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on."""
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._application(scope, receive, send)
            return
        refusal = await self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        exchange = Exchange(is_stream=scope["method"] != "POST")
        self._traffic.begin(exchange)
        try:
            await self._serve(exchange, scope, receive, send)
        finally:
            self._traffic.end(exchange)

    async def _refusal(self, scope: Scope) -> Response | None:
        strange = await self._security.validate_request(Request(scope))
        if strange is not None:
            reason = bytes(strange.body).decode()
            return refused(strange.status_code, f"{reason}: see --allow-host and --allow-origin")
        if self._token is None or self._token.opens(dict(scope["headers"]).get(b"authorization")):
            return None
        return refused(
            401,
            "expected the header Authorization: Bearer TOKEN with the token of this server",
            **{"www-authenticate": "Bearer"},
        )

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            body = await self._body(scope, receive)
            if isinstance(body, Response):
                await body(scope, receive, send)
                return
            if body is None:
                return
        else:
            body = b""
        answer = _Answer(exchange, send)
        scope[EXCHANGE_KEY] = exchange
        with exchange.scope:
            await self._application(scope, _replay(exchange, body, receive), answer.send)
        await answer.end()

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """The whole body, or the refusal of it, or None for a client that is gone."""
        too_long = refused(413, f"expected a body of at most {MAX_BODY_BYTES} bytes, found a longer one")
        if int(Request(scope).headers.get("content-length", "0")) > MAX_BODY_BYTES:
            return too_long
        body = bytearray()
        with anyio.move_on_after(self._body_limit_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    return too_long
                if not message.get("more_body", False):
                    return bytes(body)
        return refused(408, f"expected the whole body within {self._body_limit_s:g} s")


class _Answer:
    """What has gone out of the answer to a request."""

    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange = exchange
        self._send = send
        self._has_begun = False

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self._has_begun = True
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._exchange.is_answered = True
        await self._send(message)

    async def end(self) -> None:
        """End what the server has broken off, so that the client need not guess."""
        if self._has_begun and not self._exchange.is_answered:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


def refused(status: int, reason: str, **headers: str) -> Response:
    """The answer to a request that does not get in; its connection is closed."""
    error = {"code": _INVALID_REQUEST, "message": reason}
    return Response(
        json.dumps({"jsonrpc": "2.0", "id": None, "error": error}),
        status_code=status,
        media_type="application/json",
        headers={"connection": "close", **headers},
    )


def _replay(exchange: Exchange, body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever the connection says."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        if waiting:
            return waiting.pop()
        message = await receive()
        if message["type"] == "http.disconnect":
            exchange.leave()
        return message

    return replayed
