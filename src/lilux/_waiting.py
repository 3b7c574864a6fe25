"""A parked process, as a connection sees it: a run that gets its call later."""

from __future__ import annotations

from lilux import _protocol as protocol
from lilux._calls import OnOutput, OnStarted, Run
from lilux._loops import Flag

__all__ = ["Waiting"]


class Waiting(Run):
    """A parked process, and the run that it becomes: both have the same id."""

    parked: protocol.Parked | None = None

    def __init__(self, done: Flag, begun: Flag) -> None:
        super().__init__(done)
        self.begun = begun
        """Set when it waits, or never will."""

    @property
    def is_parked(self) -> bool:
        """Whether it waits for a call that has not come."""
        return self.parked is not None and not self.is_called and not self.done.is_set()

    is_called = False

    def begin(self, input: bytes | None, on_output: OnOutput | None, on_started: OnStarted | None) -> None:
        """From now on the events are those of a call."""
        self.is_called = True
        self._input, self._on_output, self._on_started = memoryview(input or b""), on_output, on_started

    def handle(self, event: protocol.Event, payload: bytes) -> bool:
        """Take an event; True when it was the last."""
        if isinstance(event, protocol.Parked):
            self.parked = event
            self.begun.set()
            return False
        is_last = super().handle(event, payload)
        if is_last:
            self.begun.set()
        return is_last

    def fail(self, error: Exception) -> None:
        """Set its error, unless it has one."""
        super().fail(error)
        self.begun.set()
