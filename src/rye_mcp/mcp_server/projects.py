"""The project of a call, and the parts for it, which are opened once and closed again.

A call's own `project_path` comes first, then the option or environment of the server, the first root of the
client that is a project, and the working directory. Over HTTP a call may name only the projects of the start.
At most `MAX_PROJECTS` are open: for one more, the one that was unused for longest is closed, if it is idle.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import anyio

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.spaces import DIRECTORY_NAME

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["MAX_PROJECTS", "OpenProjects", "Projects"]

_Identity = tuple[int, int] | None

ROOTS_LIMIT_S: Final = 2.0
"""How long a client may take to name its roots."""

MAX_ROOTS: Final = 32

MAX_PROJECTS: Final = 32
"""How many projects one server works with."""


MAX_PATH: Final = 4096
"""How long the path of a project may be: the system takes no longer one, and refusals repeat it."""


@dataclass(eq=False, slots=True)
class _Opened:
    """The parts for a project, and how many calls and runs use them. `is_own` if the server works there."""

    app: App
    identity: _Identity
    users: int = 0
    is_own: bool = False


class OpenProjects:
    """The parts that one server works with; `on_close` is told which are closed before the others."""

    def __init__(
        self, open_app: Callable[[Path | None], App], on_close: Callable[[App], object] = lambda _: None
    ) -> None:
        self._open_app = open_app
        self._on_close = on_close
        self._opened: dict[str | None, _Opened] = {}
        self._leaving: list[_Opened] = []
        self._root: Path | None = None
        self._roots_known: anyio.Event | None = None

    @asynccontextmanager
    async def using(self, project_path: str | None, session: Any = None) -> AsyncIterator[App]:
        """The parts for a call, which are not closed before it ends; `project_path` is what it names."""
        app = await self.own(session) if project_path is None else self.named(project_path)
        with self.keeping(app):
            await self._close_leaving()
            yield app

    @contextmanager
    def keeping(self, app: App) -> Iterator[None]:
        """Do not close these parts before the block ends: something runs with them."""
        holders = [each for each in (*self._opened.values(), *self._leaving) if each.app is app]
        for each in holders:
            each.users += 1
        try:
            yield
        finally:
            for each in holders:
                each.users -= 1
                self._used_last(each)

    def named(self, project_path: str) -> App:
        """The parts for a project that a call names."""
        if not project_path.startswith("/"):
            what = f"expected an absolute path as project_path, found {project_path[:80]!r}"
            raise RyeError("no_project", what, hint="name the whole path of the project, or leave it out")
        if len(project_path) > MAX_PATH:
            what = f"expected a project_path of at most {MAX_PATH} characters, found {len(project_path)}"
            raise RyeError("no_project", what, hint="name the project by a shorter path")
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
        app = self._open(None)  # another call may have replaced it meanwhile
        if app.spaces.project is None:
            again = self._open_app(None)
            if again.spaces.project is not None:
                self._leaving.append(self._opened.pop(None))
                self._opened[None] = _Opened(again, _identity_of(again), is_own=True)
                return again
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
            await self._opened.popitem()[1].app.close()
        while self._leaving:
            await self._leaving.pop().app.close()

    async def _close_leaving(self) -> None:
        """Close what nobody finds any more, and nobody uses."""
        unused = [each for each in self._leaving if not each.users]
        self._leaving = [each for each in self._leaving if each.users]
        with anyio.CancelScope(shield=True):
            for each in unused:
                self._on_close(each.app)
                await each.app.close()

    def _open(self, project_path: str | None) -> App:
        found = self._opened.get(project_path)
        if found is not None and _identity_of(found.app) != found.identity:
            self._leaving.append(self._opened.pop(project_path))  # calls of before may still use it
            found = None
        if found is None:
            app = self._open_app(None if project_path is None else Path(project_path))
            if project_path is not None:
                self._make_room(project_path)
            found = _Opened(app, _identity_of(app), is_own=project_path is None)
            self._opened[project_path] = found
        self._used_last(found)
        return found.app

    def _make_room(self, project_path: str) -> None:
        """Let the project go that nobody has used for longest; RyeError if all are in use."""
        in_use = sum(each.users > 0 for each in self._leaving)
        if len(self._opened.keys() - {None}) + in_use < MAX_PROJECTS:
            return
        idle = (path for path, each in self._opened.items() if not each.users and not each.is_own)
        first = next(idle, None)
        if first is None:
            what = f"expected at most {MAX_PROJECTS} projects with calls under way, found one more"
            where = printable(project_path)
            raise RyeError("no_project", what, where=where, hint="call again when one of them has ended")
        self._leaving.append(self._opened.pop(first))

    def _used_last(self, used: _Opened) -> None:
        """Keep what is open in the order in which it was used."""
        for path, each in tuple(self._opened.items()):
            if each is used:
                self._opened[path] = self._opened.pop(path)

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
            self._opened[str(path)].is_own = True  # its lists are watched from now on
            return path
        return None


def _identity_of(app: App) -> _Identity:
    """Return the identity of the directory to which the path of a project leads now."""
    project = app.settings.project
    try:
        found = None if project is None else project.stat()
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


async def _roots_of(session: Any) -> list[str]:
    from mcp.shared.exceptions import MCPError
    from mcp.types import ListRootsRequest, ListRootsResult

    try:
        found = await session.send_request(ListRootsRequest(), ListRootsResult)
    except (MCPError, ValueError):
        return []
    return [str(root.uri) for root in found.roots]


_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Projects:
    """The projects named at the start; with `no_other`, a call may name no others."""

    named: tuple[Path, ...] = ()
    no_other: bool = False

    def open(self, asked: Path | None) -> App:
        """The parts for the project that a call names, or for none; RyeError `no_project`."""
        from rye_mcp.app import App, Settings

        return App.open(Settings.find(project=self._chosen(asked), many_calls=True))

    def _chosen(self, asked: Path | None) -> Path | None:
        if asked is None:
            return self.named[0] if self.named else None
        if not self.no_other:
            return asked
        for known in self.named:
            if str(asked) in (str(known), os.path.realpath(known)):
                return known
        found = printable(asked)[:_SHOWN_CHARACTERS]
        choice = ", ".join(os.path.realpath(known) for known in self.named)
        raise RyeError(
            "no_project",
            f"expected one of the projects that this server was started with, found {found}",
            hint=f"leave project_path out, or name one of: {choice}" if choice else "leave project_path out",
        )
