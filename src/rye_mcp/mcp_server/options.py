"""The options of `rye-mcp`: its command line, and the secrets of a server over HTTP.

Without an argument nothing is parsed: nearly every client starts the server so, and waits. A token and state
keys come from a private file, else from a variable that is taken out of the environment, so that no tool
inherits it. Of several state keys the first seals and each opens.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import re
import secrets
import sys
from collections.abc import MutableMapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import read_private
from rye_mcp.mcp_server.logs import DEFAULT_LEVEL, LEVELS

if TYPE_CHECKING:
    from rye_mcp.configuration import Action

__all__ = [
    "DEFAULT_PORT",
    "STATE_KEY_VARIABLE",
    "TOKEN_VARIABLE",
    "Address",
    "HttpOptions",
    "ServerOptions",
    "Token",
    "find_state_keys",
    "parse_address",
    "read_options",
]

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
    """The options of a server over HTTP.

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
    """The options of the server; `http` is None for standard input and output.

    `confirm` is what a person has to agree to.
    """

    projects: tuple[Path, ...] = ()
    expose: tuple[str, ...] = ()
    confirm: frozenset[Action] = frozenset()
    log_level: str | None = None
    http: HttpOptions | None = None


def read_options(arguments: Sequence[str]) -> ServerOptions:
    """Read the command line; SystemExit for wrong use and for `--help`."""
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
        _require_no_http(parser, found)
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


def _require_no_http(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    for name in ("token_file", "state_key_file", "no_auth", "allow_host", "allow_origin", "drain"):
        if getattr(found, name):
            parser.error(f"expected --http beside --{name.replace('_', '-')}, found none")


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


TOKEN_VARIABLE: Final = "RYE_HTTP_TOKEN"  # noqa: S105 - where it is, not what it is
"""The environment variable that gives the token."""

_MIN_CHARACTERS: Final = 16
_MAX_BYTES: Final = 4096
_FORM = re.compile(rf"[A-Za-z0-9._~+/=-]{{{_MIN_CHARACTERS},}}")
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `is_new` when nobody knows it yet but this server."""

    text: str = field(repr=False)
    is_new: bool

    @classmethod
    def find(cls, file: Path | None, environment: MutableMapping[str, str]) -> Token:
        """The token that was given, or a new one; RyeError for an invalid one."""
        given = environment.pop(TOKEN_VARIABLE, None)
        if file is not None:
            return cls(
                _checked_token(read_private(file, "a token", limit=_MAX_BYTES), str(file)), is_new=False
            )
        if given is not None:
            return cls(_checked_token(given.strip(), TOKEN_VARIABLE), is_new=False)
        return cls(secrets.token_urlsafe(32), is_new=True)

    def opens(self, header: bytes | None) -> bool:
        """Whether this is what the header `Authorization` says."""
        scheme, _, given = (header or b"").partition(b" ")
        # Digests have one length, so that comparing tells nothing of the length of the token either.
        same = hmac.compare_digest(_digest(given.strip()), _digest(self.text.encode()))
        return same and scheme.lower() == b"bearer"


def _read(file: Path, kind: str) -> str:
    return read_private(file, kind, limit=_MAX_BYTES)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _checked_token(text: str, where: str) -> str:
    if _FORM.fullmatch(text):
        return text
    kind = f"at least {_MIN_CHARACTERS} letters, digits and ._~+/=-"
    what = f"expected a token of {kind}, found {len(text)} characters"
    hint = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
    raise RyeError("cannot_listen", what, where=where, hint=hint)


STATE_KEY_VARIABLE: Final = "RYE_HTTP_STATE_KEY"
"""The environment variable that gives the keys."""

_MIN_KEY_CHARACTERS: Final = 32


def find_state_keys(file: Path | None, environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """The keys that were given; none is as well. RyeError for what cannot be one."""
    given = environment.pop(STATE_KEY_VARIABLE, None)
    if file is not None:
        return _checked_keys(read_private(file, "a key", limit=_MAX_BYTES), str(file))
    return () if given is None else _checked_keys(given, STATE_KEY_VARIABLE)


def _checked_keys(text: str, where: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(text.split()))
    shortest = min(map(len, keys), default=0)
    if shortest >= _MIN_KEY_CHARACTERS:
        return keys
    what = f"expected keys of at least {_MIN_KEY_CHARACTERS} characters, found one of {shortest}"
    hint = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
    raise RyeError("cannot_listen", what, where=where, hint=hint)
