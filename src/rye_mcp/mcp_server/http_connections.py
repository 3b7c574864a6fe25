"""The socket of the server over HTTP, its connections, and how it ends.

A connection is closed if its head comes too slowly, if its client reads nothing for `READ_LIMIT_S`, or to
make room: a stranger (no request of it was let through) where there are many of them, else the connection
that has been silent for longest without a request under way. All of loopback is one client. SIGTERM and
SIGINT drain.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.http_gate import MAX_HEAD_BYTES, STANDING_KEY, Standing, one_client
from rye_mcp.mcp_server.http_requests import Traffic
from rye_mcp.mcp_server.options import Address

__all__ = ["HEAD_LIMIT_S", "MAX_CONNECTIONS", "READ_LIMIT_S", "connection_limit", "listen", "serve"]

MAX_CONNECTIONS: Final = 512
"""How many connections there may be at once; never more than half of what this process may open."""

MAX_STRANGERS: Final = 64
"""How many connections one client may have that no request was let through of.

As many of all clients are left alone where there are too many connections, or an eighth of all if that is
less: a newcomer needs time for its head.
"""

STRANGER_GRACE_S: Final = 1.0
"""How long a stranger is not closed for the next one of its client: many clients may come at once."""

HEAD_LIMIT_S: Final = 10.0
"""How long a client may take to send the head of a request."""

READ_LIMIT_S: Final = 20.0
"""How long a client may read nothing of what waits for it."""

CANCEL_LIMIT_S: Final = 5.0
"""How long cancelled calls may take to end when the server does: longer than the supervisor ever needs."""

_IDLE_S: Final = 30
"""How long a connection is kept for a next request."""

_SILENT_MS: Final = 60_000
"""How long what was sent may stay unread."""

_KEEP_ALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
_CLOSE_LIMIT_S: Final = 3


def listen(address: Address, *, is_open: bool) -> socket.socket:
    """A socket that listens; RyeError when it cannot, or when it `is_open` where others can reach it."""
    shown = f"{address.host}:{address.port}"
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as exc:
        raise RyeError(
            "cannot_listen", f"expected an address of this machine, found: {exc}", where=shown
        ) from exc
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _notice_the_vanished(made)
        made.bind(place)
        if is_open and not is_loopback(made):
            what = f"expected a loopback address with --no-auth, found {made.getsockname()[0]}"
            raise RyeError(
                "cannot_listen", what, where=shown, hint="leave --no-auth out, or listen on 127.0.0.1"
            )
        made.listen(socket.SOMAXCONN)
    except OSError as exc:
        made.close()
        raise RyeError("cannot_listen", f"the system said: {exc.strerror}", where=shown) from exc
    except BaseException:
        made.close()
        raise
    return made


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can reach it: what it is bound to counts, not what it was called."""
    from ipaddress import ip_address

    return ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def _notice_the_vanished(listening: socket.socket) -> None:
    """Connections inherit these."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        listening.setsockopt(socket.IPPROTO_TCP, option, value)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)


async def serve(
    application: Any,
    listening: socket.socket,
    traffic: Traffic,
    *,
    drain_s: float,
) -> None:
    """Serve until a signal comes, then drain."""
    config = uvicorn.Config(
        application,
        http=_Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_CLOSE_LIMIT_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    server = _Server(config)
    async with anyio.create_task_group() as group:
        group.start_soon(_drain_on_signal, server, traffic, drain_s)
        await server.serve(sockets=[listening])
        group.cancel_scope.cancel()


async def _drain_on_signal(server: uvicorn.Server, traffic: Traffic, drain_s: float) -> None:
    async with anyio.create_task_group() as group:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            await anext(signals)
            group.start_soon(_drain, server, traffic, drain_s)
            await anext(signals)
            group.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        await _drain(server, traffic, 0)


async def _drain(server: uvicorn.Server, traffic: Traffic, drain_s: float) -> None:
    await traffic.drain(drain_s, CANCEL_LIMIT_S)
    server.should_exit = True


class _Server(uvicorn.Server):
    """uvicorn's server without its signals: it would not wait for what runs."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class _Connection(H11Protocol):
    """One connection, whose client has to say what it wants in time."""

    is_dropped = False
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, and close one that is too many."""
        self.standing, self.began = Standing(), self.loop.time()
        self.heard_at = self.began
        self.app_state = {**self.app_state, STANDING_KEY: self.standing}
        super().connection_made(transport)
        self._make_room()
        if not transport.is_closing():
            self._wait_for_head()

    def _make_room(self) -> None:
        """Close a connection where there are too many, or where this client has too many strangers."""
        others = [
            each
            for each in self.connections
            if isinstance(each, _Connection) and each is not self and not each.is_dropped
        ]
        strangers = _strangers_in(others)
        ours = strangers.get(one_client(self.client), [])
        if len(others) >= connection_limit():
            (_to_close(others, strangers) or self).drop()
        elif len(ours) >= MAX_STRANGERS and self.began - _oldest(ours).began > STRANGER_GRACE_S:
            _oldest(ours).drop()

    def drop(self) -> None:
        """Close it, and do not wait for its client to read what is left."""
        self.is_dropped = True
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on; a client in the middle of a head has only so much time for it."""
        self.heard_at = self.loop.time()
        if self._head_timer is None and not self._is_asked():
            self._wait_for_head()
        super().data_received(data)
        if self._is_asked():
            self._stop_waiting()

    def handle_events(self) -> None:
        """Go on reading where a request is followed by more: its client may go before it is answered."""
        super().handle_events()
        ahead, _ = self.conn.trailing_data
        if not self._is_asked() or self.cycle.more_body:
            return
        if len(ahead) > MAX_HEAD_BYTES:
            self.drop()
        elif not self.transport.is_closing():
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_waiting()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def _is_asked(self) -> bool:
        """Whether a whole head is here, and not answered yet."""
        cycle = getattr(self, "cycle", None)  # which is None before the first one
        return cycle is not None and not cycle.response_complete

    def is_idle(self) -> bool:
        """Whether no whole request is under way here, or only one that was told to end."""
        return not self._is_asked() or self.cycle.more_body or self.standing.is_leaving

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_LIMIT_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _wait_for_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(READ_LIMIT_S, self._give_up_reader, left)

    def _stop_waiting_for_reader(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _give_up_reader(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:
            self._wait_for_reader()
        else:
            self.drop()

    def _give_up(self) -> None:
        self._head_timer = None
        if not self._is_asked():
            self.drop()


def _strangers_in(connections: Iterable[_Connection]) -> dict[str, list[_Connection]]:
    """The connections that no request was let through of, by client."""
    strangers: dict[str, list[_Connection]] = {}
    for each in connections:
        if not each.standing.is_known:
            strangers.setdefault(one_client(each.client), []).append(each)
    return strangers


def _to_close(
    connections: Sequence[_Connection], strangers: Mapping[str, list[_Connection]]
) -> _Connection | None:
    """The one that makes room for another; None where a request is under way on each.

    Few strangers stay: one of them may be a client whose first head is on its way. A connection that closes,
    but whose client has not read everything yet, counts as idle.
    """
    crowd = _largest_crowd(strangers)
    if sum(map(len, strangers.values())) > min(MAX_STRANGERS, connection_limit() // 8):
        return _oldest(crowd)
    idle = [each for each in connections if each.standing.is_known and each.is_idle()]
    if idle:
        return min(idle, key=lambda each: each.heard_at)
    return _oldest(crowd) if crowd else None


def _largest_crowd(strangers: Mapping[str, list[_Connection]]) -> list[_Connection]:
    """The connections of the client that has most of them, or of all that have as many."""
    most = max(map(len, strangers.values()), default=0)
    return [each for crowd in strangers.values() if len(crowd) == most for each in crowd]


def _oldest(connections: Sequence[_Connection]) -> _Connection:
    return min(connections, key=lambda each: each.began)


def connection_limit() -> int:
    """How many connections there may be in this process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if limit == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, limit // 2)
