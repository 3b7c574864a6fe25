"""The exchanges over HTTP in progress, their requests by session, and the calls of these.

When an exchange is over, with or without an answer, what is left of its calls is cancelled. Calls, held bytes
and streams have limits, for each session and in all; a new stream ends the one of the client that holds most.
A request counts until its answer is out. Once the server drains, no tool is called any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import field
from typing import Any, Final
from uuid import UUID

import anyio
from mcp.server.streamable_http import GET_STREAM_KEY, MCP_SESSION_ID_HEADER
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST
from starlette.requests import Request

from lilux._dataclasses import dataclass
from rye_mcp.mcp_server.framing import BUSY, Problem, Running, cancelled_in, request_in, tool_in

__all__ = [
    "EXCHANGE_KEY",
    "MAX_CALLS",
    "MAX_EACH",
    "MAX_HELD_BYTES",
    "MAX_LISTENING",
    "MAX_STREAMS",
    "MESSAGES_PATH",
    "Exchange",
    "Requests",
    "Traffic",
    "session_in",
    "stream_of",
]

MAX_CALLS: Final = 256
"""How many requests may be under way at once."""

MAX_EACH: Final = 224
"""How many of them may belong to one session: some are left for others."""

MAX_HELD_BYTES: Final = 16 << 20
"""How long the bodies may be together that one session has under way."""

MESSAGES_PATH: Final = "/messages/"

_NO_ID: Final = f"expected another id than {GET_STREAM_KEY}, which is the name of a stream"
_TOO_LONG: Final = (
    f"expected at most {MAX_HELD_BYTES} bytes of requests at once in a session, found more: call again later"
)


class Requests:
    """The unanswered requests of each session."""

    def __init__(self, limit: int = MAX_CALLS) -> None:
        self._limit = limit
        self._running: dict[Hashable, Running] = {}
        self._kept: set[Hashable] = set()
        self._held: dict[Hashable, int] = {}
        self._admitted: set[tuple[Hashable, str | int]] = set()

    def open(self, session: Hashable) -> None:
        """Requests of this session last longer than the exchange that brings them, until it is closed."""
        self._kept.add(session)

    def close(self, session: Hashable) -> None:
        """Forget a session, and all that it asked for."""
        self._kept.discard(session)
        self._running.pop(session, None)
        self._admitted = {each for each in self._admitted if each[0] != session}

    def is_open(self, session: Hashable) -> bool:
        """Whether requests of a session last longer than the exchange that brings them."""
        return session in self._kept

    def hold(self, session: Hashable, length: int) -> Problem | None:
        """Count a body of this length as held; or say why it is too long."""
        held = self._held.get(session, 0) + length
        if held > MAX_HELD_BYTES:
            return BUSY, _TOO_LONG
        self._held[session] = held
        return None

    def let_go(self, session: Hashable, length: int) -> None:
        """The body is not held any more."""
        self._held[session] = self._held.get(session, 0) - length
        if self._held[session] <= 0:
            del self._held[session]

    def begin(self, session: Hashable, number: str | int) -> Problem | None:
        """Count a request as not answered; or say why it is refused."""
        if number == GET_STREAM_KEY:
            return INVALID_REQUEST, _NO_ID
        return self._running.setdefault(session, Running(MAX_EACH)).begin(number)

    def admit(self, session: Hashable, number: str | int) -> bool:
        """Count it as one that is under way, if there may be one more."""
        if len(self._admitted) >= self._limit:
            return False
        self._admitted.add((session, coerce_request_id(number)))
        return True

    def end(self, session: Hashable, number: object) -> None:
        """Its answer is out, or nobody waits for it any more."""
        running = self._running.get(session)
        if running is None or not isinstance(number, str | int):
            return
        running.end(number)
        self._admitted.discard((session, coerce_request_id(number)))
        if not len(running):
            del self._running[session]


def session_in(scope: Any) -> str | None:
    """The session that the head of a request names; None without one."""
    request = Request(scope)
    if not scope["path"].startswith(MESSAGES_PATH):
        named = request.headers.get(MCP_SESSION_ID_HEADER)
        return None if named is None else f"{MCP_SESSION_ID_HEADER} {named}"
    try:
        return stream_of(UUID(hex=request.query_params.get("session_id", "")))
    except ValueError:
        return None


def stream_of(session: UUID) -> str:
    """The session of a stream of HTTP+SSE, by the id that the SDK gave it."""
    return f"{MESSAGES_PATH} {session.hex}"


MAX_STREAMS: Final = 384
"""How many streams may be open that have no end of their own."""

EXCHANGE_KEY: Final = "rye_mcp.exchange"
"""Where the scope of a request holds its `Exchange`."""

MAX_LISTENING: Final = 2
"""How often the client of a stream may listen within it; of all clients together the SDK takes 1,024."""

_LISTENS: Final = f"expected at most {MAX_LISTENING} subscriptions/listen in a stream, found one more"

_LAST_ANSWERS_S: Final = 0.2
"""Time for an answer to go out on a stream without an end, because the stream does not report it."""

_ACCEPTED: Final = 202
_CANCELLED: Final = -32800
_STREAMS = frozenset({"subscriptions/listen"})
"""Requests without an end of their own, which are no work."""

_WORK = frozenset({"tools/call"})
"""Requests that a stopping server no longer starts; clients still read answers by the others."""

CallNext = Callable[[Any], Awaitable[Any]]


@dataclass(eq=False, slots=True)
class Exchange:
    """One HTTP request of a `client`, from its first byte to the last one of its answer.

    `is_stream` when the answer has no end of its own; `scope` ends all of it. `session` is the one that it
    belongs to, `number` the id of the request that it brings, if any, and `tool` the one that this calls.
    """

    client: str = ""
    session: str | None = None
    is_stream: bool = False
    number: str | int | None = None
    tool: str | None = None
    length: int = 0
    status: int = 0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    calls: set[anyio.CancelScope] = field(default_factory=set)
    is_answered: bool = False
    is_over: bool = False
    has_asked: bool = False
    heard_at: float = field(default_factory=anyio.current_time)

    @property
    def owner(self) -> Hashable:
        """The owner of the request: its session, or else the request itself."""
        return self if self.session is None else self.session

    def leave(self) -> None:
        """Nobody waits any more: end what it asked for."""
        self.is_over = True
        for call in self.calls:
            call.cancel()


class Traffic:
    """Everything that is under way; it is also what the SDK's server asks before each request."""

    def __init__(self, max_streams: int = MAX_STREAMS) -> None:
        self.is_draining = False
        self.requests = Requests()
        self._max_streams = max_streams
        self._listening: Counter[str | None] = Counter()
        self._calls: set[anyio.CancelScope] = set()
        self._exchanges: set[Exchange] = set()
        self._changed = anyio.Event()

    async def __call__(self, ctx: Any, call_next: CallNext) -> Any:
        """Let a request of the protocol through, and know of it as long as it lasts."""
        if ctx.request_id is None:
            return await call_next(ctx)
        exchange = _exchange_of(ctx)
        if ctx.method in _STREAMS:
            return await self._listen(exchange, ctx, call_next)
        self._admit(ctx.method, exchange)
        with anyio.CancelScope() as scope:
            holders = [self._calls]
            if exchange is not None and not self._outlasts(exchange):
                holders.append(exchange.calls)
                if exchange.is_over:
                    scope.cancel()
            for holder in holders:
                holder.add(scope)
            try:
                return await call_next(ctx)
            finally:
                for holder in holders:
                    holder.discard(scope)
                self._tell()
        raise MCPError(
            code=_CANCELLED, message="the call was cancelled: its client is gone, or the server ends"
        )

    async def _listen(self, exchange: Exchange | None, ctx: Any, call_next: CallNext) -> Any:
        """Let an answer go on without end: as a stream, or as one of few in the stream of its session."""
        if exchange is None:
            return await call_next(ctx)
        if not self._outlasts(exchange):
            self.begin_stream(exchange)
            return await call_next(ctx)
        if self._listening[exchange.session] >= MAX_LISTENING:
            raise MCPError(code=BUSY, message=_LISTENS)
        self._listening[exchange.session] += 1
        try:
            return await call_next(ctx)
        finally:
            self._listening -= Counter({exchange.session: 1})

    def begin(self, exchange: Exchange) -> None:
        """A request came in."""
        if exchange.is_stream:
            self.begin_stream(exchange)
        self._exchanges.add(exchange)

    def begin_stream(self, exchange: Exchange) -> None:
        """An answer has no end of its own: another one makes room for it where there are too many."""
        streams = [each for each in self._exchanges if each.is_stream and each is not exchange]
        if len(streams) >= self._max_streams:
            held = Counter(each.client for each in streams)
            first = min(streams, key=lambda each: (-held[each.client], each.has_asked, each.heard_at))
            first.leave()
            first.scope.cancel()
            self._exchanges.discard(first)
        exchange.is_stream = True

    def ask(self, exchange: Exchange, message: object, length: int) -> Problem | None:
        """A whole message came in; or say why it is refused."""
        for each in self._exchanges:
            if each.is_stream and each.session is not None and each.session == exchange.session:
                each.has_asked, each.heard_at = True, anyio.current_time()
        problem = self.requests.hold(exchange.owner, length)
        if problem is not None:
            return problem
        exchange.length, number, exchange.tool = length, request_in(message), tool_in(message)
        if self._outlasts(exchange):
            self.requests.end(exchange.session, cancelled_in(message))
        if number is None:
            return None
        problem = self.requests.begin(exchange.owner, number)
        if problem is None:
            exchange.number = number
        return problem

    def end(self, exchange: Exchange) -> None:
        """It is over, and so is what it asked for, unless that is answered elsewhere."""
        self._exchanges.discard(exchange)
        if exchange.length:
            self.requests.let_go(exchange.owner, exchange.length)
        if not (self._outlasts(exchange) and exchange.status == _ACCEPTED):
            exchange.leave()
            self.requests.end(exchange.owner, exchange.number)
        self._tell()

    async def drain(self, limit_s: float, cancel_limit_s: float) -> None:
        """Let nothing new begin, and wait for what runs; then cancel it, and end every stream."""
        self.is_draining = True
        await self._until_idle(limit_s)
        for call in tuple(self._calls):
            call.cancel()
        await self._until_idle(cancel_limit_s)
        await anyio.sleep(_LAST_ANSWERS_S)
        for exchange in tuple(self._exchanges):
            exchange.scope.cancel()

    def _admit(self, method: str, exchange: Exchange | None) -> None:
        if self.is_draining and method in _WORK:
            raise MCPError(code=BUSY, message="the server is ending: connect again, and call again")
        if exchange is None or exchange.number is None:
            return
        if not self.requests.admit(exchange.owner, exchange.number):
            raise MCPError(
                code=BUSY, message=f"{MAX_CALLS} calls are under way, which is the limit: call again later"
            )

    def _outlasts(self, exchange: Exchange) -> bool:
        """Whether what an exchange asks for is answered by the stream of its session, and not by itself."""
        return self.requests.is_open(exchange.session)

    async def _until_idle(self, limit_s: float) -> None:
        """Wait until no call and no answer is under way, so long at most."""
        with anyio.move_on_after(limit_s):
            while self._calls or any(not each.is_stream for each in self._exchanges):
                self._changed = anyio.Event()
                await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()


def _exchange_of(ctx: Any) -> Exchange | None:
    scope = getattr(ctx.request, "scope", None)
    return None if scope is None else scope.get(EXCHANGE_KEY)
