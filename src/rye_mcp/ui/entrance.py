"""The entrance of the page, which needs none of the views: they are imported while a browser reads it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread
from starlette.responses import HTMLResponse

from rye_mcp.ui.guard import Application, Receive, Scope, Send
from rye_mcp.ui.layout import document_of
from rye_mcp.ui.markup import tag

__all__ = ["Entrance"]


class Entrance:
    """Answers a browser that has no session yet, and passes everything else on once the views are there."""

    def __init__(self, build: Callable[[], Application]) -> None:
        self._build = build
        self._views: Application | None = None
        self._is_built = anyio.Event()

    async def build(self) -> None:
        """Make the views, in a thread."""
        self._views = await to_thread.run_sync(self._build)
        self._is_built.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard has let in."""
        if scope["path"] == "/" and not scope["state"]["has_session"]:
            await _entrance()(scope, receive, send)
            return
        await self._is_built.wait()
        if self._views is not None:
            await self._views(scope, receive, send)


def _entrance() -> HTMLResponse:
    used = "This page was opened in another browser already. For this one: rye ui"
    failed = "Open the address again that rye ui has printed, or start it again: rye ui"
    main = tag(
        "main",
        tag("h1", "rye"),
        tag("p", "Opening …", id="opening", role="status", data_used=used, data_failed=failed),
        tag("noscript", tag("p", "This page needs its own small script to open.")),
        class_="entrance",
    )
    return HTMLResponse(document_of("rye", main))
