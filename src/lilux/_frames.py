"""Frames of the supervisor protocol: one JSON object and raw bytes, in and out of a stream.

    u32 header length │ u32 payload length │ header: one JSON object, UTF-8 │ payload: raw bytes

Nothing here reads, writes or waits. What cannot be a frame is a SupervisorError with the code of the
protocol. A text that is no UTF-8 travels as `{"b64": …}`.

    >>> FrameDecoder().feed(encode_frame({"op": "status", "id": 1}))
    [(b'{"op":"status","id":1}', b'')]
"""

from __future__ import annotations

import base64
import struct
from typing import Any

import msgspec

from lilux.primitives.errors import ConfigurationError, SupervisorError

HEADER_LIMIT = 8 * 1024 * 1024
"""Bytes of a header."""

PAYLOAD_LIMIT = 64 * 1024
"""Bytes of a payload."""

Header = dict[str, Any]

_PREFIX = struct.Struct(">II")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()


def encode_frame(header: Header, payload: bytes | memoryview = b"") -> bytes:
    """One whole frame."""
    text = to_json(header)
    if len(text) > HEADER_LIMIT or len(payload) > PAYLOAD_LIMIT:
        raise _too_large(len(text), len(payload))
    return b"".join((_PREFIX.pack(len(text), len(payload)), text, payload))


def to_json(header: Header) -> bytes:
    """A header, with its texts in whatever form they can travel in."""
    try:
        return _ENCODER.encode(header)
    except UnicodeEncodeError:
        return _ENCODER.encode(_with_os_texts(header, ""))


def decode_header(raw: bytes) -> Header:
    """A header as what it is: one JSON object, whatever is in it."""
    try:
        header = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise SupervisorError(f"expected a header in JSON: {exc}", code="malformed_frame") from exc
    if not isinstance(header, dict):
        raise SupervisorError(
            f"expected a header that is an object, found {type(header).__name__}", code="malformed_frame"
        )
    return header


class FrameDecoder:
    """Puts frames together from bytes that come in pieces of any size."""

    def __init__(self, *, header_limit: int = HEADER_LIMIT) -> None:
        """`header_limit` is how many bytes a header may have, where the other end is not to be trusted."""
        self._header_limit = header_limit
        self._pending = bytearray()

    def feed(self, data: bytes | memoryview) -> list[tuple[bytes, bytes]]:
        """The frames that are whole now. After an error the stream has lost its framing: feed no more."""
        self._pending += data
        pending, frames, start = self._pending, [], 0
        while len(pending) - start >= _PREFIX.size:
            header_size, payload_size = _PREFIX.unpack_from(pending, start)
            if header_size > self._header_limit or payload_size > PAYLOAD_LIMIT:
                raise _too_large(header_size, payload_size, self._header_limit)
            body = start + _PREFIX.size + header_size
            if len(pending) < body + payload_size:
                break
            header = bytes(pending[start + _PREFIX.size : body])
            start = body + payload_size
            frames.append((header, bytes(pending[body:start])))
        del pending[:start]
        return frames

    def missing(self) -> int:
        """How many bytes the frame still needs that has begun; 0 while its size is not known."""
        if len(self._pending) < _PREFIX.size:
            return 0
        header_size, payload_size = _PREFIX.unpack_from(self._pending)
        return int(_PREFIX.size + header_size + payload_size - len(self._pending))

    def finish(self) -> None:
        """The stream has ended here; it must not have ended inside a frame."""
        if self._pending:
            raise SupervisorError(
                f"expected a whole frame, found the end after {len(self._pending)} bytes",
                code="truncated_frame",
            )


def _too_large(header: int, payload: int, header_limit: int = HEADER_LIMIT) -> SupervisorError:
    return SupervisorError(
        f"expected a header of at most {header_limit} and a payload of at most {PAYLOAD_LIMIT} bytes, "
        f"found {header} and {payload}",
        code="frame_too_large",
    )


def _with_os_texts(value: Any, where: str) -> Any:
    """The same header with every text in a form that JSON can hold."""
    if isinstance(value, str):
        return _os_text(value, where)
    if isinstance(value, dict):
        return {
            _key(key, where): _with_os_texts(item, f"{where}.{key}".lstrip("."))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_os_texts(item, f"{where}[{index}]") for index, item in enumerate(value)]
    return value


def _os_text(value: str, where: str) -> str | dict[str, str]:
    try:
        raw = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise ConfigurationError(
            f"expected text that a process can be given as {where}: {exc}", field=where
        ) from exc
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(raw).decode()}


def _key(key: Any, where: str) -> str:
    try:
        key.encode()
    except (UnicodeEncodeError, AttributeError) as exc:
        raise ConfigurationError(f"expected names in UTF-8 in {where}, found {key!r}", field=where) from exc
    return str(key)
