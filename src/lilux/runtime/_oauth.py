"""OAuth 2.0: a refresh token for the next access token (RFC 6749, section 6), over `httpx`.

- The answer is JSON with an `access_token`; `expires_in`, `scope` and a new `refresh_token` count when
  they are there, else the old ones stay.
- Redirects are not followed: they would carry the secrets elsewhere. At most 1 MiB and 30 seconds.
- `invalid_grant` means that the refresh token is good no longer: AuthenticationRequired. All else is a
  RefreshError, with the origin of the endpoint, the status and the error code, never with anything else
  of question or answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import anyio

from lilux.primitives.errors import AuthenticationRequired, ConfigurationError, RefreshError
from lilux.runtime._tokens import RefreshConfig, Token, check_secret, scope_names

if TYPE_CHECKING:
    import httpx

__all__ = ["refreshed"]

STEP_LIMIT_S: Final = 10.0
"""How long connecting, sending, or waiting for the next piece of an answer may take."""

TIME_LIMIT_S: Final = 30.0
"""How long all of it may take; looking up the name has the limits of the system besides."""

ANSWER_LIMIT_BYTES: Final = 1024 * 1024

_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")


def refreshed(service: str, token: Token, now: float) -> Token:
    """The next token; AuthenticationRequired or RefreshError when there is none."""
    config, secret = token.refresh_config, token.refresh_token
    if config is None or secret is None:
        raise AuthenticationRequired(f"the token of {service!r} cannot be refreshed: sign in again", service)
    where = _origin(config)
    status, answer = _exchange(service, config, secret, where)
    if status != 200:
        _refuse(service, where, status, answer)
    try:
        return _next(token, answer, now)
    except (ConfigurationError, TypeError, ValueError):
        raise RefreshError(f"expected a token from {where}, found something else", service) from None


def _exchange(service: str, config: RefreshConfig, secret: str, where: str) -> tuple[int, dict[str, Any]]:
    """Status and answer of the endpoint. Blocks, with an event loop of its own: that can end it in time."""
    form = {**config.extra, "grant_type": "refresh_token", "refresh_token": secret}
    auth = None
    if config.auth_method == "basic":
        # The two are encoded as in a form before they are joined (RFC 6749, section 2.3.1).
        auth = (quote(config.client_id or "", safe=""), quote(config.client_secret or "", safe=""))
    else:
        named = {"client_id": config.client_id, "client_secret": config.client_secret}
        form |= {name: value for name, value in named.items() if value is not None}

    async def ask() -> tuple[int, bytes]:
        with anyio.fail_after(TIME_LIMIT_S):
            return await _ask(service, config.token_url, form, auth, where)

    try:
        status, body = anyio.run(ask)
    except TimeoutError as exc:
        message = f"expected an answer of {where} within {TIME_LIMIT_S:g} s, found none"
        raise RefreshError(message, service) from exc
    return status, _json_of(body)


async def _ask(
    service: str, url: str, form: Mapping[str, str], auth: tuple[str, str] | None, where: str
) -> tuple[int, bytes]:
    import httpx

    headers = {"Accept": "application/json"}
    proxied = url.startswith("https:")  # what goes to this machine goes there directly
    try:
        async with (
            httpx.AsyncClient(timeout=STEP_LIMIT_S, follow_redirects=False, trust_env=proxied) as client,
            client.stream("POST", url, data=form, auth=auth, headers=headers) as response,
        ):
            return response.status_code, await _body(service, response, where)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise RefreshError(f"cannot reach {where}: {type(exc).__name__}", service) from exc


async def _body(service: str, response: httpx.Response, where: str) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > ANSWER_LIMIT_BYTES:
            raise RefreshError(
                f"expected at most {ANSWER_LIMIT_BYTES} bytes from {where}, found more", service
            )
    return bytes(body)


def _json_of(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _refuse(service: str, where: str, status: int, answer: Mapping[str, Any]) -> None:
    code = answer.get("error")
    known = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else None
    found = f"{where} has answered {status}" + (f" ({known})" if known else "")
    if known == "invalid_grant":
        raise AuthenticationRequired(f"{found}: sign in to {service!r} again", service)
    raise RefreshError(f"the token of {service!r} could not be refreshed: {found}", service)


def _next(token: Token, answer: Mapping[str, Any], now: float) -> Token:
    expires_in = answer.get("expires_in")
    life = None if expires_in is None else float(expires_in)
    if isinstance(expires_in, bool) or (life is not None and not math.isfinite(life)):
        raise ValueError
    following = answer.get("refresh_token")
    scopes = scope_names("scope", answer.get("scope"))
    return replace(
        token,
        access_token=check_secret("access_token", answer.get("access_token")),
        refresh_token=token.refresh_token if following is None else check_secret("refresh_token", following),
        issued_at=now,
        expires_at=None if life is None else now + life,
        scopes=token.scopes if scopes is None else scopes,
    )


def _origin(config: RefreshConfig) -> str:
    parts = urlsplit(config.token_url)
    return f"{parts.scheme}://{parts.netloc}"
