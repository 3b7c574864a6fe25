"""The requests over HTTP that are not answered yet, by the session that they belong to.

Rules:

- A session is that of the header `Mcp-Session-Id`, or of the query of `/messages/`. A request without a
  session stands for itself.
- Within a session the rules of `framing.Running` hold: one request for each id, and `MAX_EACH` at once. The
  name of the SDK for the stream of a session is no id.
- A request counts until its answer is out: when its HTTP exchange ends, or, with HTTP+SSE, when the stream of
  its session has taken the answer. `MAX_CALLS` of all sessions may be under way.
- The bodies of a session that are held have `MAX_HELD_BYTES` together.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final
from uuid import UUID

from mcp.server.streamable_http import GET_STREAM_KEY, MCP_SESSION_ID_HEADER
from mcp.shared.dispatcher import coerce_request_id
from mcp.types import INVALID_REQUEST
from starlette.requests import Request

from rye_mcp.mcp_server.framing import BUSY, Problem, Running

__all__ = ["MAX_CALLS", "MAX_EACH", "MAX_HELD_BYTES", "MESSAGES_PATH", "Requests", "session_in", "stream_of"]

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
    """Which requests of which session are not answered yet."""

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
