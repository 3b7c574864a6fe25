"""The entrance of the page, which needs none of the views: they are imported while a browser reads it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from rye_mcp.ui.early import entrance

__all__ = ["Entrance"]


class Entrance:
    """Answers a browser that has no session yet, and passes everything else on once the views are there."""

    def __init__(self, build: Callable[[], ASGIApp]) -> None:
        self._build = build
        self._views: ASGIApp | None = None
        self._is_built = anyio.Event()

    async def build(self) -> None:
        """Make the views, in a thread."""
        self._views = await to_thread.run_sync(self._build)
        self._is_built.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard has let in."""
        if scope["path"] == "/" and not scope["state"]["has_session"]:
            await _answer(send)
            return
        await self._is_built.wait()
        if self._views is not None:
            await self._views(scope, receive, send)


async def _answer(send: Send) -> None:
    headers, body = entrance()
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": lines})
    await send({"type": "http.response.body", "body": body})
