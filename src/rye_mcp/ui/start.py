"""Starts the page: its socket on loopback, its address with the secret, its parts, and its end.

The address is printed as soon as the socket listens. From then on, the entrance is answered: while the server
is imported (`early`), and while the parts of the product are opened and the views imported (`entrance`).
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from rye_mcp.errors import RyeError
from rye_mcp.ui.early import EarlyEntrance, names_of
from rye_mcp.ui.session import Codes, Session, terminal

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from rye_mcp.app import App, Settings
    from rye_mcp.ui.parts import CheckUp

__all__ = ["serve_ui"]

_PART: Final = 254
"""How many values a part of an address has that is neither 0 nor 255."""

_SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread that imports keeps the interpreter while a browser waits; 5 ms by default."""


def serve_ui(
    settings: Settings, *, port: int, check_up: CheckUp, open_page: Callable[[str], None] | None
) -> None:
    """Serve the page until Ctrl-C; RyeError `cannot_listen` when the port is taken."""
    listening = _listen(_own_host(), port)
    session = Session()
    host, port = listening.getsockname()
    address = f"http://{host}:{port}/#{session.secret}"
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with EarlyEntrance(listening, names_of(host, port)) as early:
        print(address, flush=True)  # noqa: T201 - programs read it
        print("opens once, in one browser; Ctrl-C ends it", file=sys.stderr, flush=True)  # noqa: T201
        if open_page is not None:
            open_page(address)
        _serve(settings, early, session, check_up)


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


def _serve(settings: Settings, early: EarlyEntrance, session: Session, check_up: CheckUp) -> None:
    import anyio

    from rye_mcp.ui.entrance import Entrance
    from rye_mcp.ui.guard import Guard
    from rye_mcp.ui.serving import serve

    cookie = f"rye_{early.listening.getsockname()[1]}"

    async def run() -> None:
        async with AsyncExitStack() as closing:
            opening = _Opening(settings, session, check_up, closing)
            entrance = Entrance(partial(opening.views, cookie))
            guard = Guard(entrance, session=session, names=early.names, cookie=cookie)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(entrance.build)
                await serve(guard, early.listening, early.leave())

    anyio.run(run)


class _Opening:
    """Opens what the list of runs needs at once, and the rest when a view asks for it."""

    def __init__(
        self, settings: Settings, session: Session, check_up: CheckUp, closing: AsyncExitStack
    ) -> None:
        self._settings = settings
        self._session = session
        self._check_up = check_up
        self._closing = closing
        self._lock = Lock()
        self._app: App | None = None

    def views(self, cookie: str) -> ASGIApp:
        """The views; `cookie` is the name of the session's."""
        from rye_mcp.runs.live import LiveView
        from rye_mcp.runs.log import RunLog
        from rye_mcp.runs.questions import Questions
        from rye_mcp.ui.application import ui_application
        from rye_mcp.ui.parts import Parts

        state = self._settings.state
        log = self._closing.enter_context(RunLog(state))
        with suppress(RyeError):  # the views say what is wrong with it
            log.count()  # opens the file, so that the first view does not take that for a change
        self._closing.enter_context(Questions(state).watched())
        parts = Parts(
            self._settings,
            self._settings.spaces(),
            self._opened,
            log,
            LiveView(state),
            self._session,
            Codes(terminal()),
            self._check_up,
        )
        return ui_application(parts, cookie=cookie)

    def _opened(self) -> App:
        from rye_mcp.app import App

        with self._lock:
            if self._app is None:
                self._app = App.open(self._settings)
                self._closing.push_async_callback(self._app.close)
            return self._app
