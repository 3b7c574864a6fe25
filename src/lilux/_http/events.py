"""Server-sent events, as the HTML standard defines them, and the sinks that receive them.

The parser takes bytes however they are split. Every event goes to every sink; a sink that raises gets nothing
more, and the others go on.

    >>> EventParser().feed(b"event: tick\\ndata: 1\\n\\n")
    ['1']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import anyio

__all__ = ["EventParser", "Fanout", "ReturnSink", "ServerSentEvent", "Sink", "SinksFailedError"]

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DIGITS: Final = re.compile(r"[0-9]{1,18}")


class ServerSentEvent(str):
    """One event: the text of its data, with its kind, its id and a wish for the time before reconnecting.

    It is a `str`, so that a sink which only wants the data need not know more.
    """

    __slots__ = ("event", "id", "retry")

    event: str
    id: str
    retry: int | None

    def __new__(
        cls, data: str, *, event: str = "message", id: str = "", retry: int | None = None
    ) -> ServerSentEvent:
        """An event with these parts; `retry` is in milliseconds."""
        self = super().__new__(cls, data)
        self.event, self.id, self.retry = event, id, retry
        return self


class EventParser:
    """Takes a stream apart. What it holds back is one unfinished line and the fields of one event."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._first = True
        self._after_cr = False
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None

    @property
    def is_unfinished(self) -> bool:
        """True when an event was begun and its end has not come."""
        return bool(self._data or self._line)

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that end in this chunk."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")  # the other half of a CRLF
            self._after_cr = False
        *lines, rest = _LINE_END.split(chunk)
        if not lines:
            self._line += rest
            return []
        self._after_cr = chunk.endswith(b"\r")
        lines[0] = bytes(self._line) + lines[0]
        self._line = bytearray(rest)
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._finish()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        self._set(name, value.removeprefix(" "))
        return None

    def _set(self, name: str, value: str) -> None:
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if _DIGITS.fullmatch(value):
                self._retry = int(value)

    def _finish(self) -> ServerSentEvent | None:
        event = None
        if self._data:
            kind = self._event or "message"
            event = ServerSentEvent("\n".join(self._data), event=kind, id=self._id, retry=self._retry)
        self._data, self._event, self._retry = [], "", None
        return event


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
        """End the stream."""
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
        """Return the kept events, in order."""
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
