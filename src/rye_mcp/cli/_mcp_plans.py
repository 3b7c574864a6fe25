"""From what a person writes, or what another client has in its configuration, to a server to bring in.

Rules:

- Names of variables are written into items, never values that look like secrets: `${NAME}` stands for them,
  and the server gets them from the environment that rye runs in. A value that was found in a configuration
  is used once, to ask the server what it offers.
- A header that carries a token names the variable that has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import typer

from rye_mcp.executor.environment.variables import holds_password, looks_secret
from rye_mcp.items import SpaceName
from rye_mcp.verbs.mcp_servers import ServerPlan, require_server_name

__all__ = ["Found", "found_servers", "plan_of"]

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
    """What the words of a command line ask for; wrong use when they make no server."""
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
