"""Starts the page: its parts, its socket, its address with the secret, and its end."""

from __future__ import annotations

import sys
from collections.abc import Callable

import anyio

from rye_mcp.app import App
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.questions import Questions
from rye_mcp.ui.application import ui_application
from rye_mcp.ui.parts import CheckUp, Parts
from rye_mcp.ui.serving import HOST, listen, serve
from rye_mcp.ui.session import Codes, Session, terminal

__all__ = ["serve_ui"]


def serve_ui(app: App, *, port: int, check_up: CheckUp, open_page: Callable[[str], None] | None) -> None:
    """Serve the page until Ctrl-C; RyeError `cannot_listen` when the port is taken."""
    listening = listen(port)
    port = listening.getsockname()[1]
    state = app.settings.state
    session = Session()
    address = f"http://{HOST}:{port}/#{session.secret}"

    def on_ready() -> None:
        print(address, flush=True)  # noqa: T201 - programs read it
        print("opens once, in one browser; Ctrl-C ends it", file=sys.stderr, flush=True)  # noqa: T201
        if open_page is not None:
            open_page(address)

    async def run() -> None:
        async with app.closing():
            application = ui_application(parts, host=HOST, port=port)
            await serve(application, listening, on_ready=on_ready)

    with RunLog(state) as log:
        parts = Parts(app, log, LiveView(state), session, Codes(terminal()), check_up)
        with Questions(state).watched():
            anyio.run(run)
