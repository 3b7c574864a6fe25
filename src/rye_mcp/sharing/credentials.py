"""The user's credentials for registries, as Docker keeps them: `config.json` and its credential helpers.

A credential is looked up for one host and given to nobody else. A helper is a program named
`docker-credential-NAME`, found through directories of PATH that lie in no project that was not approved.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from lilux import _files as whole_files
from lilux import _json
from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.errors import RyeError, printable
from rye_mcp.sharing.programs import WhyNot, allowed_path, find_program
from rye_mcp.trust.directories import home_of

__all__ = ["Ask", "Challenge", "Credentials", "DockerCredentials", "authorization", "challenges_in"]

_DOCKER_HUB: Final = "https://index.docker.io/v1/"
_HUB_HOSTS: Final = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_MAX_BYTES: Final = 1 << 20
_HELPER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_HELPER_LIMIT_S: Final = 30
_TOKEN_USER: Final = "<token>"  # noqa: S105 - the name that helpers give instead of a user


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password, or a token that a registry's own service exchanges for another one."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)


class DockerCredentials:
    """What Docker's configuration of this user says; read when it is asked for first.

    `why_not` says why nothing may be started from a directory, None where it may.
    """

    def __init__(self, environment: Mapping[str, str], why_not: WhyNot) -> None:
        self._environment = environment
        self._why_not = why_not
        self._read: dict[str, Any] | None = None

    async def of(self, host: str) -> Credentials | None:
        """The credentials for a registry; None where the user has none."""
        configuration = self._configuration()
        helpers = configuration.get("credHelpers")
        for key in _keys_of(host):
            if isinstance(helpers, dict) and isinstance(helpers.get(key), str):
                return await self._asked(helpers[key], key)
        auths = configuration.get("auths")
        for key in _keys_of(host):
            entry = auths.get(key) if isinstance(auths, dict) else None
            if isinstance(entry, dict) and (known := _of_entry(entry)) is not None:
                return known
        store = configuration.get("credsStore")
        return await self._asked(store, _keys_of(host)[0]) if isinstance(store, str) else None

    def _configuration(self) -> dict[str, Any]:
        if self._read is None:
            self._read = _configuration_in(self._place())
        return self._read

    def _place(self) -> Path:
        named = self._environment.get("DOCKER_CONFIG", "")
        if named and Path(named).is_absolute():
            return Path(named) / "config.json"
        return Path(home_of(self._environment)) / ".docker/config.json"

    async def _asked(self, helper: str, server: str) -> Credentials | None:
        """What a credential helper says; None where it knows nothing of this server."""
        program = self._program_of(helper)
        spec = ProcessSpec(
            command=program,
            args=("get",),
            env={**self._environment, "PATH": allowed_path(self._environment, self._why_not)},
            cwd=Path("/"),  # a shell that it starts finds nothing in a clone
            input=f"{server}\n".encode(),
            timeout=_HELPER_LIMIT_S,
        )
        result = await SubprocessPrimitive().run(spec)
        if not result.success:
            if "credentials not found" in result.stdout:
                return None
            what = (
                f"expected credentials for {server} from {printable(program)}, found that it {_end(result)}"
            )
            raise RyeError("registry_refused", what, hint=f"docker login {server}")
        return _of_answer(result.stdout, program)

    def _program_of(self, helper: str) -> str:
        if not _HELPER.fullmatch(helper):
            raise _no_helper(helper[:40], "a name that no helper can have")
        name = f"docker-credential-{helper}"
        program, refused = find_program(name, self._environment, self._why_not)
        if program is None:
            raise _no_helper(name, refused)
        return program


def _no_helper(name: str, found: str) -> RyeError:
    what = f"expected the credential helper {name} that Docker's configuration names, found {found}"
    return RyeError("registry_refused", what, hint="look at credsStore and credHelpers in config.json")


def _end(result: Any) -> str:
    return "did not start" if result.kind == "spawn_failed" else f"ended with {result.return_code}"


def _configuration_in(place: Path) -> dict[str, Any]:
    try:
        data = whole_files.read_capped(place, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as exc:
        what = f"expected Docker's configuration in {printable(place)}, found: {exc.strerror}"
        raise RyeError("read_failed", what, where=place) from exc
    try:
        found = _json.decode(data)
    except _json.NotJsonError as exc:
        what = f"expected Docker's configuration as JSON in {printable(place)}, found something else"
        raise RyeError("read_failed", what, where=place) from exc
    return found if isinstance(found, dict) else {}


def _keys_of(host: str) -> tuple[str, ...]:
    """What Docker calls a registry in its configuration."""
    if host in _HUB_HOSTS:
        return (_DOCKER_HUB, "docker.io", "index.docker.io", "registry-1.docker.io")
    return (host, f"https://{host}", f"https://{host}/", f"https://{host}/v1/", f"https://{host}/v2/")


def _of_entry(entry: Mapping[str, Any]) -> Credentials | None:
    token = entry.get("identitytoken")
    if isinstance(token, str) and token:
        return Credentials(identity_token=token)
    user, password = entry.get("username"), entry.get("password")
    coded = entry.get("auth")
    if isinstance(coded, str) and coded:
        try:
            user, _, password = base64.b64decode(coded, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
    if isinstance(user, str) and isinstance(password, str) and user:
        return Credentials(user, password.rstrip("\0"))
    return None


def _of_answer(text: str, program: str) -> Credentials | None:
    try:
        answer = json.loads(text)
        user, secret = answer["Username"], answer["Secret"]
    except (ValueError, KeyError, TypeError) as exc:
        what = f"expected credentials from {printable(program)}, found something else"
        raise RyeError("registry_refused", what) from exc
    if not isinstance(user, str) or not isinstance(secret, str) or not secret:
        return None
    return Credentials(identity_token=secret) if user == _TOKEN_USER else Credentials(user, secret)


# --- tokens of registries ---
# How a registry lets somebody in: Basic, or a bearer token from the service that the registry names.
#
# A token is asked for this repository and these actions, whatever a registry would like it to be for.
# Values of tokens and passwords appear in no error and no log.


MAX_TOKEN_BYTES: Final = 1 << 20
"""How many bytes the answer of a token service may have."""

_CHALLENGE: Final = re.compile(r"(?:^|,)\s*(Basic|Bearer)(?=\s|$)", re.IGNORECASE)
_PARAMETER: Final = re.compile(r'([A-Za-z_-]{1,40})\s*=\s*(?:"((?:[^"\\]|\\.){0,2000})"|([^\s,"]{1,2000}))')
_MAX_HEADER: Final = 8_192
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,65536}", re.ASCII)

Ask = Callable[[str, str, Mapping[str, str], bytes | None], Awaitable[tuple[int, bytes]]]
"""Asks a token service: method, URL, headers and body; what comes back is a status and a body."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way in, as a registry offers it."""

    scheme: str
    parameters: Mapping[str, str]


def challenges_in(header: str) -> list[Challenge]:
    """What `WWW-Authenticate` offers, of the two schemes that are known here."""
    text = header[:_MAX_HEADER]
    starts = list(_CHALLENGE.finditer(text))
    found = []
    end = len(text)
    for each in reversed(starts):
        found.append(Challenge(each[1].lower(), _parameters(text[each.end() : end])))
        end = each.start()
    return found[::-1]


def _parameters(text: str) -> dict[str, str]:
    found = (each.groups() for each in _PARAMETER.finditer(text))
    return {name.lower(): re.sub(r"\\(.)", r"\1", quoted or plain or "") for name, quoted, plain in found}


async def authorization(header: str, scope: str, credentials: Credentials | None, ask: Ask) -> str | None:
    """What `Authorization` has to say after this challenge; None where there is nothing to try."""
    offered = {each.scheme: each for each in challenges_in(header)}
    if "bearer" in offered:
        return f"Bearer {await _token(offered['bearer'], scope, credentials, ask)}"
    if "basic" in offered and credentials is not None and credentials.user:
        return _basic(credentials)
    return None


def _basic(credentials: Credentials) -> str:
    pair = f"{credentials.user}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


async def _token(challenge: Challenge, scope: str, credentials: Credentials | None, ask: Ask) -> str:
    realm = challenge.parameters.get("realm", "")
    asked = {"service": challenge.parameters.get("service", ""), "scope": scope}
    asked = {name: value for name, value in asked.items() if value}
    if credentials is not None and credentials.identity_token:
        form = {
            **asked,
            "grant_type": "refresh_token",
            "client_id": "rye-mcp",
            "refresh_token": credentials.identity_token,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status, body = await ask("POST", realm, headers, urlencode(form).encode())
    else:
        headers = {} if credentials is None else {"Authorization": _basic(credentials)}
        joined = "&" if urlsplit(realm).query else "?"
        status, body = await ask("GET", f"{realm}{joined}{urlencode(asked)}", headers, None)
    if status != 200:
        what = f"expected a token for {scope}, found that the service refused with status {status}"
        raise RyeError("registry_refused", what)
    return _token_in(body, scope)


def _token_in(body: bytes, scope: str) -> str:
    try:
        answer: Any = _json.decode(body)
    except _json.NotJsonError:
        answer = None
    if isinstance(answer, dict):
        for name in ("token", "access_token"):
            if isinstance(token := answer.get(name), str) and _TOKEN.fullmatch(token):
                return token
    raise RyeError("registry_refused", f"expected a token for {scope}, found an answer without one")
