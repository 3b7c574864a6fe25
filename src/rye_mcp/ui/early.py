"""The entrance of the page, for a browser that comes while the server is still imported.

A thread looks at each connection once. It answers a plain `GET /` as the server does, and leaves everything
else unread. Afterwards, all connections are the server's.
"""

from __future__ import annotations

import re
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Final, Self

from rye_mcp.known_names import KnownNames
from rye_mcp.ui.documents import HEADERS, document_of
from rye_mcp.ui.markup import tag
from rye_mcp.ui.peers import is_of_this_user

__all__ = ["EarlyEntrance", "entrance", "is_plain", "names_of"]

_MAX_HEAD_BYTES: Final = 8 << 10
_SEND_LIMIT_S: Final = 1.0
"""How long a browser may take to read the entrance: the server waits for it."""

_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e]*)")
_SPECIAL: Final = frozenset({"content-length", "transfer-encoding", "expect", "upgrade"})
"""The fields of a request with a body, or of one that asks for more than an answer."""


def names_of(host: str, port: int) -> KnownNames:
    """The hosts and origins of the page, here and at the other end of a tunnel; the port is part of each."""
    hosts = (f"{host}:{port}", f"127.0.0.1:{port}", f"localhost:{port}")
    return KnownNames.of(hosts, (), (f"http://{name}" for name in hosts))


def entrance() -> tuple[dict[str, str], bytes]:
    """What a browser gets that has no session yet: the headers and the document."""
    used = "This page was opened in another browser already. For this one: rye ui"
    failed = "Open the address again that rye ui has printed, or start it again: rye ui"
    main = tag(
        "main",
        tag("h1", "rye"),
        tag("p", "Opening …", id="opening", role="status", data_used=used, data_failed=failed),
        tag("noscript", tag("p", "This page needs its own small script to open.")),
        class_="entrance",
    )
    body = document_of("rye", main).encode()
    return {"content-length": str(len(body)), "content-type": "text/html; charset=utf-8"}, body


def is_plain(head: bytes, names: KnownNames) -> bool:
    """Whether this is one whole request for the entrance, by a name of the page, and nothing else."""
    first, *lines = head.decode("latin-1").split("\r\n")
    found = [_FIELD.fullmatch(line) for line in lines[:-2]]
    fields = [(each[1].lower(), each[2].strip(" \t")) for each in found if each is not None]
    if first != "GET / HTTP/1.1" or lines[-2:] != ["", ""] or len(fields) != len(found):
        return False
    if any(name in _SPECIAL or (name == "connection" and value != "keep-alive") for name, value in fields):
        return False
    hosts, origins = ([value for name, value in fields if name == wanted] for wanted in ("host", "origin"))
    return names.unknown_in(hosts, origins) is None


def _answer() -> bytes:
    headers, body = entrance()
    lines = [f"{name}: {value}" for name, value in (headers | HEADERS).items()]
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode() + body


class EarlyEntrance:
    """Answers those who come to `listening` by one of `names`, from `with` on until `leave`."""

    def __init__(self, listening: socket.socket, names: KnownNames) -> None:
        self.listening = listening
        self.names = names
        self._taken: list[socket.socket] = []
        self._ending, self._end = socket.socketpair()
        self._thread = Thread(target=self._answer_all, daemon=True)

    def __enter__(self) -> Self:
        self.listening.setblocking(False)
        self._thread.start()
        return self

    def leave(self) -> list[socket.socket]:
        """Take no more connections; those that are open are the caller's."""
        self._end.close()
        self._thread.join()
        taken, self._taken = self._taken, []
        return taken

    def __exit__(self, *_: object) -> None:
        for each in (*self.leave(), self._ending):
            each.close()

    def _answer_all(self) -> None:
        answer = _answer()
        with selectors.DefaultSelector() as ready:
            ready.register(self._ending, selectors.EVENT_READ)
            ready.register(self.listening, selectors.EVENT_READ)
            while self._ending not in (found := [key.fileobj for key, _ in ready.select()]):
                if self.listening in found:
                    ready.unregister(self.listening)
                    for each in self._take():
                        ready.register(each, selectors.EVENT_READ)
                        ready.register(self.listening, selectors.EVENT_READ)
                for each in tuple(self._taken):
                    if each in found:
                        ready.unregister(each)
                        self._look_at(each, answer)

    def _take(self) -> Iterator[socket.socket]:
        """The next connection, if it is of this user; otherwise the server has to see to all that follow."""
        with suppress(OSError):
            connection, peer = self.listening.accept()
            if is_of_this_user(peer, connection.getsockname()):
                connection.setblocking(False)
                self._taken.append(connection)
                yield connection
            else:
                connection.close()

    def _look_at(self, connection: socket.socket, answer: bytes) -> None:
        """Answer a plain request, and no other one."""
        try:
            head = connection.recv(_MAX_HEAD_BYTES, socket.MSG_PEEK)
            if is_plain(head, self.names):
                connection.recv(len(head))
                connection.settimeout(_SEND_LIMIT_S)
                connection.sendall(answer)
                connection.setblocking(False)
        except OSError:  # the browser has gone, or reads nothing
            self._taken.remove(connection)
            connection.close()
