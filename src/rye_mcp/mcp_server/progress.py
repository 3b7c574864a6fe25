"""Progress for the client while a tool runs: how far it is, and what it writes to its standard error.

A client that did not ask is told nothing, and its run costs nothing more. Progress is the seconds since the
call began, with the last line of output or a heartbeat. Log messages carry whole lines of standard error, at
most `MAX_LINES` at once; the number of lines that were left out is sent too. All text is made visible.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio.abc import TaskGroup

from rye_mcp.errors import RyeError
from rye_mcp.visible import visible

__all__ = [
    "HEARTBEAT_S",
    "INTERVAL_S",
    "LEVEL",
    "MAX_LINES",
    "Messages",
    "Reporter",
    "Send",
    "Tell",
    "counting",
    "reporting",
    "sending",
]

HEARTBEAT_S: Final = 2.0
"""After how much silence a heartbeat is sent."""

INTERVAL_S: Final = 0.1
"""How often output is told at most."""

MAX_PROGRESS_CHARACTERS: Final = 200
"""How much of a line is told."""

_MAX_PROGRESS_BYTES: Final = 4 * MAX_PROGRESS_CHARACTERS

Tell = Callable[[float, str], Awaitable[None]]
"""Tells somebody how many seconds have passed, and what there is to see."""


class Reporter:
    """Takes what a tool prints, and tells the last line of it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._begun = time.monotonic()
        self._unfinished = {"stdout": b"", "stderr": b""}
        self._line: str | None = None
        self._printed = anyio.Event()

    def on_output(self, stream: str, data: bytes, skipped: int) -> None:
        """Take a piece of output; of the descriptor for results nothing is told."""
        if stream not in self._unfinished:
            return
        *lines, rest = (self._unfinished[stream] + data).split(b"\n")
        self._unfinished[stream] = rest[-_MAX_PROGRESS_BYTES:]
        spoken = [line for line in lines[-8:] if line.strip()]
        if spoken:
            self._line = _shown(_text(spoken[-1][:_MAX_PROGRESS_BYTES]).strip(), MAX_PROGRESS_CHARACTERS)
            self._printed.set()

    def on_call(self, number: int, of: int, item_id: str) -> None:
        """Take note of a call that a program makes: this one, of so many that it has asked for so far."""
        self._line = f"{number} of {of}: {item_id}"
        self._printed.set()

    def on_placing(self, news: str) -> None:
        """Take note of where a call waits that runs on another machine, or of the engine that it is on."""
        self._line = news
        self._printed.set()

    async def run(self) -> None:
        """Tell, until it is cancelled."""
        while True:
            with anyio.move_on_after(HEARTBEAT_S):
                await self._printed.wait()
            self._printed = anyio.Event()
            line, self._line = self._line, None
            passed = time.monotonic() - self._begun
            await self._tell(round(passed, 3), line or f"running for {passed:.0f} s")
            await anyio.sleep(INTERVAL_S)


@asynccontextmanager
async def reporting(tell: Tell) -> AsyncIterator[Reporter]:
    """A reporter that tells until the block ends."""
    reporter = Reporter(tell)
    async with _beside(reporter.run, lambda group: group.cancel_scope.cancel()):
        yield reporter


def counting(reporter: Reporter) -> Callable[[int, int], None]:
    """Return a callback for a search, in any thread, that reports how many files it has looked at."""
    token = anyio.lowlevel.current_token()

    def tell(done: int, total: int) -> None:
        line = f"looked at {done} of {total} files\n".encode("ascii")
        anyio.from_thread.run_sync(reporter.on_output, "stderr", line, 0, token=token)

    return tell


LEVEL: Final = "info"
"""The level of all messages."""

MAX_LINES: Final = 100
"""How many lines are sent at once."""

MAX_MESSAGE_CHARACTERS: Final = 1000
"""How much of a line is sent."""

MESSAGE_INTERVAL_S: Final = 0.05
"""How often lines are sent at most."""

_MAX_MESSAGE_BYTES: Final = 4 * MAX_MESSAGE_CHARACTERS

Send = Callable[[str], Awaitable[None]]
"""Sends one message to a client."""


class Messages:
    """Takes what a tool prints, and sends the lines of its standard error."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._unfinished = b""
        self._lines: deque[bytes] = deque(maxlen=MAX_LINES)
        self._left_out = 0
        self._written = anyio.Event()
        self._is_over = anyio.Event()

    def on_output(self, stream: str, data: bytes, skipped: int) -> None:
        """Take a piece of output."""
        if stream != "stderr":
            return
        if skipped:
            self._end_line()
            self._take(b"%d bytes are left out" % skipped)
        *lines, rest = (self._unfinished + data).split(b"\n")
        self._unfinished = rest[:_MAX_MESSAGE_BYTES]
        for line in filter(bytes.strip, lines):
            self._take(line)

    async def run(self) -> None:
        """Send, until all is sent after the end."""
        while not self._is_over.is_set():
            await self._written.wait()
            await self._send_lines()
            with anyio.move_on_after(MESSAGE_INTERVAL_S):
                await self._is_over.wait()
        await self._send_lines()

    def end(self) -> None:
        """End it: no more output follows."""
        self._end_line()
        self._is_over.set()
        self._written.set()

    def _end_line(self) -> None:
        if self._unfinished.strip():
            self._take(self._unfinished)
        self._unfinished = b""

    def _take(self, line: bytes) -> None:
        self._left_out += len(self._lines) == MAX_LINES
        self._lines.append(line[:_MAX_MESSAGE_BYTES])
        self._written.set()

    async def _send_lines(self) -> None:
        self._written = anyio.Event()
        left_out, self._left_out = self._left_out, 0
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if left_out:
            await self._send(f"{left_out} lines are left out")
        for line in lines:
            await self._send(_shown(_text(line).rstrip(), MAX_MESSAGE_CHARACTERS))


@asynccontextmanager
async def sending(send: Send) -> AsyncIterator[Messages]:
    """Messages that are sent until the block ends."""
    messages = Messages(send)
    async with _beside(messages.run, lambda _: messages.end()):
        yield messages


@asynccontextmanager
async def _beside(
    work: Callable[[], Coroutine[Any, Any, None]], end: Callable[[TaskGroup], None]
) -> AsyncIterator[None]:
    """Do this work while the block runs; `end` ends it."""
    refused: RyeError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        try:
            yield
        except RyeError as exc:
            refused = exc  # as it is, and not as a group of one
        end(group)
    if refused is not None:
        raise refused


def _shown(line: str, limit: int) -> str:
    text = visible(line)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
