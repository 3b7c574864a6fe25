"""How a session begins, and the revision of the protocol that a client and the server agree on.

A session begins once: another `initialize` in it is an error.

Revision 2025-03-26 requires servers to take batches; no other revision has them. The server takes none, so it
does not agree on this revision. A client that asks for it gets the one before, which such a client knows too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST

__all__ = ["agree_on_a_revision_without_batches", "begin_once"]

WITH_BATCHES: Final = "2025-03-26"
BEFORE: Final = "2024-11-05"

_WITHOUT_SESSIONS: Final = "2026-07-28"
_BEGUN: Final = "expected one initialize in a session, found another one"
_REVISION: Final = "protocolVersion"


async def begin_once(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Pass a request on; not a second `initialize`. Without sessions, the SDK refuses the first."""
    begins = ctx.method == "initialize" and ctx.request_id is not None
    if begins and ctx.session.client_params is not None and ctx.protocol_version < _WITHOUT_SESSIONS:
        raise MCPError(code=INVALID_REQUEST, message=_BEGUN)
    return await call_next(ctx)


async def agree_on_a_revision_without_batches(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Pass a request on; `initialize` without the revision that has batches."""
    if ctx.method == "initialize" and ctx.params and ctx.params.get(_REVISION) == WITH_BATCHES:
        # In place: the SDK reads these parameters once more, to keep what was agreed on.
        ctx.params[_REVISION] = BEFORE
    return await call_next(ctx)
