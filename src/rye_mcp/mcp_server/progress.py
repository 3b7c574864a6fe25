"""What a client is told while a tool runs: the last line that it printed, or that it is still at work.

Rules:

- A client that did not ask for it is told nothing, and its run costs nothing more.
- `progress` is the time in seconds since the call began: it only ever grows. There is no total, since nobody
  knows it.
- Output is told at most every `INTERVAL_S`, its last whole line, visibly; after `HEARTBEAT_S` of silence
  comes a heartbeat.
- What has not been told when the run is over is not told any more: the answer has it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.from_thread
import anyio.lowlevel

from rye_mcp.errors import RyeError
from rye_mcp.visible import visible

__all__ = ["HEARTBEAT_S", "INTERVAL_S", "Reporter", "Tell", "counting", "reporting"]

HEARTBEAT_S: Final = 2.0
"""After how much silence a heartbeat is sent."""

INTERVAL_S: Final = 0.1
"""How often output is told at most."""

MAX_CHARACTERS: Final = 200
"""How much of a line is told."""

_MAX_LINE_BYTES: Final = 4 * MAX_CHARACTERS

Tell = Callable[[float, str], Awaitable[None]]
"""Tells somebody how many seconds have passed, and what there is to see."""


class Reporter:
    """Takes what a tool prints, and tells the last line of it."""

    def __init__(self, tell: Tell, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._begun = clock()
        self._unfinished = {"stdout": b"", "stderr": b""}
        self._line: str | None = None
        self._printed = anyio.Event()

    def on_output(self, stream: str, data: bytes, skipped: int) -> None:
        """Take a piece of output; of the descriptor for results nothing is told."""
        if stream not in self._unfinished:
            return
        *lines, rest = (self._unfinished[stream] + data).split(b"\n")
        self._unfinished[stream] = rest[-_MAX_LINE_BYTES:]
        spoken = [line for line in lines[-8:] if line.strip()]
        if spoken:
            self._line = _shown(spoken[-1])
            self._printed.set()

    async def run(self) -> None:
        """Tell, until it is cancelled."""
        while True:
            with anyio.move_on_after(HEARTBEAT_S):
                await self._printed.wait()
            self._printed = anyio.Event()
            line, self._line = self._line, None
            passed = self._clock() - self._begun
            await self._tell(round(passed, 3), line or f"running for {passed:.0f} s")
            await anyio.sleep(INTERVAL_S)


@asynccontextmanager
async def reporting(tell: Tell) -> AsyncIterator[Reporter]:
    """A reporter that tells until the block ends."""
    reporter = Reporter(tell)
    refused: RyeError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(reporter.run)
        try:
            yield reporter
        except RyeError as exc:
            refused = exc  # as it is, and not as a group of one
        group.cancel_scope.cancel()
    if refused is not None:
        raise refused


def counting(reporter: Reporter) -> Callable[[int, int], None]:
    """What a search calls, in any thread, to say how many files it has looked at."""
    token = anyio.lowlevel.current_token()

    def tell(done: int, total: int) -> None:
        line = f"looked at {done} of {total} files\n".encode("ascii")
        anyio.from_thread.run_sync(reporter.on_output, "stderr", line, 0, token=token)

    return tell


def _shown(line: bytes) -> str:
    text = visible(line[:_MAX_LINE_BYTES].decode("utf-8", "replace").strip())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
