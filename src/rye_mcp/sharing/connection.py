"""Requests to one registry: who may be asked, how much is read, and what a failure is called.

Only `https` is spoken, except with this machine or with a registry that the caller called insecure. Redirects
are followed for reading alone, and take no credentials to another origin. What is read has a limit in bytes,
and each exchange one in time. Nothing of an address but its origin gets into a log or an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

import anyio
import httpx

from lilux import _json
from lilux._dataclasses import dataclass
from lilux._http.clients import Answer, Clients, Content, Handshake, Line, SentUrl
from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.sharing.credentials import MAX_TOKEN_BYTES, Credentials, authorization
from rye_mcp.sharing.reference import is_loopback, leads_here

__all__ = ["Connection", "Reply"]

MAX_REDIRECTS: Final = 5
"""How many redirects one request follows."""

EXCHANGE_LIMIT_S: Final = 300.0
"""How long one request may take, from its first look-up to its last byte."""

SILENCE_LIMIT_S: Final = 30.0
"""How long a server may send nothing in the middle of an answer."""

MAX_ERROR_BYTES: Final = 64 << 10
"""How much is read of an answer that refuses."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REFUSED: Final = frozenset({401, 403})
_READING: Final = frozenset({"GET", "HEAD"})
_ERROR_CODE: Final = re.compile(r"[A-Z][A-Z_]{1,39}", re.ASCII)
_PLAIN: Final = frozenset({"", "identity"})
_TIMEOUT: Final = {"connect": SILENCE_LIMIT_S, "read": SILENCE_LIMIT_S, "write": SILENCE_LIMIT_S}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, its headers by their names in lower case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error_code(self) -> str:
        """The code of OCI in the body of a refusal, or the status alone."""
        try:
            found = _json.decode(self.body)["errors"][0]["code"]
        except (_json.NotJsonError, KeyError, IndexError, TypeError):
            found = None
        named = isinstance(found, str) and _ERROR_CODE.fullmatch(found)
        return f"status {self.status}" + (f" ({found})" if named else "")


class Connection:
    """The way to one registry, with the credentials for it; the caller closes it."""

    def __init__(
        self, host: str, *, scope: str, insecure: bool = False, credentials: Credentials | None = None
    ) -> None:
        self.is_plain = insecure or is_loopback(host)
        self._host = host
        self._scope = scope
        self._credentials = credentials
        self._clients = Clients()
        self._authorization: str | None = None
        self._letting_in = anyio.Lock()
        served_by = "registry-1.docker.io" if host in {"docker.io", "index.docker.io"} else host
        self.origin = httpx.URL(f"{'http' if self.is_plain else 'https'}://{served_by}")

    async def close(self) -> None:
        """Close every connection."""
        await self._clients.close()

    async def ask(
        self,
        method: str,
        target: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Reply:
        """One request, as whoever the credentials say; it is asked again where a registry wants to know."""
        url = self._own(urljoin(f"{self.origin}/", target))
        used = self._authorization
        reply = await self._follow(method, url, headers or {}, content, limit, used)
        if reply.status != httpx.codes.UNAUTHORIZED or "www-authenticate" not in reply.headers:
            return reply
        await self._let_in(reply.headers["www-authenticate"], used)
        if self._authorization is None:
            return reply
        return await self._follow(method, url, headers or {}, content, limit, self._authorization)

    def refusal(self, reply: Reply, what: str) -> RyeError:
        """The error for an answer that is not the one that was needed."""
        if reply.status in _REFUSED:
            message = f"expected {self._host} to let you {what}, found {reply.error_code}"
            return RyeError("registry_refused", message, hint=f"docker login {self._host}")
        if reply.status == httpx.codes.NOT_FOUND:
            return RyeError(
                "artifact_not_found", f"expected {self._host} to {what}, found {reply.error_code}"
            )
        return RyeError("registry_failed", f"expected {self._host} to {what}, found {reply.error_code}")

    # --- who may be asked -----------------------------------------------------------

    def _own(self, url: str) -> httpx.URL:
        """An address of this registry; RyeError for one of another origin."""
        found = _parsed(url)
        if _origin(found) != _origin(self.origin):
            what = f"expected an address of {self._host}, found one of another server"
            raise RyeError("registry_failed", what)
        return found

    def _elsewhere(self, url: str, what: str) -> httpx.URL:
        """An address that the registry named, which may be that of another server."""
        found = _parsed(url)
        is_near = is_loopback(found.host)
        if leads_here(found.host) and not is_loopback(self._host):
            raise RyeError("registry_failed", f"expected {what} elsewhere, found this machine")
        same = _origin(found) == _origin(self.origin)
        if found.scheme == "https" or (found.scheme == "http" and self.is_plain and (is_near or same)):
            return found
        raise RyeError("registry_failed", f"expected {what} over https, found {found.scheme[:20]!a}")

    async def _let_in(self, challenge: str, used: str | None) -> None:
        async with self._letting_in:
            if self._authorization != used:
                return  # another request was let in meanwhile
            self._authorization = await authorization(
                challenge, self._scope, self._credentials, self._ask_service
            )

    async def _ask_service(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> tuple[int, bytes]:
        service = self._elsewhere(url, "the service for tokens")
        given = {name: text for name, text in headers.items() if name != "Authorization"}
        reply = await self._exchange(
            method, service, given, content, MAX_TOKEN_BYTES, headers.get("Authorization")
        )
        return reply.status, reply.body

    # --- asking ---------------------------------------------------------------------

    async def _follow(
        self,
        method: str,
        url: httpx.URL,
        headers: Mapping[str, str],
        content: bytes | None,
        limit: int,
        authorized: str | None,
    ) -> Reply:
        for _ in range(MAX_REDIRECTS + 1):
            is_own = _origin(url) == _origin(self.origin)
            reply = await self._exchange(method, url, headers, content, limit, authorized if is_own else None)
            if not is_own and reply.status in _REFUSED:
                raise self.refusal(reply, "read a file elsewhere")  # only the registry says who is let in
            location = reply.headers.get("location")
            if reply.status not in _REDIRECTS or location is None:
                return reply
            if method not in _READING:
                raise RyeError("registry_failed", f"expected {self._host} to take it, found a redirect")
            url = self._elsewhere(urljoin(str(url), location), "a redirect")
        raise RyeError("registry_failed", f"expected at most {MAX_REDIRECTS} redirects, found more")

    async def _exchange(
        self,
        method: str,
        url: httpx.URL,
        headers: Mapping[str, str],
        content: bytes | None,
        limit: int,
        authorized: str | None,
    ) -> Reply:
        given = {"User-Agent": "rye-mcp", "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        if authorized is not None:
            given["Authorization"] = authorized
        request = _request(method, url, given, content)
        where = url.netloc.decode("ascii", "replace")
        try:
            with anyio.fail_after(EXCHANGE_LIMIT_S):
                clients = await self._clients.of_this_loop()
                answer = await clients.send(request, checked=False, line=Line())
                try:
                    return await _received(answer, limit, where)
                finally:
                    await answer.close()
        except (httpx.HTTPError, TimeoutError, OSError) as exc:
            named = type(exc).__name__
            raise RyeError(
                "registry_unreachable", f"expected an answer of {where}, found none: {named}"
            ) from exc
        except ConfigurationError as exc:
            raise RyeError("registry_unreachable", exc.message) from exc


def _request(method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes | None) -> httpx.Request:
    extensions: dict[str, object] = {"timeout": _TIMEOUT}
    if url.scheme == "https":
        extensions["trace"] = Handshake()
    origin = httpx.URL(scheme=url.scheme, host=url.host, port=url.port)
    encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
    request = httpx.Request(method, origin, headers=encoded, content=content, extensions=extensions)
    request.url = SentUrl(origin, url.raw_path.decode("ascii"))
    if content is not None:
        request.stream = Content(content)
    return request


async def _received(answer: Answer, limit: int, where: str) -> Reply:
    response = answer.response
    headers = dict(response.headers.items())
    if answer.location is not None:
        headers["location"] = answer.location
    if headers.get("content-encoding", "").strip().lower() not in _PLAIN:
        raise RyeError("invalid_artifact", f"expected bytes as they are from {where}, found packed ones")
    is_error = response.status_code >= httpx.codes.BAD_REQUEST
    room = MAX_ERROR_BYTES if is_error else limit
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) <= room:
            continue
        if is_error:
            break
        what = f"expected at most {limit} bytes from {where}, found more"
        raise RyeError("invalid_artifact", what)
    return Reply(response.status_code, headers, bytes(body[:room]))


def _parsed(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as exc:
        raise RyeError("registry_failed", "expected an address, found something else") from exc
    if found.userinfo or found.scheme not in {"http", "https"} or not found.host:
        raise RyeError("registry_failed", "expected an address over https, found another one")
    return found


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    port = url.port or (443 if url.scheme == "https" else 80)
    return url.scheme, url.host.lower(), port
