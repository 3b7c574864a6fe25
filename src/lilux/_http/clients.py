"""The connections of an event loop: httpx clients, and places for requests that callers take in fair turns.

Checked requests have a client and connections of their own. Nothing comes from the environment but
`SSL_CERT_FILE` and `SSL_CERT_DIR`; no request learns from another.
"""

from __future__ import annotations

import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx

from lilux import _loops
from lilux._dataclasses import dataclass
from lilux._loops import caller
from lilux.primitives.errors import ConfigurationError

__all__ = ["Answer", "Clients", "Content", "Handshake", "Line", "LoopClients", "SentUrl"]

MAX_CONNECTIONS: Final = 20
"""Of one caller, and of one client of httpx."""

MAX_PLACES: Final = 256
"""Of all callers."""

LIMITS: Final = httpx.Limits(max_keepalive_connections=10, max_connections=MAX_CONNECTIONS)
TIMEOUT: Final = httpx.Timeout(30.0)
"""For what does not bring its own limit. Requests of this package do, for the whole of an attempt."""

CLOSE_LIMIT_S: Final = 2.0
"""How long closing connections may take."""

_LOCATION: Final = "lilux_location"


@dataclass(eq=False, slots=True)
class _Pool:
    """A client of httpx, and how many requests it has under way."""

    client: httpx.AsyncClient
    users: int = 0
    is_retired: bool = False


class Answer:
    """An answer that has begun. It takes a place until it is closed."""

    def __init__(self, response: httpx.Response, clients: LoopClients, pool: _Pool, whose: str) -> None:
        self.response = response
        self.location = response.extensions.get(_LOCATION)
        self._clients = clients
        self._pool = pool
        self._whose = whose

    async def close(self) -> None:
        """Read no further, and make room for another request."""
        try:
            if not self.response.is_closed:
                with anyio.CancelScope(shield=True):
                    await self.response.aclose()
        finally:
            await self._clients.leave(self._pool, self._whose)


@dataclass(eq=False, slots=True)
class Line:
    """Whether a request waits for a place; also once it has given up."""

    is_standing: bool = False

    def __enter__(self) -> None:
        self.is_standing = True

    def __exit__(self, kind: object, *_: object) -> None:
        self.is_standing = kind is not None


class _Places:
    """The callers with a request under way, and those that wait for a place."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._waiting: dict[anyio.Event, str] = {}

    async def acquire(self, whose: str) -> None:
        """Take a place, when there is one for this caller."""
        if not self._waiting and self._has_room(whose):
            self._held[whose] += 1
            return
        place = anyio.Event()
        self._waiting[place] = whose
        self._share_out()
        try:
            await place.wait()
        except BaseException:
            if self._waiting.pop(place, None) is None:
                self.release(whose)
            raise

    def release(self, whose: str) -> None:
        """Give a place back."""
        self._held[whose] -= 1
        if not self._held[whose]:
            del self._held[whose]
        self._share_out()

    def _share_out(self) -> None:
        """Give what is free to those that wait: to the caller that has fewest, and to its first request."""
        while here := [each for each in self._waiting.items() if self._has_room(each[1])]:
            place, whose = min(here, key=lambda each: self._held[each[1]])
            del self._waiting[place]
            self._held[whose] += 1
            place.set()

    def _has_room(self, whose: str) -> bool:
        return self._held[whose] < MAX_CONNECTIONS and self._held.total() < MAX_PLACES


class LoopClients:
    """The clients of one event loop."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._places = _Places()
        self._current: dict[bool, _Pool] = {}
        self._pools: set[_Pool] = set()

    async def send(self, request: httpx.Request, *, checked: bool, line: Line) -> Answer:
        """Ask, and come back when the answer begins; stand in `line` until there is a place."""
        with line:
            await self._places.acquire(whose := caller())
        pool = self._with_room(checked)
        pool.users += 1
        try:
            response = await pool.client.send(request, stream=True, auth=None)
        except BaseException as exc:
            if not isinstance(exc, Exception):
                self._retire(pool)
            await self.leave(pool, whose)
            raise
        return Answer(response, self, pool, whose)

    async def leave(self, pool: _Pool, whose: str) -> None:
        """One request of a pool is done, that of this caller."""
        self._places.release(whose)
        pool.users -= 1
        if pool.is_retired and not pool.users:
            await self._close(pool)

    async def close(self) -> None:
        """Close every connection."""
        self._current.clear()
        for pool in tuple(self._pools):
            await self._close(pool)

    def _with_room(self, checked: bool) -> _Pool:
        pool = self._current.get(checked)
        if pool is not None and pool.users >= MAX_CONNECTIONS:
            self._retire(pool)
            pool = None
        return pool or self._make(checked)

    def _make(self, checked: bool) -> _Pool:
        client = _Client(
            limits=LIMITS,
            timeout=TIMEOUT,
            trust_env=False,
            verify=self._context,
            event_hooks={"response": [_hide_location]},
        )
        pool = self._current[checked] = _Pool(client)
        self._pools.add(pool)
        return pool

    def _retire(self, pool: _Pool) -> None:
        pool.is_retired = True
        for checked, current in tuple(self._current.items()):
            if current is pool:
                del self._current[checked]

    async def _close(self, pool: _Pool) -> None:
        self._pools.discard(pool)
        with anyio.move_on_after(CLOSE_LIMIT_S, shield=True):
            await pool.client.aclose()


class Clients:
    """The clients of one owner, for whichever event loop is running."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._by_loop: dict[Hashable, LoopClients] = {}

    async def of_this_loop(self) -> LoopClients:
        """The clients to use here and now."""
        loop = _loops.running()
        return self._by_loop.get(loop) or await self._begin(loop)

    async def close(self) -> None:
        """Close the connections of this loop."""
        loop = _loops.running()
        clients = self._by_loop.pop(loop, None)
        if clients is not None:
            if loop in _ends:
                _ends[loop].open.discard(clients)
            await clients.close()

    async def _begin(self, loop: Hashable) -> LoopClients:
        context = self._context or await _default_context()
        for over in [key for key, end in tuple(_ends.items()) if end.is_over()]:
            del _ends[over]
        for over in [key for key in tuple(self._by_loop) if key not in _ends]:
            del self._by_loop[over]
        clients = self._by_loop.setdefault(loop, LoopClients(context))
        if loop not in _ends:
            _ends[loop] = _LoopEnd(loop)
        await _ends[loop].will_close(clients)
        return clients


class _LoopEnd:
    """Closed when a loop ends, even if something still refers to it."""

    def __init__(self, loop: Hashable) -> None:
        self.open: set[LoopClients] = set()
        self._key = loop
        self._loop = _loops.bind(loop)
        self._at_end: object = None

    def is_over(self) -> bool:
        return self._loop.is_over()

    async def will_close(self, clients: LoopClients) -> None:
        self.open.add(clients)
        if self._at_end is None:
            with contextlib.suppress(RuntimeError):  # of trio, whose last tasks have ended
                self._at_end = await self._loop.at_end(self._close)

    async def _close(self) -> None:
        _ends.pop(self._key, None)
        for clients in tuple(self.open):
            await clients.close()


_ends: dict[Hashable, _LoopEnd] = {}
"""The loops that have clients. It also keeps those whose owner was forgotten, until they can be closed."""


_contexts: list[ssl.SSLContext] = []


async def _default_context() -> ssl.SSLContext:
    """Trust in the usual authorities, loaded once, and beside the event loop as it takes its time."""
    if not _contexts:
        try:
            _contexts.append(await anyio.to_thread.run_sync(httpx.create_ssl_context))
        except OSError as exc:  # which SSLError is, too
            message = f"expected certificates in SSL_CERT_FILE or SSL_CERT_DIR, found none: {exc}"
            raise ConfigurationError(message) from exc
    return _contexts[0]


class _NoCookies(httpx.Cookies):
    """Keeps nothing."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Let the cookies of an answer go."""


class _Client(httpx.AsyncClient):
    """A client without a memory."""

    _none = _NoCookies()

    @property
    def cookies(self) -> httpx.Cookies:
        """None, ever."""
        return self._none

    @cookies.setter
    def cookies(self, cookies: object) -> None:
        """Keep nothing of what is set."""


class SentUrl(httpx.URL):
    """A URL that shows its origin only, as httpx writes the URL of every request into its log."""

    def __init__(self, origin: httpx.URL, target: str) -> None:
        super().__init__(origin)
        self._target = target.encode("ascii")

    @property
    def raw_path(self) -> bytes:
        """The target of the request, as it is sent."""
        return self._target


class Content(httpx.AsyncByteStream):
    """A body in one piece. Its iterator is no generator: nobody would close that when sending fails."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._content)


class _Once(AsyncIterator[bytes]):
    def __init__(self, piece: bytes) -> None:
        self._pieces = [piece]

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


class Handshake:
    """Follows a request (as its extension `trace`), and closes a connection that comes to no handshake."""

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of what httpcore is doing."""
        match event:
            case "connection.connect_tcp.complete":
                self._stream = info["return_value"]
            case "connection.start_tls.failed" if self._stream is not None:
                with anyio.move_on_after(CLOSE_LIMIT_S, shield=True):
                    await self._stream.aclose()


async def _hide_location(response: httpx.Response) -> None:
    """Keep httpx from making the request that a redirect asks for, and from failing without one."""
    if response.is_redirect and "location" in response.headers:
        response.extensions[_LOCATION] = response.headers.pop("location")
