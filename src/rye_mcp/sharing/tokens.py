"""How a registry lets somebody in: Basic, or a bearer token from the service that the registry names.

A token is asked for this repository and these actions, whatever a registry would like it to be for. Values of
tokens and passwords appear in no error and no log.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from lilux import _json
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.sharing.credentials import Credentials

__all__ = ["Ask", "Challenge", "authorization", "challenges_in"]

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
