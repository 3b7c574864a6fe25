"""The sessions of 2025 clients over Streamable HTTP: how many there may be, and how long each may be idle.

Rules:

- A session ends after `CALLED_IDLE_S` without a request, or after `UNCALLED_IDLE_S` if its client has asked
  for nothing since it began. Many clients go away without saying so.
- When there are `MAX_SESSIONS`, a new one takes the place of the idle session that would end first. A session
  with a request or a stream under way is never ended like this.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

__all__ = ["CALLED_IDLE_S", "MAX_SESSIONS", "UNCALLED_IDLE_S", "Sessions"]

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
        self._session_owners.pop(first, None)
        if session.idle_scope is not None:
            session.idle_scope.cancel()


def _end_of(session: StreamableHTTPServerTransport) -> float:
    return math.inf if session.idle_scope is None else session.idle_scope.deadline
