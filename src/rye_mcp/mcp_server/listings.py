"""The lists that clients have: of tools, prompts and resources; and what is told when one is another one.

A list is what the spaces hold when it is asked for. From the first one on the spaces are watched: after each
change the lists that somebody has are made again, and compared. They are of one project, that of the last
list: another one counts from when the client has named it (`compare`), or has got a list of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, parse_relative_path
from rye_mcp.mcp_server.logs import facts_of

if TYPE_CHECKING:
    from mcp.types import Prompt, Resource, Tool

    from rye_mcp.app import App
    from rye_mcp.mcp_server.entries import Listed
    from rye_mcp.mcp_server.native import NativeTools
    from rye_mcp.mcp_server.subscriptions import Announcing
    from rye_mcp.mcp_server.subscriptions import Listed as Name

    Make = Callable[[App], list[Listed[Any]]]

__all__ = ["Listings"]

_log = logging.getLogger(__name__)


class Listings:
    """The lists of one server."""

    def __init__(self, native: NativeTools, announcing: Announcing) -> None:
        self._native = native
        self._announcing = announcing
        self._known: dict[Name, str] = {}
        self._watched: set[Path] = set()
        self._app: App | None = None

    @property
    def are_known(self) -> bool:
        """Whether somebody has a list."""
        return bool(self._known)

    async def tools(self, app: App) -> list[Listed[Tool]]:
        """The tools that are exposed."""
        return await self._made("tools", app)

    async def prompts(self, app: App) -> list[Listed[Prompt]]:
        """The directives."""
        return await self._made("prompts", app)

    async def resources(self, app: App) -> list[Listed[Resource]]:
        """The knowledge."""
        return await self._made("resources", app)

    async def watch(self, app: App) -> None:
        """Watch the spaces of a project, unless that is done already, until it is cancelled."""
        from rye_mcp.mcp_server.watching import watch

        roots = [space.root for space in app.spaces.accessible()]
        roots = [root for root in (*roots, app.settings.state / "projects") if root not in self._watched]
        if not roots:
            return
        self._watched |= set(roots)

        async def changed(paths: frozenset[Path]) -> None:
            await self._changed(app, paths)

        try:
            await watch(roots, changed)
        except OSError as exc:
            _log.warning("changes are not announced", extra=facts_of(reason=exc.strerror or str(exc)))
        finally:
            self._watched -= set(roots)

    async def compare(self, app: App) -> None:
        """Tell of the lists that somebody has, and that are others for this project."""
        for listed, before in tuple(self._known.items()):
            await self._made(listed, app)
            if self._known[listed] != before:
                await self._announcing.changed(listed)

    async def _changed(self, app: App, paths: frozenset[Path]) -> None:
        await self.compare(self._app or app)
        for address in sorted(_addresses(app, paths)):
            await self._announcing.updated(address)

    async def _made(self, listed: Name, app: App) -> list[Listed[Any]]:
        """A list, with what it looked like; how many items there are, and how long, is up to others."""
        made, self._known[listed] = await apart(partial(_made_of, _makers(self._native)[listed], app))
        self._app = app
        return made


def _made_of(make: Make, app: App) -> tuple[list[Listed[Any]], str]:
    made = make(app)
    return made, "\n".join(each.entry.model_dump_json() for each in made)


def _makers(native: NativeTools) -> dict[Name, Make]:
    from rye_mcp.mcp_server.prompts import list_prompts
    from rye_mcp.mcp_server.resources import list_resources

    return {"tools": native.listed, "prompts": list_prompts, "resources": list_resources}


def _addresses(app: App, paths: frozenset[Path]) -> set[str]:
    """The addresses of the items that changed."""
    from rye_mcp.mcp_server.resources import address_of

    found: set[str] = set()
    for space in app.spaces.accessible():
        for path in paths:
            try:
                item_type, item_id, _ = parse_relative_path(path.relative_to(space.root).as_posix())
            except (ValueError, RyeError):
                continue
            found.add(address_of(ItemType(item_type), item_id))
    return found
