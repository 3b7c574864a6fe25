"""The checks that every HTTP request passes before anything of it is believed, in this order.

1. The head is short, and says in one way where the body ends. 2. `Host` and `Origin` are known, so a page in
a browser cannot get in by DNS rebinding. 3. The token is right; the two paths about health need neither. 4.
The body comes in time and is short enough. 5. It is one message, whose id is free. A refused client gets the
reason: what it still sends is read and dropped before the connection is closed.
"""

from __future__ import annotations

import json
import logging
from ipaddress import ip_address
from typing import Final

import anyio
from mcp.types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lilux._dataclasses import dataclass
from lilux._json import MAX_VALUES, ValueCount
from rye_mcp.known_names import STATUS_OF_UNKNOWN, KnownNames
from rye_mcp.mcp_server.framing import content_of, is_handshake, problem_in
from rye_mcp.mcp_server.http_requests import EXCHANGE_KEY, Exchange, Traffic, session_in
from rye_mcp.mcp_server.options import Token

__all__ = [
    "BODY_LIMIT_S",
    "DRAIN_BYTES",
    "HEALTH_PATHS",
    "MAX_BODY_BYTES",
    "MAX_HEAD_BYTES",
    "STANDING_KEY",
    "Gate",
    "Standing",
    "one_client",
]


def one_client(address: tuple[str, int] | None) -> str:
    """The client at an address, as far as addresses tell."""
    host = (address[0] if address else "").partition("%")[0]
    try:
        found = ip_address(host)
    except ValueError:
        return host
    found = getattr(found, "ipv4_mapped", None) or found
    return "loopback" if found.is_loopback else str(found)


MAX_HEAD_BYTES: Final = 32 << 10
"""How long the head of a request may be."""

MAX_BODY_BYTES: Final = 4 << 20
"""How long the body of a request may be."""

MAX_HANDSHAKE_BYTES: Final = 64 << 10
"""How long a request for a session may be: the session keeps all of it."""

BODY_LIMIT_S: Final = 20.0
"""How long a client may take to send one."""

DRAIN_BYTES: Final = 16 << 20
"""How much is read of a request that was refused, so that its client reads the reason."""

DRAIN_LIMIT_S: Final = 3.0
"""For how long."""

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths that anybody may ask for."""

STANDING_KEY: Final = "rye_mcp.standing"
"""Where the state of a request holds the `Standing` of its connection."""

_LAST_EVENT: Final = b"last-event-id"
_MEDIA_TYPES: Final = frozenset({b"content-type", b"accept"})

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Standing:
    """The standing of a connection: the last exchange on it, once a request was let through."""

    exchange: Exchange | None = None

    @property
    def is_known(self) -> bool:
        """Whether one of its requests was let through."""
        return self.exchange is not None

    @property
    def is_leaving(self) -> bool:
        """Whether that exchange is over, or was told to end."""
        return self.exchange is not None and self.exchange.is_over


class Gate:
    """The application behind these checks; without a `token`, every client that gets here may come in."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        token: Token | None,
        names: KnownNames,
        traffic: Traffic,
    ) -> None:
        self._application = application
        self._token = token
        self._names = names
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        refusal = _refusal_of_head(scope)
        if refusal is None and scope["path"] in HEALTH_PATHS:
            await self._application(scope, receive, send)
            return
        incoming = _Incoming(receive)
        refusal = refusal or self._refusal(Headers(scope=scope))
        if refusal is not None:
            await _refuse(refusal, incoming, send)
            return
        is_stream, client = scope["method"] != "POST", one_client(scope["client"])
        exchange = Exchange(client, session_in(scope), is_stream)
        _let_in(scope, exchange)
        self._traffic.begin(exchange)
        try:
            await self._serve(exchange, scope, incoming, send)
        finally:
            self._traffic.end(exchange)

    def _refusal(self, headers: Headers) -> Response | None:
        unknown = self._names.unknown_in(headers.getlist("host"), headers.getlist("origin"))
        if unknown is not None:
            _log.warning("Invalid %s header", unknown)
            what = f"expected a known {unknown}, found another one: see --allow-{unknown.lower()}"
            return refused(STATUS_OF_UNKNOWN[unknown], what)
        given = headers.getlist("authorization")
        if self._token is None or self._token.opens(given[0].encode("latin-1") if len(given) == 1 else None):
            return None
        return refused(
            401,
            "expected the header Authorization: Bearer TOKEN with the token of this server",
            www_authenticate="Bearer",
        )

    async def _serve(self, exchange: Exchange, scope: Scope, incoming: _Incoming, send: Send) -> None:
        body: bytes | Response | None = b""
        if scope["method"] == "POST":
            body = await self._body(exchange, Headers(scope=scope), incoming)
        if isinstance(body, Response):
            await _refuse(body, incoming, send)
        elif body is not None:
            answer = _Answer(exchange, send)
            scope[EXCHANGE_KEY] = exchange
            with exchange.scope:
                await self._application(scope, _replay(exchange, body, incoming.receive), answer.send)
            await answer.end()

    async def _body(
        self, exchange: Exchange, headers: Headers, incoming: _Incoming
    ) -> bytes | Response | None:
        """The whole body, or the refusal of it, or None for a client that is gone."""
        too_long = refused(413, f"expected a body of at most {MAX_BODY_BYTES} bytes, found a longer one")
        too_many = refused(413, f"expected at most {MAX_VALUES} values in a body, found more")
        if int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
            return too_long
        body = bytearray()
        with anyio.move_on_after(BODY_LIMIT_S):
            while not incoming.is_over:
                body += await incoming.piece()
                if len(body) > MAX_BODY_BYTES:
                    return too_long
            if incoming.is_left:
                return None
            if not _holds_few(body):
                return too_many
            return self._refusal_of_message(exchange, bytes(body)) or bytes(body)
        return refused(408, f"expected the whole body within {BODY_LIMIT_S:g} s")

    def _refusal_of_message(self, exchange: Exchange, body: bytes) -> Response | None:
        """The refusal of a message: answers cannot repeat it, it is too long to be kept, or one too many."""
        found = content_of(body)
        if len(body) > MAX_HANDSHAKE_BYTES and is_handshake(found):
            return refused(
                413, f"expected an initialize of at most {MAX_HANDSHAKE_BYTES} bytes, found a longer one"
            )
        if (what := problem_in(found)) is not None:
            return refused(400, what)
        problem = self._traffic.ask(exchange, found, len(body))
        if problem is None:
            return None
        code, what = problem
        return refused(400 if code == INVALID_REQUEST else 503, what, code=code)


def _holds_few(body: bytearray) -> bool:
    """Whether reading it as JSON takes little time; others are not answered meanwhile."""
    return len(body) <= MAX_VALUES or ValueCount().feed(bytes(body))


class _Incoming:
    """The body of a request, as it comes; `is_over` after its last piece, or when its client is gone."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.is_over = False
        self.is_left = False

    async def piece(self) -> bytes:
        """The next piece of it."""
        message = await self.receive()
        self.is_left = message["type"] != "http.request"
        self.is_over = self.is_left or not message.get("more_body", False)
        found: bytes = message.get("body", b"")
        return found


class _Answer:
    """The part of an answer that has gone out."""

    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange = exchange
        self._send = send
        self._has_begun = False

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self._has_begun = True
        if message["type"] == "http.response.start":
            self._exchange.status = message["status"]
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._exchange.is_answered = True
        await self._send(message)

    async def end(self) -> None:
        """End what the server has broken off, so that the client need not guess."""
        if self._has_begun and not self._exchange.is_answered:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


def refused(status: int, reason: str, *, code: int = INVALID_REQUEST, **headers: str) -> Response:
    """The answer to a request that does not get in; its connection is closed."""
    error = {"code": code, "message": reason}
    return Response(
        json.dumps({"jsonrpc": "2.0", "id": None, "error": error}),
        status_code=status,
        media_type="application/json",
        headers={"connection": "close", **{name.replace("_", "-"): each for name, each in headers.items()}},
    )


async def _refuse(refusal: Response, incoming: _Incoming, send: Send) -> None:
    """Send a refusal at once, and end it when the client has sent what it was sending."""
    start = {"type": "http.response.start", "status": refusal.status_code, "headers": refusal.raw_headers}
    await send(start)
    await send({"type": "http.response.body", "body": refusal.body, "more_body": True})
    dropped = 0
    with anyio.move_on_after(DRAIN_LIMIT_S):
        while not incoming.is_over and dropped <= DRAIN_BYTES:
            dropped += len(await incoming.piece())
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _refusal_of_head(scope: Scope) -> Response | None:
    """The refusal of a head that is too long, or says two things about the end of the body.

    The parser limits only those heads that do not arrive at once. A proxy may see another end than it does.
    """
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        return refused(400, "expected Content-Length or Transfer-Encoding, found both")
    length = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    length += sum(len(name) + len(value) for name, value in scope["headers"])
    if length <= MAX_HEAD_BYTES:
        return None
    return refused(431, f"expected a head of at most {MAX_HEAD_BYTES} bytes, found a longer one")


def _let_in(scope: Scope, exchange: Exchange) -> None:
    """Know the connection from now on. Media types are written in any case, and the SDK compares them.

    No event is kept, so a stream that is asked to go on after one begins again: the SDK would fail.
    """
    standing = scope.get("state", {}).get(STANDING_KEY)
    if standing is not None:
        standing.exchange = exchange
    scope["headers"] = [
        (name, value.lower() if name in _MEDIA_TYPES else value)
        for name, value in scope["headers"]
        if name != _LAST_EVENT
    ]


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
