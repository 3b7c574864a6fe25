"""Starts the page: its socket on loopback, its address with the secret, its parts, and its end.

The address is printed as soon as the socket listens, and the entrance answers before the views are imported;
what comes earlier waits.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from rye_mcp.errors import RyeError
from rye_mcp.ui.session import Codes, Session, terminal

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.ui.guard import Application
    from rye_mcp.ui.parts import CheckUp

__all__ = ["serve_ui"]

_PART: Final = 254
"""How many values a part of an address has that is neither 0 nor 255."""


def serve_ui(app: App, *, port: int, check_up: CheckUp, open_page: Callable[[str], None] | None) -> None:
    """Serve the page until Ctrl-C; RyeError `cannot_listen` when the port is taken."""
    listening = _listen(_own_host(), port)
    session = Session()
    host, port = listening.getsockname()
    address = f"http://{host}:{port}/#{session.secret}"
    print(address, flush=True)  # noqa: T201 - programs read it
    print("opens once, in one browser; Ctrl-C ends it", file=sys.stderr, flush=True)  # noqa: T201
    if open_page is not None:
        open_page(address)
    _serve(app, listening, session, check_up)


def _own_host() -> str:
    """An address of this machine where no server was before.

    A browser keeps what a server has left there (cookies, workers) for its address and port, and each user of
    this machine can serve on every port of 127.0.0.1 that is free.
    """
    return ".".join(["127", *(str(1 + secrets.randbelow(_PART)) for _ in range(3))])


def _listen(host: str, port: int) -> socket.socket:
    """A socket on loopback; port 0 is any that is free. RyeError `cannot_listen` when it is taken."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(socket.SOMAXCONN)
    except (OSError, OverflowError) as exc:
        made.close()
        what = f"expected to listen on {host}:{port}, the system said: {exc}"
        raise RyeError("cannot_listen", what, where=f"{host}:{port}", hint="rye ui, without --port") from exc
    return made


def _serve(app: App, listening: socket.socket, session: Session, check_up: CheckUp) -> None:
    import anyio

    from rye_mcp.ui.entrance import Entrance
    from rye_mcp.ui.guard import Guard, names_of
    from rye_mcp.ui.serving import serve

    host, port = listening.getsockname()
    cookie = f"rye_{port}"

    def views() -> Application:
        from rye_mcp.runs.live import LiveView
        from rye_mcp.runs.log import RunLog
        from rye_mcp.runs.questions import Questions
        from rye_mcp.ui.application import ui_application
        from rye_mcp.ui.parts import Parts

        state = app.settings.state
        log = ending.enter_context(RunLog(state))
        with suppress(RyeError):  # the views say what is wrong with it
            log.count()  # opens the file, so that the first view does not take that for a change
        ending.enter_context(Questions(state).watched())
        parts = Parts(app, log, LiveView(state), session, Codes(terminal()), check_up)
        return ui_application(parts, cookie=cookie)

    async def run() -> None:
        entrance = Entrance(views)
        guard = Guard(entrance, session=session, names=names_of(host, port), cookie=cookie)
        async with app.closing(), anyio.create_task_group() as tasks:
            tasks.start_soon(entrance.build)
            await serve(guard, listening)

    with ExitStack() as ending:
        anyio.run(run)
