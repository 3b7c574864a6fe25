"""The command line of `rye-mcp`, which people put into the configurations of clients.

Without an argument nothing is parsed: that is how nearly every client starts the server, and it waits. Wrong
use ends the command with 2 and a sentence on standard error, before anything is opened.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.mcp_server.logs import DEFAULT_LEVEL, LEVELS

if TYPE_CHECKING:
    from rye_mcp.configuration import Action

__all__ = ["DEFAULT_PORT", "Address", "HttpOptions", "ServerOptions", "parse_address", "read_options"]

DEFAULT_PORT: Final = 8000
DEFAULT_DRAIN_S: Final = 10.0
"""How long running calls may go on after SIGTERM."""

_LOOPBACK: Final = "127.0.0.1"
_ACTIONS: Final[dict[str, Action]] = {"sign": "sign", "execute": "execute"}
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; `port` 0 is any that is free."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What was asked of the server over HTTP.

    `allowed_hosts` and `allowed_origins` are what proxies and browsers may say besides the address itself.
    """

    address: Address
    token_file: Path | None = None
    state_key_file: Path | None = None
    is_open: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    drain_s: float = DEFAULT_DRAIN_S


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What was asked of the server; `http` is None for standard input and output.

    `confirm` is what a person has to agree to.
    """

    projects: tuple[Path, ...] = ()
    expose: tuple[str, ...] = ()
    confirm: frozenset[Action] = frozenset()
    log_level: str | None = None
    http: HttpOptions | None = None


def read_options(arguments: Sequence[str]) -> ServerOptions:
    """What the arguments say; SystemExit for wrong use and for `--help`."""
    if not arguments:
        return ServerOptions()
    parser = _parser()
    found = parser.parse_args(arguments)
    common = ServerOptions(
        tuple(found.project),
        tuple(found.expose),
        frozenset(action for actions in found.confirm for action in actions),
        found.log_level,
    )
    if found.http is None:
        for name in ("token_file", "state_key_file", "no_auth", "allow_host", "allow_origin", "drain"):
            if getattr(found, name):
                parser.error(f"expected --http beside --{name.replace('_', '-')}, found none")
        if len(common.projects) > 1:
            parser.error("expected one --project over standard input and output, found several")
        return common
    if found.no_auth and found.token_file is not None:
        parser.error("expected --no-auth or --token-file, found both")
    http = HttpOptions(
        found.http,
        token_file=found.token_file,
        state_key_file=found.state_key_file,
        is_open=found.no_auth,
        allowed_hosts=tuple(found.allow_host),
        allowed_origins=tuple(found.allow_origin),
        drain_s=DEFAULT_DRAIN_S if found.drain is None else found.drain,
    )
    return replace(common, http=http)


def parse_address(text: str) -> Address:
    """An address as people write it: `8000`, `0.0.0.0`, `localhost:8000`, `[::1]:8000`; ValueError.

    Without a port it means port 8000, without a host this machine alone.
    """
    if text.isascii() and text.isdigit():
        return Address(_LOOPBACK, _port(text))
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest and not rest.startswith(":"):
            raise ValueError(f"expected a port behind ], found {rest[:20]!r}")
        port = rest[1:]
    else:
        host, _, port = text.partition(":")
        if ":" in port:
            raise ValueError("expected an IPv6 address in brackets, such as [::1]:8000")
    if not host:
        raise ValueError(f"expected an address before the port, such as {_LOOPBACK}:{port or DEFAULT_PORT}")
    return Address(host, _port(port) if port else DEFAULT_PORT)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MAX_PORT):
        raise ValueError(f"expected a port from 0 to {_MAX_PORT}, found {text[:20]!r}")
    return int(text)


def _address_argument(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _actions(text: str) -> tuple[Action, ...]:
    found = [each for each in text.split(",") if each]
    if not found or any(each not in _ACTIONS for each in found):
        choice = " or ".join([*_ACTIONS, ",".join(_ACTIONS)])
        raise argparse.ArgumentTypeError(f"expected {choice}, found {text[:40]!r}")
    return tuple(_ACTIONS[each] for each in found)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, found {text[:20]!r}")
    return seconds


class _Version(argparse.Action):
    """Says which version this is. It is looked up only now: to find it out takes time at each start."""

    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it, and end with 0."""
        from importlib.metadata import version

        sys.stdout.write(f"rye-mcp {version('rye-mcp')}\n")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rye-mcp",
        description="The MCP server of rye, over standard input and output, or over HTTP.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--version", action=_Version, help="say which version this is, and end")
    add("--project", type=Path, action="append", default=[], metavar="DIR",
        help="the project; over HTTP several, and project_path has to be one of them")  # fmt: skip
    add("--expose", action="append", default=[], metavar="GLOB",
        help="list verified tools with such ids (demo/*) as tools of MCP themselves")  # fmt: skip
    add("--confirm", type=_actions, action="append", default=[], metavar="ACTIONS",
        help="ask the person before these: sign, execute, or both with a comma")  # fmt: skip
    add("--log-level", choices=LEVELS, metavar="LEVEL",
        help=f"what is logged: {', '.join(LEVELS)}; else RYE_LOG, else {DEFAULT_LEVEL}")  # fmt: skip
    add("--http", type=_address_argument, nargs="?", const=Address(_LOOPBACK, DEFAULT_PORT),
        metavar="HOST:PORT", help=f"serve over HTTP; by default {_LOOPBACK}:{DEFAULT_PORT}")  # fmt: skip
    add("--token-file", type=Path, metavar="FILE",
        help="the bearer token; else RYE_HTTP_TOKEN, else one is made and shown")  # fmt: skip
    add("--state-key-file", type=Path, metavar="FILE",
        help="the key that several workers share; else RYE_HTTP_STATE_KEY, else its own")  # fmt: skip
    add("--no-auth", action="store_true", help="ask for no token; on a loopback address alone")
    add("--allow-host", action="append", default=[], metavar="HOST",
        help="a Host that a proxy in front of the server passes on")  # fmt: skip
    add("--allow-origin", action="append", default=[], metavar="ORIGIN",
        help="an Origin that browsers may come from, such as https://example.org")  # fmt: skip
    add("--drain", type=_seconds, metavar="SECONDS",
        help=f"how long calls may go on after SIGTERM; by default {DEFAULT_DRAIN_S:g}")  # fmt: skip
    return parser
