"""Carries out one attempt at a request: every hop of it, and its response as far as it was received.

`run` raises whatever ends the attempt early. A checked hop connects to the addresses that were checked, and
still uses the name of the host in its header and in TLS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx

from lilux._http.address import AddressGuard, is_address
from lilux._http.body import Body, TooLargeError, Unpacker, decode_body, media_type
from lilux._http.clients import Answer, Content, Handshake, Line, LoopClients, SentUrl
from lilux._http.events import EventParser, Fanout
from lilux._http.failures import Failure, NoPlaceError
from lilux._http.redirect import MAX_REDIRECTS, Hop, RedirectRefusedError, first_hop, next_hop
from lilux._http.spec import HttpSpec

__all__ = ["Exchange", "is_success"]

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
