"""A program that is talked with while it runs: what it is told, and what it says, piece by piece.

Rules:

- Nothing that it writes is left out: it waits until `took` says that what it wrote before was dealt with.
- What it is told is sent as far as it reads; `waiting` is how much of that it has not taken yet. Whoever
  talks decides how long that may become.
- It ends as every run does: by itself, or with whoever waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lilux import _protocol as protocol
from lilux._connection import OnOutput, Run
from lilux._frames import PAYLOAD_LIMIT
from lilux._loops import Flag

__all__ = ["Dialogue", "OnBegun"]

_COMPACT_AT: Final = 1 << 20


class Dialogue(Run):
    """A run whose standard input stays open."""

    def __init__(self, done: Flag, *, on_output: OnOutput) -> None:
        super().__init__(done, on_output=on_output)
        self._queue = bytearray()
        self._sent = 0
        self._is_complete = False

    @property
    def waiting(self) -> int:
        """How many bytes it was told and has not taken: those that there was no credit for."""
        return len(self._queue) - self._sent

    def tell(self, data: bytes) -> None:
        """Write to its standard input; what comes after `end_input`, or after its end, goes nowhere."""
        if not self._is_complete and not self.done.is_set():
            self._queue += data
            self.send_input()

    def end_input(self) -> None:
        """Nothing more comes: it reads to the end of its standard input."""
        self._is_complete = True
        if not self.done.is_set():
            self.send_input()

    def took(self, size: int) -> None:
        """So many bytes of its output were dealt with."""
        if size and not self.done.is_set():
            self.connection.send(protocol.CreditRequest(bytes=size), self.id)

    def first_input(self) -> memoryview:
        """Nothing travels with the request."""
        return memoryview(b"")

    def send_input(self) -> None:
        """Send what is waiting, as far as there is credit, and then the end if that has come."""
        while self.waiting and self._window:
            size = min(PAYLOAD_LIMIT, self._window, self.waiting)
            piece = bytes(self._queue[self._sent : self._sent + size])
            self._sent += size
            self._window -= size
            self.connection.send(protocol.InputRequest(), self.id, piece, at_once=True)
        if self._sent == len(self._queue) or self._sent >= _COMPACT_AT:
            del self._queue[: self._sent]
            self._sent = 0
        if self._is_complete and not self.waiting and not self._is_ended:
            self._is_ended = True
            self.connection.send(protocol.InputRequest(eof=True), self.id)

    def cancel(self, grace_ms: int | None = None) -> None:
        """Ask for an early end."""
        self._queue.clear()
        self._sent = 0
        self._is_complete = self._is_ended = True
        super().cancel(grace_ms)

    def _deliver(self, event: protocol.Output, payload: bytes) -> None:
        if self._on_output is not None:
            self._on_output(event.stream, payload, event.skipped)

    _is_ended = False


OnBegun = Callable[[Dialogue], None]
"""Takes what one talks with a program by, when it begins."""
