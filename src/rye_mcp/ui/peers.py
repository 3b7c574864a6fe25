"""Which user is at the other end of a connection: the kernel says it, and a cookie does not.

The kernel is asked about the one connection (sock_diag). Its table of all of them, which takes milliseconds,
is read only where there was no answer. An end that no process holds belongs to nobody.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from struct import Struct, error
from typing import Final

__all__ = ["Address", "answered_uid", "is_of_this_user", "listed_uid", "uid_of_peer"]

Address = tuple[str, int]

_TABLE: Final = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
"""The columns of the table."""

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_IS_REQUEST: Final = 1
_EVERY_STATE: Final = 0xFFFFFFFF
_ANY_COOKIE: Final = b"\0\0\0\0" + b"\xff" * 8
_ANSWER_LIMIT_S: Final = 1.0
_MAX_ANSWER_BYTES: Final = 8192

_HEADER: Final = Struct("=IHHII")
_QUESTION: Final = Struct("=BBBBI36s12s")
_ANSWER: Final = Struct("=4x36s12x12xII")
_PORTS: Final = Struct("!HH")


def is_of_this_user(peer: Address | None, ours: Address | None) -> bool:
    """Whether a process of this user is at the other end."""
    return peer is not None and ours is not None and uid_of_peer(peer, ours) == os.getuid()


def uid_of_peer(peer: Address, ours: Address) -> int | None:
    """The user whose process is at the other end; None if the kernel does not say."""
    try:
        found = answered_uid(peer, ours)
    except (OSError, error):  # a kernel that answers no such questions
        found = None
    return listed_uid(peer, ours) if found is None else found


def answered_uid(peer: Address, ours: Address) -> int | None:
    """The same, by what the kernel answers about this connection; None without an answer."""
    ends = _PORTS.pack(peer[1], ours[1]) + _long(peer) + _long(ours)
    question = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _EVERY_STATE, ends, _ANY_COOKIE)
    header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _IS_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asking:
        asking.settimeout(_ANSWER_LIMIT_S)
        asking.send(header + question)
        answer = asking.recv(_MAX_ANSWER_BYTES)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    about, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    # A socket that listens at the address of the peer is another one than the peer's.
    return int(uid) if about == ends and inode else None


def listed_uid(peer: Address, ours: Address) -> int | None:
    """The same, by the table of all connections."""
    wanted = (_in_table(peer), _in_table(ours))
    try:
        rows = _TABLE.read_text("ascii").splitlines()[1:]
    except OSError:
        return None
    for row in rows:
        columns = row.split()
        if (columns[_LOCAL], columns[_REMOTE]) == wanted:
            return int(columns[_UID]) if int(columns[_INODE]) else None
    return None


def _long(address: Address) -> bytes:
    return socket.inet_aton(address[0]).ljust(16, b"\0")


def _in_table(address: Address) -> str:
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"
