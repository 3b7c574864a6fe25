"""Which project a call is about, and the parts for it.

Rules:

- What a call names comes first. Else it is the project that the server was started for, by an option or the
  environment; else the first of the client's roots that is a project (2025 revisions, over standard input and
  output); else the working directory of the server, or one above it.
- The parts for a project are opened once. Without a project they are looked for again: one may have been
  begun meanwhile.
- One server works with at most `MAX_PROJECTS`, since each is kept open and watched: whoever names one after
  the other would use up the descriptors and threads that all calls need.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import anyio

from rye_mcp.errors import RyeError, printable
from rye_mcp.spaces import DIRECTORY_NAME

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["MAX_PROJECTS", "Apps"]

ROOTS_LIMIT_S: Final = 2.0
"""How long a client may take to name its roots."""

MAX_ROOTS: Final = 32

MAX_PROJECTS: Final = 32
"""How many projects one server works with."""


class Apps:
    """The parts that one server works with."""

    def __init__(self, open_app: Callable[[Path | None], App]) -> None:
        self._open_app = open_app
        self._opened: dict[str | None, App] = {}
        self._root: Path | None = None
        self._roots_known: anyio.Event | None = None

    def named(self, project_path: str) -> App:
        """The parts for a project that a call names."""
        if not project_path.startswith("/"):
            what = f"expected an absolute path as project_path, found {project_path[:80]!r}"
            raise RyeError("no_project", what, hint="name the whole path of the project, or leave it out")
        return self._open(str(Path(project_path)))

    def named_at_start(self) -> App:
        """The parts for a call that names no project, of a client that has no roots."""
        return self._open(None)

    async def own(self, session: Any = None) -> App:
        """The parts for a call that names no project; `session` is that of a client that may have roots."""
        app = self._open(None)
        if app.settings.is_named:
            return app
        if self._roots_known is None and session is not None:
            await self.ask_for_roots(session)
        if self._roots_known is not None:
            await self._roots_known.wait()
        if self._root is not None:
            return self._open(str(self._root))
        if app.spaces.project is None:
            again = self._open_app(None)
            if again.spaces.project is not None:
                await app.close()
                self._opened[None] = app = again
        return app

    async def ask_for_roots(self, session: Any) -> None:
        """Ask a client that has roots for them; calls wait for its answer as long as it may take."""
        capabilities = session.client_capabilities
        if capabilities is None or capabilities.roots is None or not session.can_send_request:
            return
        known = self._roots_known = anyio.Event()
        try:
            with anyio.move_on_after(ROOTS_LIMIT_S):
                self._root = self._first_project(await _roots_of(session))
        finally:
            known.set()

    async def close(self) -> None:
        """Close all that was opened."""
        while self._opened:
            await self._opened.popitem()[1].close()

    def _open(self, project_path: str | None) -> App:
        app = self._opened.get(project_path)
        if app is None:
            path = None if project_path is None else Path(project_path)
            if path is not None:
                self._require_room(path)
            app = self._opened[project_path] = self._open_app(path)
        return app

    def _require_room(self, path: Path) -> None:
        if len(self._opened.keys() - {None}) >= MAX_PROJECTS:
            what = f"expected at most {MAX_PROJECTS} projects of one server, found one more"
            hint = "leave project_path out, or let a person start the server anew"
            raise RyeError("no_project", what, where=printable(path), hint=hint)

    def _first_project(self, addresses: list[str]) -> Path | None:
        for address in addresses[:MAX_ROOTS]:
            parts = urlsplit(address)
            path = Path(unquote(parts.path))
            if parts.scheme != "file" or not path.is_absolute() or not (path / DIRECTORY_NAME).is_dir():
                continue
            try:
                self._open(str(path))
            except RyeError:
                continue
            return path
        return None


async def _roots_of(session: Any) -> list[str]:
    from mcp.shared.exceptions import MCPError
    from mcp.types import ListRootsRequest, ListRootsResult

    try:
        found = await session.send_request(ListRootsRequest(), ListRootsResult)
    except (MCPError, ValueError):
        return []
    return [str(root.uri) for root in found.roots]
