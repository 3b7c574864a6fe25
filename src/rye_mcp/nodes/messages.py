"""The messages of one call, in both directions, as frames of the stream that its channel carries.

A message is a header with `op`, and bytes. What is longer than a frame follows in pieces, as many bytes as
`body` says. Output of a tool goes out as far as there is credit for it; what waits too long is counted.

    >>> Incoming(limit=100).feed(message({"op": "result"}, b"{}"))
    [({'op': 'result'}, b'{}')]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lilux._frames import FrameDecoder, Header, decode_header, encode_frame
from lilux.primitives.errors import SupervisorError
from rye_mcp.errors import RyeError
from rye_mcp.runs.ids import StreamName

__all__ = ["CREDIT_BYTES", "HEADER_BYTES", "Incoming", "Outgoing", "Output", "message"]

CREDIT_BYTES: Final = 256 << 10
"""How much of a tool's output may be on its way to the viewer, and how much more may wait to be sent."""

HEADER_BYTES: Final = 4 << 10
"""How long the header of a frame between a server and a worker may be: the event loop reads it."""

_PIECE_BYTES: Final = 48 << 10
_BODY: Final = "body"

Output = tuple[StreamName, bytes, int]
"""A piece of a tool's output: its stream, the bytes, and how many bytes before them were left out."""


def message(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message as bytes."""
    head = dict(header)
    if not body:
        return encode_frame(head)
    pieces = (body[start : start + _PIECE_BYTES] for start in range(0, len(body), _PIECE_BYTES))
    return encode_frame({**head, _BODY: len(body)}) + b"".join(
        encode_frame({"op": _BODY}, piece) for piece in pieces
    )


class Incoming:
    """Puts messages together. After an error, nothing more can be told from the stream."""

    def __init__(self, *, limit: int) -> None:
        """`limit` is how many bytes a message may have behind its header."""
        self._limit = limit
        self._frames = FrameDecoder(header_limit=HEADER_BYTES)
        self._head: Header | None = None
        self._size = 0
        self._body = bytearray()

    def feed(self, data: bytes) -> list[tuple[Header, bytes]]:
        """The messages that are complete now; RyeError `lost` for anything else."""
        try:
            frames = [(decode_header(raw), payload) for raw, payload in self._frames.feed(data)]
        except SupervisorError as exc:
            raise RyeError("lost", f"expected messages of a call, found other bytes: {exc.message}") from exc
        found = []
        for header, payload in frames:
            if (whole := self._take(header, payload)) is not None:
                found.append(whole)
        return found

    def _take(self, header: Header, payload: bytes) -> tuple[Header, bytes] | None:
        if self._head is None:
            size = header.pop(_BODY, None)
            if not isinstance(header.get("op"), str) or header["op"] == _BODY:
                raise _malformed("a message with its name")
            if size is None:
                return header, payload
            if type(size) is not int or not 0 < size <= self._limit or payload:
                raise _malformed(f"a message of at most {self._limit} bytes")
            self._head, self._size = header, size
            return None
        self._body += payload
        if header != {"op": _BODY} or not payload or len(self._body) > self._size:
            raise _malformed("the rest of a message")
        if len(self._body) < self._size:
            return None
        whole = (self._head, bytes(self._body))
        self._head, self._body = None, bytearray()
        return whole


class Outgoing:
    """The output of a tool, as far as there is credit. The rest waits; of too much, the oldest goes."""

    def __init__(self, credit: int = CREDIT_BYTES) -> None:
        self._credit = credit
        self._waiting: list[Output] = []
        self._size = 0
        self._skipped: dict[StreamName, int] = {}

    def write(self, stream: StreamName, data: bytes, skipped: int) -> list[Output]:
        """What can be sent now that a tool has written this."""
        self._waiting.append((stream, data, skipped + self._skipped.pop(stream, 0)))
        self._size += len(data)
        while self._size > CREDIT_BYTES and len(self._waiting) > 1:
            gone, lost, before = self._waiting.pop(0)
            self._size -= len(lost)
            self._leave_out(gone, len(lost) + before)
        return self._sendable()

    def grant(self, size: Any) -> list[Output]:
        """What can be sent now that there is so much more credit."""
        if type(size) is not int or not 0 < size <= CREDIT_BYTES:
            raise _malformed("credit for output")
        self._credit = min(self._credit + size, CREDIT_BYTES)
        return self._sendable()

    def _sendable(self) -> list[Output]:
        found = []
        while self._waiting and self._credit > 0:
            stream, data, skipped = self._waiting.pop(0)
            now, later = data[: self._credit], data[self._credit :]
            if later:
                self._waiting.insert(0, (stream, later, 0))
            self._credit -= len(now)
            self._size -= len(now)
            found.append((stream, now, skipped))
        return found

    def _leave_out(self, stream: StreamName, size: int) -> None:
        """Say so before the next bytes of the same stream."""
        for number, (name, data, skipped) in enumerate(self._waiting):
            if name == stream:
                self._waiting[number] = (name, data, skipped + size)
                return
        self._skipped[stream] = self._skipped.get(stream, 0) + size


def _malformed(expected: str) -> RyeError:
    return RyeError("lost", f"expected {expected}, found something else")
