"""The connections of the page, and how it ends.

It closes every connection of another user before a byte of it is read. All that
is left are programs of this user, so there are no limits for slow ones.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from rye_mcp.ui.peers import is_of_this_user

__all__ = ["serve"]

_MAX_REQUESTS: Final = 256
_MAX_HEAD_BYTES: Final = 32 << 10
_IDLE_S: Final = 30
_CLOSE_LIMIT_S: Final = 1

_log = logging.getLogger(__name__)


async def serve(application: Any, listening: socket.socket, early: Iterable[socket.socket] = ()) -> None:
    """Serve until Ctrl-C: the connections that came `early`, and all that come."""
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
    server = uvicorn.Server(config)
    connection = partial(_Connection, config=config, server_state=server.server_state, app_state={})
    for each in early:
        await asyncio.get_running_loop().connect_accepted_socket(connection, each)
    await server.serve(sockets=[listening])


class _Connection(H11Protocol):
    """One connection, of this user."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, unless another user is at its other end."""
        super().connection_made(transport)
        if not is_of_this_user(transport.get_extra_info("peername"), transport.get_extra_info("sockname")):
            _log.warning("closed a connection of another user")
            transport.abort()
