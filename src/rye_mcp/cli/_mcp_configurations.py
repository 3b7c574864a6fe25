"""Which servers the MCP clients here are set up with: those of the user, and those of the project.

Rules:

- Configurations are read, and nothing in them is started, looked up or written.
- What the person is set up with was written by the person. What a file of the project says was written by
  whoever writes to the project: nobody gets that who asks by a name alone, or for all. `Origin` tells the two
  apart, and only one of them is chosen from at a time.
- Files of a project are read as everything in it: through no link, regular files alone, within a limit.
- One file that cannot be read stops no other, unless just that one was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from rye_mcp.cli._clients import CLIENTS, Client, ClientName, Surroundings
from rye_mcp.cli._common import visible
from rye_mcp.cli._mcp_plans import Found, found_servers
from rye_mcp.errors import RyeError, printable
from rye_mcp.items import SpaceName
from rye_mcp.spaces.source_tree import SourceTree

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["Configured", "Origin", "chosen", "configured"]

MAX_PROJECT_FILE_BYTES: Final = 1 << 20
"""How long a configuration in a project may be."""

_HINT: Final = "fix that file, or: rye mcp add NAME -- COMMAND"


class Origin(StrEnum):
    """Who wrote a configuration: the person, or whoever writes to the project."""

    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Configured:
    """A server, the client that is set up with it, and where that stands."""

    client: ClientName
    origin: Origin
    found: Found

    @property
    def name(self) -> str:
        """What the server is called here."""
        return self.found.name

    @property
    def shown_client(self) -> str:
        """The client, and whether the project says so."""
        return self.client.value if self.origin is Origin.USER else f"{self.client.value} (project)"

    @property
    def where(self) -> str:
        """What would be started or connected to, or why nothing can be."""
        if self.found.plan is None:
            return self.found.why_not or ""
        config = self.found.plan.config
        words = [config.get("url") or config.get("command", ""), *config.get("args", ())]
        if self.origin is Origin.PROJECT:  # who chooses it sees all that it is given
            words = [*(f"{name}={value}" for name, value in config.get("env", {}).items()), *words]
            words += [f"{name}: {value}" for name, value in config.get("headers", {}).items()]
        return printable(" ".join(map(str, words)))

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "server": self.name,
            "client": self.client.value,
            "origin": self.origin.value,
            "where": self.where,
        }


def configured(
    client: ClientName | None, app: App, origin: Origin, to: SpaceName | None = None, *, strict: bool = False
) -> list[Configured]:
    """The servers of one origin; `strict` when the configuration of the client is just what was asked for."""
    space = to or (SpaceName.USER if origin is Origin.USER else SpaceName.PROJECT)
    found: list[Configured] = []
    for at in ClientName if client is None else (client,):
        try:
            servers = _servers_of(CLIENTS[at], app, origin)
        except RyeError as exc:
            if strict:
                raise
            typer.echo(visible(f"rye: warning: {at.value}: {exc.message}: {exc.where}"), err=True)
        else:
            found += [Configured(at, origin, each) for each in found_servers(servers, space)]
    return found


def chosen(
    client: ClientName | None, app: App, origin: Origin, names: Sequence[str] | None, to: SpaceName | None
) -> list[Found]:
    """The servers with these names, None being all; RyeError when there is one that is not there."""
    found = configured(client, app, origin, to, strict=client is not None)
    wanted = [each for each in found if names is None or each.name in names]
    by_name: dict[str, Configured] = {}
    for each in wanted:  # of several that the person is set up with, the first
        first = by_name.setdefault(each.name, each)
        if origin is Origin.PROJECT and first.found != each.found:
            what = f"expected one server {each.name} in the project, found that its files mean different ones"
            raise RyeError("ambiguous_item", what, hint="name one file's with --from CLIENT")
    if missing := sorted(set(names or ()) - by_name.keys()):
        raise _missing(missing, client, app, origin)
    return [each.found for each in by_name.values()]


def _missing(missing: Sequence[str], client: ClientName | None, app: App, origin: Origin) -> RyeError:
    if origin is Origin.PROJECT:
        what = f"expected servers that files of the project name, found none called {', '.join(missing)}"
        return RyeError("item_not_found", what, hint="rye mcp import --from-project")
    what = f"expected servers that a client is set up with, found none called {', '.join(missing)}"
    theirs = {each.name for each in configured(client, app, Origin.PROJECT)}
    if not theirs.issuperset(missing):
        return RyeError("item_not_found", what, hint="rye mcp import")
    hint = f"look at what it starts, then: rye mcp import --from-project {' '.join(missing)}"
    return RyeError("item_not_found", f"{what}; the project brings it along", hint=hint)


def _servers_of(client: Client, app: App, origin: Origin) -> dict[str, Any]:
    if origin is Origin.USER:
        file = client.file(Surroundings(Path.home(), app.settings.environment))
        # What is said for this project alone counts before what is said for all, as it does in the client.
        paths = (client.path_of("", None)[:-1], client.path_of("", app.settings.project)[:-1])
        return _members(file, _of_user(file), paths)
    project = app.settings.project
    if client.project_file is None or project is None:
        return {}
    file = project / client.project_file
    return _members(file, _of_project(project, client.project_file), [(client.servers,)])


def _of_user(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise _unreadable(file, exc) from exc


def _of_project(project: Path, relative: str) -> bytes:
    with SourceTree(project) as tree:
        read = tree.read(relative, limit=MAX_PROJECT_FILE_BYTES)
    return b"" if read is None else read.content


def _members(file: Path, content: bytes, paths: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """What stands in the objects at these paths; the last one that has a name counts."""
    from rye_mcp.cli._json_members import parse, without_comments

    try:
        whole: Mapping[str, Any] = parse(without_comments(content.decode("utf-8")))
    except ValueError as exc:
        raise _unreadable(file, exc) from exc
    found: dict[str, Any] = {}
    for path in paths:
        inner: Any = whole
        for step in path:
            inner = inner.get(step, {}) if isinstance(inner, dict) else {}
        found |= inner if isinstance(inner, dict) else {}
    return found


def _unreadable(file: Path, why: Exception) -> RyeError:
    what = f"expected a configuration in JSON, found: {why}"
    return RyeError("client_configuration", what, where=file, hint=_HINT)
