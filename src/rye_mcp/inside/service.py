"""Serves the calls of one program, from its start to its end: a socket, and the channels opened through it.

A call is carried out by a `Desk`; the answers of a channel go out one after the other, in the order in which
calls end. A channel whose program does not read is not read from either, until it does. When the program
has ended, every call that is still under way is cancelled, and its whole tree has ended before that returns.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from rye_mcp.apart import apart, apart_if_large
from rye_mcp.errors import RyeError
from rye_mcp.executor.tree import ProgramInterrupted
from rye_mcp.inside.messages import MAX_LINE_BYTES, Request, answer_line, failure_line, read_request

__all__ = ["Answer", "serving"]

Answer = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Carries out a request; RyeError when it is refused."""

MAX_CHANNELS: Final = 128
"""How many channels one program may have open: one for each call that may be unfinished."""

_LONG_LINE_BYTES: Final = 16 << 10
"""A line longer than this is read apart from the event loop: its program chooses how long that takes."""

_READ_SIZE: Final = 64 * 1024
_MAX_PASSED: Final = 4
_MAX_UNSENT_BYTES: Final = 1 << 20
"""If a channel has this many unread bytes of answers, nothing more is read from it."""


@asynccontextmanager
async def serving(answer: Answer, took: Callable[[int], None]) -> AsyncIterator[int]:
    """A descriptor for a program; whatever asks through it is answered until the block ends.

    `took` is told how long each answer is, and may refuse it with a RyeError.
    """
    ours, theirs = socket.socketpair()
    failed: Exception | None = None
    service = _Service(answer, took)
    try:
        async with anyio.create_task_group() as tasks:
            service.open(ours, tasks)
            try:
                yield theirs.fileno()
            except Exception as exc:  # noqa: BLE001 - it is passed on as it is, and not as a group of one
                failed = exc
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failed = _interruption(group)
        if failed is None:
            raise
    finally:
        theirs.close()
        service.close()
    if failed is not None:
        raise failed


def _interruption(group: BaseExceptionGroup[BaseException]) -> Exception | None:
    """Return the error that first interrupted a program, if there is no other one."""
    interruptions, rest = group.split(ProgramInterrupted)
    found: BaseException | None = None if rest is not None else interruptions
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found if isinstance(found, ProgramInterrupted) else None


class _Service:
    def __init__(self, answer: Answer, took: Callable[[int], None]) -> None:
        self._answer = answer
        self._took = took
        self._channels: list[_Channel] = []

    def open(self, sock: socket.socket, tasks: TaskGroup) -> bool:
        """Serve a socket; False when there are too many."""
        open_ones = [each for each in self._channels if not each.is_over]
        if len(open_ones) > MAX_CHANNELS:
            sock.close()
            return False
        sock.setblocking(False)
        channel = _Channel(sock, self._answer, self._took, self.open)
        self._channels = [*open_ones, channel]
        tasks.start_soon(channel.run)
        return True

    def close(self) -> None:
        """Close every socket."""
        for channel in self._channels:
            channel.close()


class _Channel:
    """One stream of requests, and of answers to them."""

    def __init__(
        self,
        sock: socket.socket,
        answer: Answer,
        took: Callable[[int], None],
        open_channel: Callable[[socket.socket, TaskGroup], bool],
    ) -> None:
        self._socket = sock
        self._answer = answer
        self._took = took
        self._open_channel = open_channel
        self._received = bytearray()
        self._passed: list[int] = []
        self._unsent = bytearray()
        self._sent = anyio.Event()
        self._to_send = anyio.Event()
        self._is_read = False
        self._is_passed_over = False
        self._under_way = 0
        self.is_over = False

    async def run(self) -> None:
        """Serve it until its program has closed it, and everything that it asked for is answered."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, tasks)
                await self._read(tasks)
                self._is_read = True
                self._to_send.set()
        except OSError:
            return  # the program has closed it, and wants no answer
        finally:
            self.close()

    def close(self) -> None:
        """Close the socket, and descriptors that no line has named."""
        self.is_over = True
        self._socket.close()
        while self._passed:
            os.close(self._passed.pop())

    # --- in ---

    async def _read(self, tasks: TaskGroup) -> None:
        while True:
            while len(self._unsent) > _MAX_UNSENT_BYTES:
                await self._sent.wait()
            await anyio.wait_readable(self._socket)
            try:
                data, passed, _, _ = socket.recv_fds(self._socket, _READ_SIZE, _MAX_PASSED)
            except BlockingIOError:
                continue
            self._keep(passed)
            if not data:
                self._end_of_requests()
                return
            self._received += data
            await self._take_lines(tasks)

    def _keep(self, passed: list[int]) -> None:
        """Keep the descriptors that came until their lines have come; what is too many is closed."""
        self._passed += passed
        while len(self._passed) > _MAX_PASSED:
            os.close(self._passed.pop())

    async def _take_lines(self, tasks: TaskGroup) -> None:
        """Begin what whole lines ask for. A line that is too long is refused once, and passed over."""
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            if self._is_passed_over:
                self._is_passed_over = False
            else:
                await self._take(bytes(line), tasks)
        if self._is_passed_over:
            self._received.clear()
        elif len(self._received) > MAX_LINE_BYTES:
            what = f"expected a line of at most {MAX_LINE_BYTES} bytes, found a longer one"
            self._refuse(RyeError("malformed_call", what))
            self._received.clear()
            self._is_passed_over = True

    def _end_of_requests(self) -> None:
        if self._received and not self._is_passed_over:
            what = f"expected a whole line, found the end after {len(self._received)} bytes of one"
            self._refuse(RyeError("malformed_call", what))

    async def _take(self, line: bytes, tasks: TaskGroup) -> None:
        if not line.strip():
            return
        try:
            is_long = len(line) > _LONG_LINE_BYTES
            request = await apart(partial(read_request, line)) if is_long else read_request(line)
            if request.kind == "channel":
                self._open(tasks)
                return
        except RyeError as exc:
            self._refuse(exc)
            return
        self._under_way += 1
        tasks.start_soon(self._carry_out, request)

    def _open(self, tasks: TaskGroup) -> None:
        if not self._passed:
            raise RyeError(
                "malformed_call", "expected a socket beside the line that opens a channel, found none"
            )
        descriptor = self._passed.pop(0)
        try:
            sock = socket.socket(fileno=descriptor)
        except OSError as exc:
            os.close(descriptor)
            raise RyeError("malformed_call", "expected a socket for a channel, found another file") from exc
        if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
            sock.close()
            raise RyeError("malformed_call", "expected a Unix stream socket for a channel, found another one")
        if not self._open_channel(sock, tasks):
            raise RyeError(
                "too_many_calls_at_once", f"expected at most {MAX_CHANNELS} channels, found one more"
            )

    # --- out ---

    async def _carry_out(self, request: Request) -> None:
        try:
            found = await self._answer(request)
            answer = await apart_if_large(found, partial(answer_line, request.id, found))
            self._took(len(answer))
            self._send(answer)
        except RyeError as exc:
            self._refuse(exc, request.id)
        finally:
            self._under_way -= 1
            self._to_send.set()

    def _refuse(self, error: RyeError, number: int | None = None) -> None:
        facts = error.as_dict()
        number = facts.pop("id", None) if number is None else number
        self._send(failure_line(number, facts))

    def _send(self, line: bytes) -> None:
        self._unsent += line
        self._to_send.set()

    async def _write(self, tasks: TaskGroup) -> None:
        while True:
            while self._unsent:
                await self._write_some()
            if self._is_read and not self._under_way:
                tasks.cancel_scope.cancel()
                return
            self._to_send = anyio.Event()
            await self._to_send.wait()

    async def _write_some(self) -> None:
        with suppress(BlockingIOError):
            del self._unsent[: self._socket.send(self._unsent, socket.MSG_NOSIGNAL)]
            self._sent.set()
            self._sent = anyio.Event()
        if self._unsent:
            await anyio.wait_writable(self._socket)
