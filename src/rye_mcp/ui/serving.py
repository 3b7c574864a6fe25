"""The connections of the page, and how it ends.

It closes every connection of another user before a byte of it is read. All that
is left are programs of this user, so there are no limits for slow ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["is_of_this_user", "serve", "uid_of_peer"]

_MAX_REQUESTS: Final = 256
_MAX_HEAD_BYTES: Final = 32 << 10
_IDLE_S: Final = 30
_CLOSE_LIMIT_S: Final = 1

_log = logging.getLogger(__name__)


async def serve(application: Any, listening: socket.socket) -> None:
    """Serve until Ctrl-C."""
    config = uvicorn.Config(
        application,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_REQUESTS,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_CLOSE_LIMIT_S,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
    )
    await uvicorn.Server(config).serve(sockets=[listening])


class _Connection(H11Protocol):
    """One connection, of this user."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, unless another user is at its other end."""
        super().connection_made(transport)
        if not is_of_this_user(transport.get_extra_info("peername"), transport.get_extra_info("sockname")):
            _log.warning("closed a connection of another user")
            transport.abort()


_TABLE: Final = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _UID = 1, 2, 7
"""The columns of the table."""

Address = tuple[str, int]


def uid_of_peer(peer: Address, ours: Address) -> int | None:
    """The user whose process is at the other end; None if the kernel does not say."""
    wanted = (_in_table(peer), _in_table(ours))
    try:
        rows = _TABLE.read_text("ascii").splitlines()[1:]
    except OSError:
        return None
    for row in rows:
        columns = row.split()
        if (columns[_LOCAL], columns[_REMOTE]) == wanted:
            return int(columns[_UID])
    return None


def is_of_this_user(peer: Address | None, ours: Address | None) -> bool:
    """Whether a process of this user is at the other end."""
    return peer is not None and ours is not None and uid_of_peer(peer, ours) == os.getuid()


def _in_table(address: Address) -> str:
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"
