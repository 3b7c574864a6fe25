"""An HTTP server inside a test, in its own event loop, that does whatever the test wants: wrong things too.

    async with serve(greet) as server:
        result = await execute({"url": f"{server.url}/hello"})

A handler is called for each request and answers on the connection, byte for byte if it likes. It goes on
reading requests from that connection until the handler or the client has closed it. Every request is kept.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anyio
import trustme
from anyio.abc import ByteStream, Listener, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSListener

HEAD_LIMIT = 1024 * 1024


@dataclass
class Request:
    """What a client has sent; `connection` is the number of its connection, counted from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    raw_head: bytes


@dataclass
class Connection:
    """The other end of a client's connection."""

    stream: ByteStream
    number: int

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def reply(
        self, status: str = "200 OK", body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        lines = {"Content-Length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value != "-")
        await self.send(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)

    async def json(self, body: bytes, status: str = "200 OK") -> None:
        await self.reply(status, body, {"Content-Type": "application/json"})

    async def close(self) -> None:
        await self.stream.aclose()


Handler = Callable[[Connection, Request], Awaitable[None]]


@dataclass
class Server:
    """A running server, and what it has seen."""

    handler: Handler
    scheme: str
    host: str
    port: int
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    all_closed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    async def serve(self, stream: ByteStream) -> None:
        self.connections += 1
        self.open += 1
        self.all_closed = anyio.Event()
        connection = Connection(stream, self.connections)
        gone = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)
        try:
            async with stream:
                with contextlib.suppress(*gone):
                    reader = BufferedByteReceiveStream(stream)
                    while True:
                        request = await read_request(reader, connection.number)
                        self.requests.append(request)
                        await self.handler(connection, request)
        finally:
            self.open -= 1
            if not self.open:
                self.all_closed.set()


async def read_request(reader: BufferedByteReceiveStream, number: int) -> Request:
    head = await reader.receive_until(b"\r\n\r\n", HEAD_LIMIT)
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    length = int(headers.get("content-length", "0"))
    body = await reader.receive_exactly(length) if length else b""
    return Request(method, target, headers, body, number, head)


@contextlib.asynccontextmanager
async def serve(
    handler: Handler, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server for the time of the block."""
    plain = await anyio.create_tcp_listener(local_host=host, local_port=port)
    port = plain.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, not of Django
    listener: Listener[ByteStream] = plain
    if tls is not None:
        listener = TLSListener(plain, tls, standard_compatible=False)
    server = Server(handler, "http" if tls is None else "https", host, port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.serve, group)
        try:
            yield server
        finally:
            group.cancel_scope.cancel()


async def greet(connection: Connection, request: Request) -> None:
    """The handler of a friendly server."""
    await connection.reply(body=b"hello")


async def hang(connection: Connection, request: Request) -> None:
    """The handler of one that never answers, until the client is gone."""
    while True:
        await connection.stream.receive()


async def wait_until(condition: Callable[[], Any]) -> None:
    """Wait for what no event tells of."""
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - it is about sockets
            await anyio.sleep(0.001)


@cache
def authority() -> trustme.CA:
    """A certificate authority that nobody but these tests knows."""
    return trustme.CA()


def server_tls(*names: str) -> ssl.SSLContext:
    """What a server with these names needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*names).configure_cert(context)
    return context


@cache
def client_tls() -> ssl.SSLContext:
    """What a client needs to trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context
