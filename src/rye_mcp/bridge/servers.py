"""The server of a tool: how it is started or where it is, with everything that it is given.

Two calls share a connection exactly when their `Server` is equal. Values of variables and of headers are in
no `repr` and in no message. What HTTP cannot carry as a header is refused here, by its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

from lilux._dataclasses import dataclass
from lilux._templates import EnvironmentReference, placeholders
from rye_mcp.errors import RyeError
from rye_mcp.permissions import DEFAULT_PORT, UNCONFINED, Permissions, sentence
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.executor.job.confinement import Bounds
    from rye_mcp.permissions.denials import Denial
    from rye_mcp.trust.directories import Directories

__all__ = [
    "MAX_MESSAGE_BYTES",
    "MAX_MESSAGE_VALUES",
    "START_TIMEOUT_S",
    "BridgeError",
    "Server",
    "require_variables",
]

START_TIMEOUT_S: Final = 60.0
"""How long a server may take until it has said what it offers: it may have to be downloaded first."""

MAX_MESSAGE_BYTES: Final = 16 << 20
"""How long one message of a server may be."""

MAX_MESSAGE_VALUES: Final = 100_000
"""How many values it may hold: where MCP expects something else, each of them has half a dozen faults."""

_PLAIN: Final = {"transport", "server", "tool", "definition", "start_timeout", "max_message_bytes"}
_OF_TRANSPORT: Final[Mapping[str, frozenset[str]]] = {
    "stdio": frozenset({"command", "args", "env"}),
    "http": frozenset({"url", "headers"}),
}

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~\t]*[!-~])?", re.ASCII)
"""Valid header values: ASCII on one line, without blanks at its ends."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Server:
    """One server, as it is started or reached."""

    name: str
    transport: Literal["stdio", "http"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Pairs = field(default=(), repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Pairs = field(default=(), repr=False)
    start_timeout: float = START_TIMEOUT_S
    max_message_bytes: int = MAX_MESSAGE_BYTES
    directories: Directories | None = field(default=None, compare=False, repr=False)
    """Decides where a program may be found; None where no program is started."""
    bounds: Bounds | None = None
    """The confinement; None without one."""

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        cwd: str | None,
        directories: Directories | None,
        bounds: Bounds | None = None,
    ) -> Server:
        """The server that a filled configuration describes; RyeError `invalid_item` for none."""
        name, transport = config.get("server"), str(config.get("transport"))
        if not isinstance(name, str) or not name:
            raise _wrong("server", "the name of a server", name)
        if transport not in _OF_TRANSPORT:
            raise _wrong("transport", "stdio or http", transport)
        foreign = config.keys() - _PLAIN - _OF_TRANSPORT[transport]
        if foreign:
            raise _wrong(min(foreign), f"none with transport {transport}", "one")
        rest: dict[str, Any] = _stdio(config, cwd) if transport == "stdio" else _http(config)
        return cls(
            name=name,
            transport=cast('Literal["stdio", "http"]', transport),
            start_timeout=_number(config, "start_timeout", START_TIMEOUT_S),
            max_message_bytes=int(_number(config, "max_message_bytes", MAX_MESSAGE_BYTES)),
            directories=directories,
            bounds=bounds,
            **rest,
        )

    @property
    def permissions(self) -> Permissions:
        """The rights of the server."""
        return UNCONFINED if self.bounds is None else self.bounds.rights.permissions

    @property
    def address(self) -> str:
        """The host and the port that it is reached at, over HTTP."""
        split = urlsplit(self.url)
        return f"{split.hostname}:{split.port or (80 if split.scheme == 'http' else DEFAULT_PORT)}"

    def how_to_give_more(self) -> str:
        """Say how to grant more, if the server needs more than it may do."""
        name = shlex.quote(visible(self.name))
        how = f"rye mcp update {name} --permissions YAML (or rye mcp add with it)"
        return f"{visible(self.name)} {sentence(self.permissions)}. If it needs more, allow it that: {how}"

    @property
    def shown(self) -> list[str]:
        """The command, or the origin of the address, as a line of a dry run has it."""
        if self.transport == "stdio":
            return [self.command, *self.args]
        split = urlsplit(self.url)
        return ["MCP", f"{split.scheme}://{split.hostname}{'' if split.port is None else f':{split.port}'}"]


def require_variables(config: Mapping[str, Any], known: Container[str]) -> None:
    """RyeError `variable_not_set` when a text names a variable that is not there, and no default for it."""
    texts = [*config.get("env", {}).values(), *config.get("headers", {}).values(), config.get("url", "")]
    named = {each for text in texts if isinstance(text, str) for each in placeholders(text)}
    missing = sorted(
        each.name
        for each in named
        if isinstance(each, EnvironmentReference) and each.default is None and each.name not in known
    )
    if missing:
        what = f"expected {', '.join(missing)} to be set for the server {visible(str(config.get('server')))}"
        raise RyeError("variable_not_set", f"{what}, found that it is not", variables=missing)


def _stdio(config: Mapping[str, Any], cwd: str | None) -> dict[str, Any]:
    command = config.get("command")
    if not isinstance(command, str) or not command.strip():
        raise _wrong("command", "the program of the server", command)
    args = config.get("args", [])
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise _wrong("args", "a list of texts", args)
    return {"command": command, "args": tuple(args), "env": _pairs(config, "env"), "cwd": cwd}


def _http(config: Mapping[str, Any]) -> dict[str, Any]:
    url = config.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
        raise _wrong("url", "an address that begins with http:// or https://", url)
    return {"url": url, "headers": tuple(_header(*each) for each in _pairs(config, "headers"))}


def _header(name: str, value: str) -> tuple[str, str]:
    if not _HEADER_NAME.fullmatch(name):
        raise _wrong("headers", "names of headers", name)
    if not _HEADER_VALUE.fullmatch(value):
        key = f"headers.{name}"
        what = "expected ASCII on one line, without blanks at its ends, found something else"
        hint = "look at the variable that it names: it may end with a line break"
        raise RyeError("invalid_item", f"config.{key}: {what}", hint=hint, field=f"config.{key}")
    return name, value


def _pairs(config: Mapping[str, Any], key: str) -> Pairs:
    """Return pairs of a key; empty values are left out, they stand for variables that are not set."""
    given = config.get(key, {})
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given.values()):
        raise _wrong(key, "a mapping of texts", given)
    return tuple(sorted((name, value) for name, value in given.items() if value))


def _number(config: Mapping[str, Any], key: str, usual: float) -> float:
    value = config.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise _wrong(key, "a number above 0", value)
    return value


def _wrong(key: str, expected: str, found: object) -> RyeError:
    kind = found if isinstance(found, str) and key in ("transport", "server") else type(found).__name__
    what = f"config.{key}: expected {expected}, found {visible(str(kind))[:80]}"
    return RyeError("invalid_item", what, field=f"config.{key}")


class BridgeError(Exception):
    """A call, or a connection, that came to nothing.

    `code` is one of `spawn_failed`, `lost`, `timeout`, `tool_failed` and `remote_changed`; of the last one
    neither message nor `data` hold anything that the other server wrote. `said` is the end of what a program
    wrote on standard error; the message ends with it in one line, and `lines` are for a terminal. `denied` is
    what a confined program lacked, as far as it shows.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        data: Any = None,
        said: str = "",
        denied: Denial | None = None,
    ) -> None:
        told = f"{message}; it last said: {visible(said)}" if said else message
        super().__init__(told)
        self.code = code
        self.message = told
        self.lines = tuple(visible(line) for line in said.split("\n")) if said else ()
        self.hint = hint
        self.data = data
        self.denied = denied
