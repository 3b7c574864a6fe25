"""An HTTP server on loopback that costs as little as it can, in a process of its own.

    python loopback.py

It prints its port, answers every request with the bytes that its path names, and ends with its input:
`/json` is 1 KB of JSON, `/large` 100 KB of it, whatever follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

__all__ = ["loopback"]

BODIES = {
    b"/json": json.dumps({"ok": True, "text": "x" * 900}).encode(),
    b"/large": json.dumps(
        {"ok": True, "items": [f"item number {number}" for number in range(4500)]}
    ).encode(),
}


@contextlib.contextmanager
def loopback() -> Iterator[str]:
    """The address of a server for the time of the block."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        assert server.stdin is not None
        server.stdin.close()


class _Protocol(asyncio.Protocol):
    """Requests have a Content-Length or no body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length: ")
        size = int(length.partition(b"\r\n")[0] or 0)
        if end and len(rest) >= size:
            self._received = rest[size:]
            path = head.split(b" ", 2)[1]
            self._transport.write(next(answer for name, answer in ANSWERS.items() if path.startswith(name)))


ANSWERS = {
    path: b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    + body
    for path, body in BODIES.items()
}


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Protocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
