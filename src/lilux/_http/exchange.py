"""Carries out one attempt at a request: every hop of it, and its response as far as it was received.

`run` raises whatever ends the attempt early. A checked hop connects to the addresses that were checked, and
still uses the name of the host in its header and in TLS.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx
from anyio import BrokenResourceError, ClosedResourceError

from lilux._dataclasses import dataclass
from lilux._http.address import AddressGuard, HostRefusedError, is_address
from lilux._http.body import Body, BrokenBodyError, TooLargeError, Unpacker, decode_body, media_type
from lilux._http.clients import Answer, Content, Handshake, Line, LoopClients, SentUrl
from lilux._http.events import EventParser, Fanout, SinksFailedError
from lilux._http.spec import Headers, HttpSpec
from lilux._http.url import Url
from lilux.primitives.errors import ConfigurationError

__all__ = [
    "ERROR_CODES",
    "FAILURES",
    "MAX_REDIRECTS",
    "Exchange",
    "Failure",
    "Hop",
    "NoPlaceError",
    "RedirectRefusedError",
    "failure_of",
    "first_hop",
    "is_success",
    "next_hop",
    "redact",
]

# --- redirects ---
# Nothing configured goes to another origin; a body that would have to go there refuses the redirect. A host
# that a response names is checked like one that a parameter names.

MAX_REDIRECTS: Final = 20

_REPEATED: Final = frozenset([307, 308])
_REDIRECTS: Final = frozenset([301, 302, 303, *_REPEATED])


class RedirectRefusedError(Exception):
    """A redirect that is not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One request of an exchange. `checked` says that its host must have public addresses only."""

    method: str
    url: Url
    headers: Headers = field(repr=False)
    body: bytes | None = field(repr=False)
    checked: bool


def first_hop(spec: HttpSpec) -> Hop:
    """Return the hop of the original request."""
    return Hop(
        method=spec.method,
        url=spec.url,
        headers=spec.headers,
        body=spec.body,
        checked=spec.host_from_parameter and not spec.allow_private_hosts,
    )


def next_hop(spec: HttpSpec, hop: Hop, status: int, location: str | None) -> Hop | None:
    """Return the hop that an answer asks for; None when it is no redirect, or redirects are not followed."""
    if not spec.follow_redirects or status not in _REDIRECTS or location is None:
        return None
    try:
        url = hop.url.join(location)
    except ConfigurationError as exc:
        raise RedirectRefusedError("it leads to no address of http or https") from exc
    method = _method(hop.method, status)
    headers, body = _carried(spec, hop, url, method)
    checked = not spec.allow_private_hosts and (hop.checked or url.host != hop.url.host)
    return Hop(method=method, url=url, headers=headers, body=body, checked=checked)


def _carried(spec: HttpSpec, hop: Hop, url: Url, method: str) -> tuple[Headers, bytes | None]:
    """The headers and the body that travel along."""
    same_origin = url.has_origin_of(hop.url)
    headers = hop.headers if same_origin else spec.bare_headers
    if method != hop.method:
        return _without_content(headers), None
    if hop.body is not None and not same_origin:
        raise RedirectRefusedError("it would carry the body to another origin")
    return headers, hop.body


def _method(method: str, status: int) -> str:
    if method == "HEAD" or status in _REPEATED:
        return method
    return method if status == 301 and method != "POST" else "GET"


def _without_content(headers: Headers) -> Headers:
    return tuple(header for header in headers if not header[0].lower().startswith("content-"))


# --- one attempt ---

LONG_BYTES: Final = 64 * 1024
"""From how many bytes on a body is read in a thread: how long that takes is up to the server."""

CONNECT_SHARE_S: Final = 5.0
"""How long one address may take to connect while others are left to try."""

EVENT_TYPES: Final = frozenset(["", "text/event-stream", "text/plain"])
"""Media types of a stream of events."""


class Exchange:
    """One attempt, and what it has brought so far: `status` 0 is no answer at all."""

    def __init__(
        self, spec: HttpSpec, clients: LoopClients, guard: AddressGuard, fanout: Fanout | None
    ) -> None:
        self.place = spec.url.netloc
        self.url: str | None = None
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.body: Body | None = None
        self.notices: list[str] = []
        self.failure: Failure | None = None
        self._spec = spec
        self._clients = clients
        self._guard = guard
        self._fanout = fanout
        self._line = Line()
        self._stopped: BaseException | None = None
        self._scope: anyio.CancelScope

    async def run(self) -> None:
        """Ask, follow redirects, and read the answer, all within the time that there is."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._spec.timeout) as self._scope:
            await self._run()
        if self._stopped is not None:
            raise self._stopped
        if self._scope.cancelled_caught:
            raise NoPlaceError if self._line.is_standing else TimeoutError

    async def _run(self) -> None:
        hop = first_hop(self._spec)
        for _ in range(MAX_REDIRECTS + 1):
            self.place = hop.url.netloc
            answer = await self._open(hop)
            try:
                following = next_hop(self._spec, hop, answer.response.status_code, answer.location)
                if following is None:
                    self.url = f"{hop.url.origin.scheme}://{hop.url.netloc}{hop.url.target}"
                    await self._receive(answer)
                    return
            finally:
                await answer.close()
            hop = following
        raise RedirectRefusedError(f"there are more than {MAX_REDIRECTS} of them")

    # --- asking -----------------------------------------------------------------

    async def _open(self, hop: Hop) -> Answer:
        if not hop.checked:
            return await self._clients.send(_request(hop), checked=False, line=self._line)
        *others, last = await self._guard.addresses(hop.url.host, hop.url.port)
        for address in others:
            try:
                request = _request(hop, address, CONNECT_SHARE_S)
                return await self._clients.send(request, checked=True, line=self._line)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._clients.send(_request(hop, last), checked=True, line=self._line)

    # --- reading ----------------------------------------------------------------

    async def _receive(self, answer: Answer) -> None:
        response = answer.response
        self.status = response.status_code
        self.reason = response.reason_phrase or httpx.codes.get_reason_phrase(self.status)
        self.headers = dict(response.headers.items())
        if answer.location is not None:
            self.headers["location"] = answer.location
        coding = self.headers.get("content-encoding", "").strip().lower()
        unpacker = Unpacker(coding, self._spec.max_response_bytes)
        content_type = self.headers.get("content-type", "")
        if self._fanout is not None and is_success(self.status):
            kind, _ = media_type(content_type)
            if kind in EVENT_TYPES:
                await self._receive_events(response, unpacker, self._fanout)
                return
            self.notices.append(f"expected text/event-stream, found {kind:.60}: it was read as a body")
        content = await self._receive_body(response, unpacker)
        decode = partial(decode_body, content, content_type, coding)
        self.body = decode() if len(content) < LONG_BYTES else await anyio.to_thread.run_sync(decode)

    async def _receive_body(self, response: httpx.Response, unpacker: Unpacker) -> bytearray:
        announced = self.headers.get("content-length", "")
        longer = announced.isdecimal() and int(announced[:20]) > self._spec.max_response_bytes
        if longer and self._spec.method != "HEAD":
            raise TooLargeError
        content = bytearray()

        async def take(chunk: bytes) -> None:
            for piece in unpacker.feed(chunk):
                content.extend(piece)

        await self._read(response, take)
        unpacker.finish()
        return content

    async def _read(self, response: httpx.Response, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Hand on every chunk as it came from the wire; when that fails, read no further."""
        async for chunk in response.aiter_raw():
            if self._stopped is None:
                try:
                    await take(chunk)
                except BaseException as exc:  # noqa: BLE001 - `run` raises it, when the read has ended
                    timed_out = self._scope.cancel_called
                    self._stopped = TimeoutError() if timed_out else exc
                    self._scope.cancel()
        if self._stopped is not None:  # and the rest was there already
            raise self._stopped

    async def _receive_events(self, response: httpx.Response, unpacker: Unpacker, fanout: Fanout) -> None:
        parser = EventParser()

        async def take(chunk: bytes) -> None:
            for piece in unpacker.feed(chunk):
                for event in parser.feed(piece):
                    await fanout.write(event)

        await self._read(response, take)
        unpacker.finish()
        if parser.is_unfinished:
            self.notices.append("the stream ended in the middle of an event, which was left out")


def is_success(status: int) -> bool:
    """True from 200 up to 400."""
    return 200 <= status < 400


def _request(hop: Hop, address: str | None = None, connect_limit_s: float | None = None) -> httpx.Request:
    """A request for httpx. With an address it goes there, and still names the host that was asked for."""
    origin, headers = hop.url.origin, hop.headers
    extensions: dict[str, Any] = {"timeout": {"connect": connect_limit_s}}
    if origin.scheme == "https":
        extensions["trace"] = Handshake()
    if address is not None:
        origin = origin.copy_with(host=address)
        headers = (("Host", hop.url.netloc), *headers, ("Connection", "close"))
        name = hop.url.host.rstrip(".")
        if not is_address(name):
            extensions["sni_hostname"] = name
    encoded = [(name.encode("ascii"), value.encode()) for name, value in headers]
    request = httpx.Request(hop.method, origin, headers=encoded, content=hop.body, extensions=extensions)
    request.url = SentUrl(origin, hop.url.target)
    if hop.body is not None:
        request.stream = Content(hop.body)
    return request


# --- failures ---
# All ways in which an exchange can end, as one table of codes: foreign errors become values here.
#
# A message never has a secret of the request, even if the server sent it back. Of an error's words only ours
# and those of the system are told: a library quotes what it was sending, or was sent.


class NoPlaceError(TimeoutError):
    """The time was up before the request could begin."""


MAX_MESSAGE_CHARACTERS: Final = 300

_TIMEOUT_WORDS: Final = "no complete answer within {timeout:g} seconds"
_HOST_WORDS: Final = "{place} is not public ({detail}); allow_private_hosts would let it pass"
_CONNECT_WORDS: Final = "cannot connect to {place}: {detail}"

_PLACE_WORDS: Final = (
    "the request to {place} waited for {timeout:g} seconds for a place: too many others are under way"
)

_TABLE: Final[tuple[tuple[tuple[type[Exception], ...], str, bool, str], ...]] = (
    ((NoPlaceError,), "timeout", True, _PLACE_WORDS),
    ((TimeoutError, httpx.TimeoutException), "timeout", True, _TIMEOUT_WORDS),
    ((HostRefusedError,), "host_refused", False, _HOST_WORDS),
    ((RedirectRefusedError,), "redirect_refused", False, "the redirect is not followed: {detail}"),
    ((TooLargeError,), "response_too_large", False, "the answer is longer than {limit} bytes"),
    ((SinksFailedError,), "sinks_failed", False, "every sink has failed"),
    ((BrokenBodyError,), "broken_body", True, "{detail}"),
    ((httpx.ConnectError, UnicodeError), "connect_failed", True, _CONNECT_WORDS),
    ((httpx.LocalProtocolError,), "request_failed", True, "the request is no HTTP"),
    ((httpx.RemoteProtocolError,), "protocol_error", True, "the answer is no whole HTTP: {detail}"),
    ((httpx.NetworkError,), "connection_lost", True, "the connection broke: {detail}"),
    ((httpx.RequestError,), "request_failed", True, "the request failed: {detail}"),
    ((OSError,), "connect_failed", True, _CONNECT_WORDS),
    ((BrokenResourceError, ClosedResourceError), "connection_lost", True, "the connection broke: {detail}"),
)
"""Errors, in the order of looking; the code, whether to try again, and the message."""

FAILURES: Final = tuple(kind for kinds, *_ in _TABLE for kind in kinds)
"""Every error that is a result."""

ERROR_CODES: Final = frozenset({"http_status", *(code for _, code, *_ in _TABLE)})
"""Every code that a result can have."""

_OUR_WORDS: Final = (HostRefusedError, RedirectRefusedError, BrokenBodyError)
_SOURCE_LINE: Final = re.compile(r" \(_ssl\.c:\d+\)")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer, or no whole one."""

    code: str
    message: str
    is_retried: bool


def failure_of(exc: BaseException, spec: HttpSpec, place: str) -> Failure:
    """Turn an error of FAILURES into a failure; `place` is the host that was asked last."""
    _, code, is_retried, words = next(row for row in _TABLE if isinstance(exc, row[0]))
    facts = {"timeout": spec.timeout, "limit": spec.max_response_bytes}
    told = {"detail": _detail(exc), "place": place}
    message = words.format(**facts, **{name: redact(text, spec.secrets) for name, text in told.items()})
    return Failure(code, message, is_retried)


def redact(text: str, secrets: Iterable[str]) -> str:
    """The same text without any of the secrets, and not too long."""
    for secret in sorted({*secrets} - {""}, key=len, reverse=True):  # one may be a part of another
        text = text.replace(secret, "***")
    return text[:MAX_MESSAGE_CHARACTERS]


def _detail(exc: BaseException) -> str:
    """Our own words, or those of the system for the error that all others were made from."""
    *above, root = _causes(exc)
    root = next((each for each in above if isinstance(each, _OUR_WORDS)), root)
    if isinstance(root, OSError) and root.errno and not isinstance(root, ssl.SSLError | socket.gaierror):
        return os.strerror(root.errno)
    words = str(root) if isinstance(root, _OUR_WORDS) else getattr(root, "strerror", None) or ""
    return _SOURCE_LINE.sub("", words) or type(root).__name__


def _causes(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = exc
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
            continue
        yield cause
        cause = cause.__cause__ or cause.__context__
