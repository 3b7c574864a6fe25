"""Turns the bytes of a response into a value: unpacks them within a limit, decodes text, parses JSON.

What comes and what is unpacked both count (TooLargeError). What does not unpack or stops early is a
BrokenBodyError. A body that cannot be parsed stays text or base64, with a notice.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Literal, NoReturn, Protocol

import msgspec

from lilux._dataclasses import dataclass

__all__ = [
    "Body",
    "BrokenBodyError",
    "Encoding",
    "TooLargeError",
    "Unpacker",
    "decode_body",
    "is_json",
    "media_type",
]

Encoding = Literal["json", "text", "lossy", "base64", "events"]

PIECE_BYTES: Final = 64 * 1024
"""How much is unpacked at a time."""

_GZIP: Final = frozenset(["gzip", "x-gzip"])
_CODINGS: Final = frozenset([*_GZIP, "deflate"])
_GZIP_BEGINS: Final = b"\x1f"
_HEAD_BYTES: Final = 2

_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_JSON: Final = re.compile(r"(?:application|text)/(?:.+\+)?json")
_TEXT: Final = re.compile(
    r"text/.*|message/.*|image/svg\+xml|application/(?:.+\+)?"
    r"(?:xml|yaml|toml|sql|graphql|javascript|x-javascript|x-ndjson|x-yaml|x-www-form-urlencoded)"
)
_UTF_8: Final = frozenset(["", "utf-8", "utf8"])
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_CHARSETS: Final = frozenset(
    ["idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"]
)
"""Codecs of Python that are no character sets of answers; some take quadratic time or make surrogates."""


class TooLargeError(Exception):
    """More bytes than allowed."""


class BrokenBodyError(Exception):
    """Bytes that are not what their content encoding says."""


# --- unpacking ------------------------------------------------------------------


class Unpacker:
    """Undoes the content encoding of one body and counts its bytes, packed and unpacked."""

    def __init__(self, coding: str, limit: int) -> None:
        self._coding = coding
        self._limit = limit
        self._packed = 0
        self._unpacked = 0
        self._head = b""
        self._inflater: Inflater | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Unpack a chunk, in pieces."""
        self._packed += len(chunk)
        if self._packed > self._limit:
            raise TooLargeError
        if self._coding not in _CODINGS:
            yield chunk
            return
        for piece in self._unpack(chunk):
            self._unpacked += len(piece)
            if self._unpacked > self._limit:
                raise TooLargeError
            yield piece

    def finish(self) -> None:
        """End the body; BrokenBodyError when something is missing."""
        at_end = self._inflater is not None and self._inflater.eof
        if self._coding in _CODINGS and self._packed and not at_end:
            raise BrokenBodyError(f"the {self._coding} data stops before its end")

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        """Members follow one another in gzip; what else follows is ignored, as everybody does."""
        while data:
            inflater, data = self._inflater_for(data)
            if inflater is None:
                return
            while True:
                piece = self._inflate(inflater, data)
                data = inflater.unconsumed_tail
                if piece:
                    yield piece
                if inflater.eof or (not data and len(piece) < PIECE_BYTES):
                    break
            data = inflater.unused_data

    def _inflater_for(self, data: bytes) -> tuple[Inflater | None, bytes]:
        """Return an inflater for this data, and the data; None if it is padding or too short to tell."""
        if self._inflater is not None and not self._inflater.eof:
            return self._inflater, data
        data = self._head + data
        if self._inflater is not None and not (self._coding in _GZIP and data.startswith(_GZIP_BEGINS)):
            return None, b""
        if len(data) < _HEAD_BYTES:
            self._head = data
            return None, b""
        self._head = b""
        self._inflater = zlib.decompressobj(_window(self._coding, data))
        return self._inflater, data

    def _inflate(self, inflater: Inflater, data: bytes) -> bytes:
        try:
            return inflater.decompress(data, PIECE_BYTES)
        except zlib.error as exc:
            raise BrokenBodyError(f"expected {self._coding} data, found something else") from exc


class Inflater(Protocol):
    """The interface of `zlib.decompressobj`."""

    @property
    def eof(self) -> bool:
        """True after the end of the data."""
        ...

    @property
    def unconsumed_tail(self) -> bytes:
        """The input that was not taken, because there was no room for more output."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the packed data."""
        ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """The next piece."""
        ...


def _window(coding: str, data: bytes) -> int:
    """How zlib is told what comes: `deflate` means its own format, and some servers send it bare."""
    if coding in _GZIP:
        return 16 + zlib.MAX_WBITS
    wrapped = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:_HEAD_BYTES], "big") % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


# --- decoding -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Body:
    """The value of a body, what it was made by, and what should be known about it."""

    value: Any
    encoding: Encoding
    notices: tuple[str, ...] = ()


def decode_body(content: bytes | bytearray, content_type: str, coding: str) -> Body:
    """The value of unpacked bytes."""
    if coding not in _CODINGS and coding not in {"", "identity"}:
        return _binary(content, f"the body is still packed: its content encoding is {coding:.40}")
    kind, charset = media_type(content_type)
    if _JSON.fullmatch(kind):
        return _plain_json(content, charset) or _json(_text(content, charset))
    if charset or _TEXT.fullmatch(kind):
        return _text(content, charset)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _binary(content)
    return _binary(content) if "\0" in text else Body(text, "text")


@lru_cache(maxsize=256)
def media_type(content_type: str) -> tuple[str, str]:
    """The type in lower case, and its charset; each empty if it is missing."""
    charset = _CHARSET.search(content_type)
    return content_type.partition(";")[0].strip().lower(), charset[1] if charset else ""


def is_json(content_type: str) -> bool:
    """True when the type says JSON."""
    return _JSON.fullmatch(media_type(content_type)[0]) is not None


def _binary(content: bytes | bytearray, *notices: str) -> Body:
    return Body(base64.b64encode(content).decode(), "base64", notices)


def _plain_json(content: bytes | bytearray, charset: str) -> Body | None:
    """The value of JSON that nothing is unusual about, several times faster; None for all other bodies.

    What this parser takes it reads as `json` does. What it does not take is for the slow way to explain.
    """
    if charset.lower() not in _UTF_8:
        return None
    try:
        return Body(msgspec.json.decode(content), "json")
    except (ValueError, RecursionError):
        return None


def _json(body: Body) -> Body:
    if not body.value:
        return body
    try:
        value = json.loads(body.value, parse_constant=_refuse, parse_float=_finite)
        if "\\ud" in body.value or "\\uD" in body.value:  # there may be half a pair of surrogates
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        return Body(body.value, body.encoding, (*body.notices, f"the body is no valid JSON: {exc!s:.100}"))
    return Body(value, "json", body.notices)


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number:.20} is beyond all bounds")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def _text(content: bytes | bytearray, charset: str) -> Body:
    codec, notices = _codec(content, charset)
    try:
        return Body(content.decode(codec), "text", notices)
    except UnicodeDecodeError:
        lossy = f"some bytes of the body are not {codec}"
        return Body(content.decode(codec, "replace"), "lossy", (*notices, lossy))


def _codec(content: bytes | bytearray, charset: str) -> tuple[str, tuple[str, ...]]:
    for mark, codec in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return codec, ()
    try:
        found = codecs.lookup(charset or "utf-8").name
        b" ".decode(found, "ignore")  # which refuses codecs from bytes to bytes
    except (LookupError, ValueError):
        found = "undefined"
    if found.replace("-", "_") in _NO_CHARSETS:
        return "utf-8", (f"the charset {charset!r:.40} is not known; the body was read as UTF-8",)
    return found, ()
