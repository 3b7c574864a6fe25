"""Which user is at the other end of a connection: the kernel says it, and a cookie does not."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final

__all__ = ["Address", "is_of_this_user", "uid_of_peer"]

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
