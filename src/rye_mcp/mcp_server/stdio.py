"""MCP over standard streams: those of a server that a client has started, and a client that starts a server.

While the streams are claimed, descriptor 0 is empty and descriptor 1 is standard error, so that nothing else
can write between two messages. A message that is too long or not UTF-8 is replaced by text that is not JSON,
and answered as such. The event loop watches the streams; no thread waits for them.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import sysconfig
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
from anyio import to_thread

from rye_mcp.errors import RyeError

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Call",
    "Hear",
    "Lines",
    "Wire",
    "claimed",
    "client_of",
    "parent_gone",
    "server_command",
]

MAX_MESSAGE_BYTES: Final = 32 << 20
"""How long one message may be."""

_CHUNK_BYTES: Final = 64 << 10
_TOO_LONG: Final = "a message that is too long"
_NOT_UTF_8: Final = "a message that is not UTF-8"
_ABOVE_STANDARD: Final = 3


class Lines:
    """The lines that come in by a descriptor, as text, after those that were taken from it before."""

    def __init__(self, descriptor: int, taken: bytes = b"") -> None:
        self._descriptor = descriptor
        self._can_be_watched = _can_be_watched(descriptor)
        self._pending = bytearray(taken)
        self._looked_at = 0
        self._is_too_long = False
        self._is_at_end = False

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while True:
            end = self._pending.find(b"\n", self._looked_at)
            if end >= 0:
                return self._taken(end + 1)
            self._looked_at = len(self._pending)
            if self._looked_at > MAX_MESSAGE_BYTES:
                self._is_too_long = True
                self._pending.clear()
                self._looked_at = 0
            if not self._is_at_end:
                chunk = await self.read()
                self._pending += chunk
                self._is_at_end = not chunk
            elif self._pending:
                return self._taken(len(self._pending))
            else:
                raise StopAsyncIteration

    def _taken(self, end: int) -> str:
        line = bytes(self._pending[:end])
        del self._pending[:end]
        self._looked_at = 0
        is_too_long, self._is_too_long = self._is_too_long or len(line) > MAX_MESSAGE_BYTES, False
        return _TOO_LONG if is_too_long else _decoded(line)

    async def read(self) -> bytes:
        """The next bytes as they come, for a reader that takes no lines; none at the end."""
        if not self._can_be_watched:
            return await to_thread.run_sync(os.read, self._descriptor, _CHUNK_BYTES, abandon_on_cancel=True)
        await anyio.wait_readable(self._descriptor)
        return os.read(self._descriptor, _CHUNK_BYTES)


def _decoded(line: bytes) -> str:
    """The text of a line; nothing is replaced in it, so what arrives is what was sent."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return _NOT_UTF_8


class Wire:
    """Bytes that go out by a descriptor, as far as its other end takes them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def take(self, data: memoryview) -> memoryview:
        """Write what is taken without waiting; what is left of it."""
        while data and self._poll.poll(0):
            # So much is taken without waiting by whatever takes anything; the descriptor may be shared with
            # others, and is not made one that never waits.
            data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
        return data

    async def wait(self) -> None:
        """Wait until something more is taken."""
        await anyio.wait_writable(self._descriptor)


@contextmanager
def claimed(taken: bytes = b"") -> Iterator[tuple[Lines, Wire]]:
    """Standard input, from which so much was taken before, and standard output, until the block ends."""
    incoming, outgoing = _moved(0), _moved(1)
    diversions = (_opened_null(os.O_RDONLY), _standard_error())
    for descriptor, diversion in enumerate(diversions):
        os.dup2(diversion, descriptor)
        os.close(diversion)
    printed_to = sys.stdout
    with suppress(OSError, ValueError):
        printed_to.flush()  # what was printed before goes where everything that is printed goes
    sys.stdout = sys.stderr
    try:
        yield Lines(incoming, taken), Wire(outgoing)
    finally:
        sys.stdout = printed_to
        for descriptor, saved in enumerate((incoming, outgoing)):
            os.dup2(saved, descriptor)
            os.close(saved)


async def parent_gone(parent: int) -> None:
    """Return when this process that was the parent has ended; never where the system cannot tell."""
    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        return None
    except OSError:
        return await anyio.sleep_forever()
    try:
        if os.getppid() == parent:
            await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)
    return None


def _moved(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE_STANDARD)


def _opened_null(flags: int) -> int:
    return os.open(os.devnull, flags | os.O_CLOEXEC)


def _standard_error() -> int:
    try:
        return _moved(2)
    except OSError:  # it is closed
        return _opened_null(os.O_WRONLY)


def _can_be_watched(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Hear(Protocol):
    """Is told how far a call is, out of how much, and a message."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take note of it."""


class Call(Protocol):
    """Calls a tool of the server by its name; its answer as data."""

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], hear: Hear | None = None, /
    ) -> dict[str, Any]:
        """Call it, and let somebody hear how far it is."""


def server_command() -> str:
    """The `rye-mcp` that was installed with this package, by its whole path."""
    return str(Path(sysconfig.get_path("scripts"), "rye-mcp"))


@asynccontextmanager
async def client_of(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path
) -> AsyncIterator[Call]:
    """Start a server with exactly this environment, speak to it over its standard streams, and end it."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program, *arguments = command
    parameters = StdioServerParameters(
        command=program, args=arguments, env=dict(environment), cwd=os.fspath(directory)
    )
    async with Client(stdio_client(parameters)) as client:

        async def call(
            name: str, arguments: Mapping[str, Any], hear: Hear | None = None, /
        ) -> dict[str, Any]:
            result = await client.call_tool(name, dict(arguments), progress_callback=hear)
            if result.structured_content is None:
                raise RyeError(
                    "internal", f"expected an answer to {name} with structured content, found none"
                )
            answer: dict[str, Any] = result.structured_content
            return answer

        yield call
