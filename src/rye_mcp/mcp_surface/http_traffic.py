"""What is under way over HTTP: calls, and the requests that they came in by.

Rules:

- Whoever goes away takes their calls along: when the connection of a request ends before its answer, what it
  asked for is cancelled, in every revision of the protocol. Nobody would be there to get the answer.
- So many calls at a time and no more; one too many is refused, and told so.
- Once draining, no tool is called any more. What runs may end, until it is cancelled; answers still go out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from mcp.shared.exceptions import MCPError

__all__ = ["EXCHANGE_KEY", "MAX_CALLS", "Exchange", "Traffic"]

MAX_CALLS: Final = 256
"""How many calls may be under way at once."""

EXCHANGE_KEY: Final = "rye_mcp.exchange"
"""Where the scope of a request holds its `Exchange`."""

_LAST_ANSWERS_S: Final = 0.2
"""What an answer gets to go out on a stream without an end: nobody tells when it has."""

_BUSY: Final = -32000
_CANCELLED: Final = -32800
_STREAMS = frozenset({"subscriptions/listen"})
"""What has no end of its own, and is no work."""

_WORK = frozenset({"tools/call"})
"""What a server that ends does not begin; clients look things up to read the answers that they still get."""

CallNext = Callable[[Any], Awaitable[Any]]


@dataclass(eq=False, slots=True)
class Exchange:
    """One HTTP request, from its first byte to the last one of its answer.

    `is_stream` when the answer has no end of its own; `scope` ends all of it.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    calls: set[anyio.CancelScope] = field(default_factory=set)
    is_stream: bool = False
    is_answered: bool = False
    is_left: bool = False

    def leave(self) -> None:
        """The client is gone: end what it asked for, unless it has its answer."""
        if self.is_answered:
            return
        self.is_left = True
        for call in self.calls:
            call.cancel()


class Traffic:
    """Everything that is under way; it is also what the SDK's server asks before each request."""

    def __init__(self, limit: int = MAX_CALLS) -> None:
        self.is_draining = False
        self._limit = limit
        self._calls: set[anyio.CancelScope] = set()
        self._exchanges: set[Exchange] = set()
        self._changed = anyio.Event()

    async def __call__(self, ctx: Any, call_next: CallNext) -> Any:
        """Let a request of the protocol through, and know of it as long as it lasts."""
        if ctx.request_id is None:
            return await call_next(ctx)
        exchange = _exchange_of(ctx)
        if ctx.method in _STREAMS:
            if exchange is not None:
                exchange.is_stream = True
            return await call_next(ctx)
        self._admit(ctx.method)
        with anyio.CancelScope() as scope:
            holders = [self._calls] if exchange is None else [self._calls, exchange.calls]
            for holder in holders:
                holder.add(scope)
            if exchange is not None and exchange.is_left:
                scope.cancel()
            try:
                return await call_next(ctx)
            finally:
                for holder in holders:
                    holder.discard(scope)
                self._tell()
        raise MCPError(
            code=_CANCELLED, message="the call was cancelled: its client is gone, or the server ends"
        )

    def begin(self, exchange: Exchange) -> None:
        """A request came in."""
        self._exchanges.add(exchange)

    def end(self, exchange: Exchange) -> None:
        """It is over."""
        self._exchanges.discard(exchange)
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

    def _admit(self, method: str) -> None:
        if self.is_draining and method in _WORK:
            raise MCPError(code=_BUSY, message="the server is ending: connect again, and call again")
        if len(self._calls) >= self._limit:
            raise MCPError(
                code=_BUSY, message=f"{self._limit} calls are under way, and no more: call again later"
            )

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
    found = None if scope is None else scope.get(EXCHANGE_KEY)
    # An answer that has gone out was for the message alone: with SSE, what it asks for goes on.
    return None if found is None or found.is_answered else found
