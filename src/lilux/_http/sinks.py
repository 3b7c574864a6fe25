"""Where the events of a stream go: every event to every sink.

Rules:

- The sinks get an event at the same time, and the next one when all have taken it: each sink sees them in
  order, and the slowest sets the pace.
- A sink that raises gets nothing more and is named in `failed`; the others go on. When none is left the
  stream is over: SinksFailedError.
- Every sink is closed once, however the stream ended, cancelled ones included.
- Without a sink the events are kept for the result, as a ReturnSink keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import anyio

from lilux._http.events import ServerSentEvent

__all__ = ["Fanout", "ReturnSink", "Sink", "SinksFailedError"]

MAX_KEPT_EVENTS: Final = 10_000
"""How many events a ReturnSink keeps unless told otherwise."""

CLOSE_LIMIT_S: Final = 5.0
"""How long closing a sink may take."""

MAX_WORDS: Final = 500
"""How much is told of what a sink has raised."""


@runtime_checkable
class Sink(Protocol):
    """Takes events. An event is the text of its data, and a ServerSentEvent."""

    async def write(self, event: str) -> None:
        """Take one event."""
        ...

    async def close(self) -> None:
        """Nothing follows."""
        ...


class SinksFailedError(Exception):
    """Nobody is left to take the events."""


class ReturnSink:
    """Keeps the first `max_events` events, and counts the others in `dropped`."""

    def __init__(self, max_events: int = MAX_KEPT_EVENTS) -> None:
        self.dropped = 0
        self._max_events = max_events
        self._events: list[str] = []

    async def write(self, event: str) -> None:
        """Keep an event."""
        if len(self._events) < self._max_events:
            self._events.append(event)
        else:
            self.dropped += 1

    async def close(self) -> None:
        """Do nothing: the events stay."""

    def get_events(self) -> list[str]:
        """What was kept, in order."""
        return list(self._events)


class Fanout:
    """The sinks of one stream, and what became of it."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.count = 0
        self.destinations = [type(sink).__name__ for sink in sinks]
        self.failed: list[str] = []
        self._sinks: Sequence[Sink] = sinks or [ReturnSink()]
        self._live = list(self._sinks)

    @property
    def kept(self) -> ReturnSink | None:
        """The sink whose events stand in the result: the first that keeps them."""
        return next((sink for sink in self._sinks if isinstance(sink, ReturnSink)), None)

    async def write(self, event: ServerSentEvent) -> None:
        """Give every sink this event."""
        self.count += 1
        if len(self._live) == 1:
            await self._call(self._live[0], "write", event)
        else:
            async with anyio.create_task_group() as group:
                for sink in self._live:
                    group.start_soon(self._call, sink, "write", event)
        if not self._live:
            raise SinksFailedError

    async def close(self) -> None:
        """Close every sink, also when the caller is being cancelled."""
        with anyio.move_on_after(CLOSE_LIMIT_S, shield=True):
            async with anyio.create_task_group() as group:
                for sink in self._sinks:
                    group.start_soon(self._call, sink, "close")

    async def _call(self, sink: Sink, method: str, *args: object) -> None:
        try:
            await getattr(sink, method)(*args)
        except Exception as exc:  # noqa: BLE001 - it is the sink's own, and must not end the others
            words = f"{type(sink).__name__}.{method}: {type(exc).__name__}: {exc}"
            self.failed.append(words[:MAX_WORDS])
            self._live = [other for other in self._live if other is not sink]
