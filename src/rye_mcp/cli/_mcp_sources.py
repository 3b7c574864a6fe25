"""Servers to add: from the words of a command line, or from the configuration of a client or a project.

Secrets are written into items by the names of their variables, never by value. What a project's file says was
written by whoever writes to the project: its servers are chosen by name only. Nothing is started here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from lilux._dataclasses import dataclass
from rye_mcp.cli._client_files import CLIENTS, Client, ClientName, Surroundings
from rye_mcp.cli._printing import warn
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.environment.variables import holds_password, looks_secret
from rye_mcp.items import SpaceName
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.verbs.mcp_servers import ServerPlan, require_server_name

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["Configured", "Found", "Origin", "chosen", "configured", "found_servers", "plan_of"]

_SCHEMES: Final = ("http://", "https://")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_SECRET_HEADER: Final = re.compile(r"auth|cookie|token|key|secret", re.IGNORECASE)
_OWN_COMMANDS: Final = frozenset({"rye-mcp"})


@dataclass(frozen=True, slots=True)
class Found:
    """A server in the configuration of a client; `values` are those of its variables, to be used once."""

    name: str
    plan: ServerPlan | None
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    why_not: str | None = None


def plan_of(
    name: str,
    words: Sequence[str],
    env: Iterable[str],
    headers: Iterable[str],
    to: SpaceName,
    only: Sequence[str],
    start_timeout: float | None = None,
) -> ServerPlan:
    """Return the plan that a command line asks for; wrong use when it names no server."""
    require_server_name(name)
    if not words:
        raise typer.BadParameter("expected -- COMMAND…, or the address of a server, found neither")
    if words[0].startswith(_SCHEMES):
        if len(words) > 1 or list(env):
            raise typer.BadParameter("expected nothing but headers beside the address of a server")
        config: dict[str, Any] = {
            "transport": "http",
            "url": words[0],
            "headers": dict(map(_header, headers)),
        }
    elif "://" in words[0]:
        raise typer.BadParameter(
            f"expected an address with http:// or https://, found {ascii(words[0])[:80]}"
        )
    else:
        if list(headers):
            raise typer.BadParameter("expected headers for an address alone, found a command")
        config = {"transport": "stdio", "command": words[0], "args": list(words[1:])}
        config["env"] = dict(map(_variable, env))
    config["server"] = name
    if start_timeout is not None:
        config["start_timeout"] = start_timeout
    return ServerPlan(name, config, to, tuple(only))


def _variable(text: str) -> tuple[str, str]:
    """`NAME`, which is passed on, or `NAME=VALUE` for what is no secret."""
    name, is_given, value = text.partition("=")
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"expected the name of a variable, found {ascii(name)[:80]}")
    if not is_given:
        return name, f"${{{name}}}"
    if (looks_secret(name) or holds_password(value)) and "${" not in value:
        raise typer.BadParameter(
            f"expected --env {name} alone: its value is secret, and would stand in a file"
        )
    return name, value


def _header(text: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not name or not value:
        raise typer.BadParameter(f"expected 'Name: value' as a header, found {ascii(name)[:80]}")
    if _SECRET_HEADER.search(name) and "${" not in value:
        raise typer.BadParameter(
            f"expected '{name}: …${{VARIABLE}}…': its value is secret, and would stand in a file"
        )
    return name, value


# --- configurations of other clients ---


def found_servers(servers: Mapping[str, Any], to: SpaceName) -> list[Found]:
    """Every server in the object of a configuration that holds servers; rye itself is passed over."""
    found = []
    for title, said in sorted(servers.items()):
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", title).lstrip(".-")[:64] or "server"
        if not isinstance(said, Mapping):
            found.append(Found(name, None, why_not="expected an object, found something else"))
        elif not _is_rye(said):
            found.append(_found(name, said, to))
    return found


def _is_rye(said: Mapping[str, Any]) -> bool:
    return str(said.get("command", "")).rpartition("/")[2] in _OWN_COMMANDS


def _found(name: str, said: Mapping[str, Any], to: SpaceName) -> Found:
    try:
        config, values = _config_of(name, said)
    except _UnusableError as exc:
        return Found(name, None, why_not=str(exc))
    return Found(name, ServerPlan(name, {**config, "server": name}, to), values)


class _UnusableError(ValueError):
    """Why a server in a configuration cannot be brought in."""


def _config_of(name: str, said: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration of its items, and the values of its variables; _UnusableError for what has none."""
    url, command = said.get("url") or said.get("serverUrl"), said.get("command")
    given, args = said.get("headers" if url else "env") or {}, said.get("args") or []
    _require_texts(args, given)
    if said.get("type") == "sse":
        raise _UnusableError("it speaks the old HTTP+SSE transport: ask for its Streamable HTTP address")
    if isinstance(url, str) and url.startswith(_SCHEMES):
        texts, values = _without_secrets(given, is_header=True, server=name)
        config: dict[str, Any] = {"transport": "http", "url": url, "headers": texts}
    elif isinstance(command, str) and command:
        texts, values = _without_secrets(given, is_header=False, server=name)
        words = list(map(_from_client, args))
        config = {"transport": "stdio", "command": command, "args": words, "env": texts}
    else:
        raise _UnusableError("expected a command or an address, found neither")
    if "${input:" in str(config):
        raise _UnusableError("it asks for input of its client: add it with --env or --header")
    return config, values


def _require_texts(args: Any, given: Any) -> None:
    if not isinstance(args, list) or not isinstance(given, Mapping):
        raise _UnusableError("expected a list of arguments, and an object of variables or headers")
    if not all(isinstance(each, str) for each in (*args, *given.values())):
        raise _UnusableError("expected texts as arguments, variables and headers")


def _without_secrets(
    given: Mapping[str, str], *, is_header: bool, server: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The texts for an item, and the values that its variables have in the configuration."""
    texts, values = {}, {}
    for name, value in given.items():
        secret = (
            bool(_SECRET_HEADER.search(name)) if is_header else looks_secret(name) or holds_password(value)
        )
        if not secret or "${" in value:
            texts[name] = _from_client(value)
            continue
        variable = name if not is_header else re.sub(r"\W", "_", f"{server}_{name}").upper()
        texts[name] = f"${{{variable}}}"
        values[variable] = value
    return texts, values


def _from_client(text: str) -> str:
    """VS Code and Cursor write `${env:NAME}` for what is `${NAME}` here, and name two directories."""
    text = text.replace("${workspaceFolder}", "{project_path}").replace("${userHome}", "${HOME}")
    return re.sub(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", r"${\1}", text)


MAX_PROJECT_FILE_BYTES: Final = 1 << 20
"""How long a configuration in a project may be."""

_HINT: Final = "fix that file, or: rye mcp add NAME -- COMMAND"


class Origin(StrEnum):
    """The author of a configuration: the person, or anybody who can write to the project."""

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
        """The name of the server here."""
        return self.found.name

    @property
    def shown_client(self) -> str:
        """The client, and whether the project says so."""
        return self.client.value if self.origin is Origin.USER else f"{self.client.value} (project)"

    @property
    def where(self) -> str:
        """Its command or address, or the reason why it has neither."""
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
            warn(f"{at.value}: {exc.message}: {exc.where}")
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
    """Yield the members of the objects at these paths; the last one that has a name counts."""
    from rye_mcp.cli._client_files import parse_object, without_comments

    try:
        whole: Mapping[str, Any] = parse_object(without_comments(content.decode("utf-8")))
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
