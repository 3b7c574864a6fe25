"""What a caller waits for: a request to a supervisor that is not finished, with the events that it gets.

A call has exactly one end: its last event, or the loss of its connection. A `Run` is a tool, and a `Dialogue`
is one whose standard input stays open. The rules are in docs/architecture/lilux.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from lilux import _protocol as protocol
from lilux._dataclasses import dataclass
from lilux._frames import PAYLOAD_LIMIT
from lilux._loops import Flag
from lilux._policy import Enforced
from lilux._results import RunResult
from lilux.primitives.errors import SupervisorError

__all__ = ["STREAMS", "Answer", "Call", "Dialogue", "OnBegun", "OnOutput", "OnStarted", "Outcome", "Run"]

OUTPUT_CREDIT: Final = 256 * 1024
"""Bytes of streamed output that may be under way; half of it is given back at a time."""

_COMPACT_AT: Final = 1 << 20
"""How many bytes may have been sent of what waits, before they are removed from it."""

STREAMS: Final[tuple[protocol.StreamName, ...]] = ("stdout", "stderr", "result")

E = TypeVar("E", bound=protocol.Event)

OnOutput = Callable[[protocol.StreamName, bytes, int], None]
"""Takes a stream, the bytes that a tool wrote to it, and how many were left out just before."""

OnStarted = Callable[[int, Enforced | None], None]
"""Takes the pid of the tool, and what is enforced of its policy; None without one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and the bytes kept of each stream."""

    result: RunResult
    streams: dict[protocol.StreamName, bytes]


class Carrier(Protocol):
    """What carries a call: its connection."""

    def send(
        self, request: protocol.Request, id: int, payload: bytes | memoryview = b"", *, at_once: bool = False
    ) -> None:
        """Send a frame."""

    def expect(self, call: Call) -> None:
        """End the supervisor if the last event of the call has not come when it is due."""

    def forget(self, call: Call) -> None:
        """Nobody waits for this call any more."""

    def give_up(self, error: SupervisorError) -> None:
        """End the supervisor by force, and the connection with it."""


class Call:
    """A request that is not finished: `done` is set when it is, and then `error` says whether it failed."""

    due: float | None = None
    """When the last event must have come (monotonic clock)."""

    def __init__(self, done: Flag) -> None:
        self.done = done
        self.error: Exception | None = None
        self.connection: Carrier
        self.id: int

    def handle(self, event: protocol.Event, payload: bytes) -> bool:
        """Take an event; True when it was the last."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Give the call an error, unless it has one."""
        self.error = self.error or error


class Answer(Call):
    """A request with one answer."""

    _event: protocol.Event | None = None

    def answer(self, kind: type[E]) -> E:
        """The answer, or the error that came instead."""
        if self.error is not None:
            raise self.error
        if not isinstance(self._event, kind):
            found = type(self._event).__name__
            raise SupervisorError(f"expected {kind.__name__}, found {found}", code="malformed_event")
        return self._event

    def handle(self, event: protocol.Event, payload: bytes) -> bool:
        """Take the answer."""
        if isinstance(event, protocol.Refused):
            self.fail(refusal(event))
        else:
            self._event = event
        return True


class Run(Call):
    """A tool that runs."""

    def __init__(
        self,
        done: Flag,
        *,
        input: bytes = b"",
        on_output: OnOutput | None = None,
        on_started: OnStarted | None = None,
    ) -> None:
        super().__init__(done)
        self._input = memoryview(input)
        self._window = protocol.INPUT_WINDOW
        self._on_output = on_output
        self._on_started = on_started
        self._untold = 0
        self._captured: dict[protocol.StreamName, list[bytes]] = {}
        self._result: RunResult | None = None
        self._kept = b""

    def first_input(self) -> memoryview:
        """The piece of standard input that travels with the request."""
        return self._next_input()

    def send_input(self) -> None:
        """Send what standard input is left, as far as there is credit."""
        while self._input and self._window:
            piece = self._next_input()
            self.connection.send(protocol.InputRequest(eof=not self._input), self.id, piece)

    def cancel(self, grace_ms: int | None = None) -> None:
        """Ask for an early end."""
        self._input = memoryview(b"")
        self.connection.send(protocol.CancelRequest(grace_ms=grace_ms), self.id)

    def outcome(self) -> Outcome:
        """How the run ended."""
        if self.error is not None:
            raise self.error
        if self._result is None:
            raise SupervisorError("expected a result of the run, found none", code="malformed_event")
        result, rest, streams = self._result, self._kept, {}
        for name in STREAMS:
            counts = getattr(result, name)
            kept = counts.kept if counts is not None else 0
            pieces = self._captured.get(name)
            streams[name], rest = (b"".join(pieces), rest) if pieces else (rest[:kept], rest[kept:])
            if len(streams[name]) != kept:
                found = f"found {len(streams[name])}"
                raise SupervisorError(f"expected {kept} bytes of {name}, {found}", code="malformed_event")
        return Outcome(result, streams)

    def handle(self, event: protocol.Event, payload: bytes) -> bool:
        """Take an event; True when it was the last."""
        match event:
            case protocol.Closed():
                self._result, self._kept = event.result, payload
                return True
            case protocol.Refused():
                self.fail(refusal(event))
                return True
            case protocol.Captured():
                self._captured.setdefault(event.stream, []).append(payload)
            case protocol.Credit():
                self._window += event.bytes
                self.send_input()
            case protocol.Output() | protocol.Started():
                self._report(event, payload)
        return False

    def _next_input(self) -> memoryview:
        size = min(PAYLOAD_LIMIT, self._window)
        piece, self._input = self._input[:size], self._input[size:]
        self._window -= len(piece)
        return piece

    def _report(self, event: protocol.Output | protocol.Started, payload: bytes) -> None:
        if self.error is not None:
            return
        try:
            if isinstance(event, protocol.Output):
                self._deliver(event, payload)
            elif self._on_started is not None:
                self._on_started(event.pid, event.enforced)
        except Exception as exc:  # noqa: BLE001 - it is the caller's, and ends the caller's run
            self.fail(exc)
            self.cancel()

    def _deliver(self, event: protocol.Output, payload: bytes) -> None:
        self._show(event, payload)
        self._untold += len(payload)
        if self._untold >= OUTPUT_CREDIT // 2:
            self.connection.send(protocol.CreditRequest(bytes=self._untold), self.id)
            self._untold = 0

    def _show(self, event: protocol.Output, payload: bytes) -> None:
        if self._on_output is not None:
            self._on_output(event.stream, payload, event.skipped)


class Dialogue(Run):
    """A run whose standard input stays open."""

    def __init__(self, done: Flag, *, on_output: OnOutput, on_started: OnStarted | None = None) -> None:
        super().__init__(done, on_output=on_output, on_started=on_started)
        self._queue = bytearray()
        self._sent = 0
        self._is_complete = self._is_ended = False

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
        """Send the end of its standard input."""
        self._is_complete = True
        if not self.done.is_set():
            self.send_input()

    def took(self, size: int) -> None:
        """So many bytes of its output were dealt with."""
        if size and not self.done.is_set():
            self.connection.send(protocol.CreditRequest(bytes=size), self.id)

    def first_input(self) -> memoryview:
        """Return an empty view: this request has no input."""
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
        self._show(event, payload)  # `took` gives the credit back


OnBegun = Callable[[Dialogue], None]
"""Takes what one talks with a program by, when it begins."""


def refusal(event: protocol.Refused) -> SupervisorError:
    """The error of a request that was refused."""
    return SupervisorError(event.message, code=event.code, stage=event.stage, errno=event.errno)
