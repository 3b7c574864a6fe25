"""What a tool writes to its standard error, line by line, as log messages for a client that wants them.

Rules:

- A client that did not ask is sent nothing, and its run costs nothing more.
- A line is a message of the level `info`; its logger is the id of the tool. It is shown as progress is:
  visibly, and not longer than `MAX_CHARACTERS`.
- Of more than `MAX_LINES` lines between two looks the last ones are sent, and how many were left out: a tool
  never waits for its client. What the supervisor did not pass on, for the same reason, is told in bytes.
- What came is sent before the answer; a last line needs no end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from rye_mcp.errors import RyeError
from rye_mcp.visible import visible

__all__ = ["LEVEL", "MAX_LINES", "Messages", "Send", "sending"]

LEVEL: Final = "info"
"""The level of all messages."""

MAX_LINES: Final = 100
"""How many lines are sent at once."""

MAX_CHARACTERS: Final = 1000
"""How much of a line is sent."""

INTERVAL_S: Final = 0.05
"""How often lines are sent at most."""

_MAX_LINE_BYTES: Final = 4 * MAX_CHARACTERS

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
        self._unfinished = rest[:_MAX_LINE_BYTES]
        for line in filter(bytes.strip, lines):
            self._take(line)

    async def run(self) -> None:
        """Send, until all is sent after the end."""
        while not self._is_over.is_set():
            await self._written.wait()
            await self._send_lines()
            with anyio.move_on_after(INTERVAL_S):
                await self._is_over.wait()
        await self._send_lines()

    def end(self) -> None:
        """Nothing more is written."""
        self._end_line()
        self._is_over.set()
        self._written.set()

    def _end_line(self) -> None:
        if self._unfinished.strip():
            self._take(self._unfinished)
        self._unfinished = b""

    def _take(self, line: bytes) -> None:
        self._left_out += len(self._lines) == MAX_LINES
        self._lines.append(line[:_MAX_LINE_BYTES])
        self._written.set()

    async def _send_lines(self) -> None:
        self._written = anyio.Event()
        left_out, self._left_out = self._left_out, 0
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if left_out:
            await self._send(f"{left_out} lines are left out")
        for line in lines:
            await self._send(_shown(line))


@asynccontextmanager
async def sending(send: Send) -> AsyncIterator[Messages]:
    """Messages that are sent until the block ends."""
    messages = Messages(send)
    refused: RyeError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(messages.run)
        try:
            yield messages
        except RyeError as exc:
            refused = exc  # as it is, and not as a group of one
        messages.end()
    if refused is not None:
        raise refused


def _shown(line: bytes) -> str:
    text = visible(line.decode("utf-8", "replace").rstrip())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
