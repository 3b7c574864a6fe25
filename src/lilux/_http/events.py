"""Server-sent events, as the HTML standard defines them: bytes in, events out, however the bytes are split.

Rules:

- Lines end with CR, LF or CRLF. One byte order mark at the beginning is skipped. Text is UTF-8; what is not
  becomes U+FFFD.
- Several `data` lines make one event, joined by line feeds. A block without `data` is no event. `event` names
  the kind, else it is `message`; `id` stays until another one comes, and one with a NUL is ignored; `retry`
  counts when it is digits. Lines that begin with a colon are comments, other fields are ignored.
- An event ends with an empty line. What the stream ends in the middle of is not delivered; `is_unfinished`
  says that there was something.
- Nobody reconnects here: `retry` and `id` are for who wants to.

    >>> EventParser().feed(b"event: tick\\ndata: 1\\n\\n")
    ['1']
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["EventParser", "ServerSentEvent"]

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
