"""The signature line of a file, the statement that it signs, and which bytes a file may have. Does no I/O.

    # rye:signed:2026-11-18T10:00:00Z:<sha256>:<signature>:<fingerprint>

The statement has the item's type, id and extension, the time, the key, the hash and the length, so a
signature is valid for no other item, time or key. Each line and each signature has exactly one form.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
from datetime import UTC, datetime
from functools import lru_cache

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import MARKER, MAX_ITEM_BYTES, SHEBANG, ItemFile, comment_style, signed_path
from rye_mcp.visible import find_hidden

__all__ = [
    "MARKER",
    "MAX_LINE_BYTES",
    "Claim",
    "SignatureLine",
    "attach",
    "content_digest",
    "detach",
    "format_timestamp",
    "locate",
    "parse",
    "pre_authentication_digest",
    "require_honest_text",
    "require_text",
    "statement_digest",
]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REFUSED_BYTES = {b"\r": "a carriage return", b"\0": "a NUL"}
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PYTHON_EXTENSIONS = {".py", ""}
"""Extensions of files that may be Python: a file without one may start Python by its `#!` line."""

_COOKIE_LINES = 3
"""Python looks for it in the first two lines; the signature may come or go before them."""


def require_text(file: ItemFile) -> None:
    """Refuse what cannot be an item, signed or not."""
    content = file.content
    if len(content) > MAX_ITEM_BYTES:
        raise RyeError(
            "too_large",
            f"expected at most {MAX_ITEM_BYTES} bytes in {file.path}, found {len(content)}",
            where=file.path,
            item_id=file.item_id,
        )
    if content.startswith(_BYTE_ORDER_MARK):
        raise _not_text(file, "no byte order mark", "one", 0)
    for byte, name in _REFUSED_BYTES.items():
        if (position := content.find(byte)) >= 0:
            raise _not_text(file, f"no byte {byte!r}", name, position)
    if content.isascii():
        return
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _not_text(file, "UTF-8", f"the byte {content[exc.start]:#04x}", exc.start) from exc


def require_honest_text(file: ItemFile) -> None:
    """Refuse what should not be signed, because it looks other than it is."""
    require_text(file)
    _require_utf8_cookie(file)
    text = file.content.decode("utf-8")
    if (found := find_hidden(text)) is not None:
        position = len(text[:found].encode("utf-8"))
        raise _not_text(file, "characters that can be seen", f"U+{ord(text[found]):04X}", position)


def _require_utf8_cookie(file: ItemFile) -> None:
    if file.extension not in _PYTHON_EXTENSIONS:
        return
    position = 0
    for line in file.content.split(b"\n", _COOKIE_LINES)[:_COOKIE_LINES]:
        if (cookie := _COOKIE.match(line)) and not _is_utf8(cookie[1]):
            raise _not_text(
                file, "UTF-8 as the encoding for Python", f"the encoding {cookie[1].decode()!r}", position
            )
        position += len(line) + 1


def _is_utf8(name: bytes) -> bool:
    try:
        return codecs.lookup(name.decode("ascii")).name == "utf-8"
    except (LookupError, ValueError):
        return False


def _not_text(file: ItemFile, expected: str, found: str, position: int) -> RyeError:
    line = file.content.count(b"\n", 0, position) + 1
    return RyeError(
        "not_text",
        f"expected {expected} in {file.path}, found {found} in line {line}",
        where=file.path,
        item_id=file.item_id,
        line=line,
    )


MAX_LINE_BYTES = 512
"""How long a signature line may be, with its newline."""

_PAYLOAD_TYPE = b"application/vnd.rye.item-signature.v1"
_TIMESTAMP_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_NUMBER_IN_TIMESTAMP = re.compile("[0-9]+")
_FIELDS = (
    rb"rye:signed:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
    rb":([0-9a-f]{64}):([A-Za-z0-9_-]{86}==):([0-9a-f]{16})"
)


@dataclass(frozen=True, slots=True)
class SignatureLine:
    """The four fields of a signature line."""

    timestamp: str
    content_hash: str
    signature: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A file taken apart: its signature line as bytes, not looked at yet, and the hash of everything else.

    `start` is where the line begins; it ends, with its newline, where `end` says.
    """

    start: int
    end: int
    line: bytes
    digest: str
    length: int


def locate(file: ItemFile) -> Claim:
    """Find the signature line and hash the rest; RyeError `unsigned` or `malformed_signature`."""
    content = file.content
    start = _place(content)
    end = _line_end(content, start)
    if content.find(MARKER, start, end) < 0:
        raise RyeError(
            "unsigned",
            f"expected a signature in line {_number(start)} of {file.path}, found none",
            where=file.path,
            item_id=file.item_id,
        )
    if end == len(content) and not content.endswith(b"\n"):
        raise _malformed(file, start, "a newline after it", "the end of the file")
    if end - start > MAX_LINE_BYTES:
        raise _malformed(file, start, f"at most {MAX_LINE_BYTES} bytes", f"{end - start}")
    if content.find(MARKER, end, _line_end(content, end)) >= 0:
        raise _malformed(file, start, "one signature line", "another one after it")
    if not start and content.startswith(SHEBANG, end):
        raise _malformed(file, start, "the line `#!…` before the signature", "it after the signature")
    hashed = hashlib.sha256(content[:start])
    hashed.update(memoryview(content)[end:])
    length = len(content) - (end - start)
    return Claim(start, end, content[start : end - 1], hashed.hexdigest(), length)


def parse(file: ItemFile, claim: Claim) -> SignatureLine:
    """Read the fields of the line; RyeError `malformed_signature` when it is not exactly one."""
    found = _pattern(file.extension).fullmatch(claim.line)
    if found is None:
        raise _malformed(file, claim.start, "exactly one comment with the five fields", "something else")
    timestamp, content_hash, signature, fingerprint = (field.decode("ascii") for field in found.groups())
    try:
        year, month, day, hour, minute, second = map(int, _NUMBER_IN_TIMESTAMP.findall(timestamp))
        datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as exc:
        raise _malformed(file, claim.start, "a time that exists", timestamp) from exc
    if base64.urlsafe_b64encode(base64.urlsafe_b64decode(signature)).decode("ascii") != signature:
        raise _malformed(file, claim.start, "base64 in its one form", signature)
    return SignatureLine(timestamp, content_hash, signature, fingerprint)


def statement_digest(file: ItemFile, *, timestamp: str, key_id: str, digest: str, length: int) -> str:
    """The SHA256 of what is signed, as 64 hexadecimal digits; RyeError `invalid_id` for no such name."""
    signed_path(file.item_type, file.item_id, file.extension)
    body = (
        f"item-type: {file.item_type.value}\n"
        f"item-id: {file.item_id}\n"
        f"item-ext: {file.extension}\n"
        f"signed-at: {timestamp}\n"
        f"key-id: {key_id}\n"
        f"content-sha256: {digest}\n"
        f"content-length: {length}\n"
    ).encode("ascii")
    return pre_authentication_digest(_PAYLOAD_TYPE, body)


def pre_authentication_digest(payload_type: bytes, body: bytes) -> str:
    """The SHA256 of a body in the pre-authentication encoding of DSSE, which says what kind of body it is."""
    encoded = b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type, len(body), body)
    return hashlib.sha256(encoded).hexdigest()


def content_digest(content: bytes) -> str:
    """The SHA256 of content without a signature line, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def detach(file: ItemFile) -> bytes:
    """The content without its signature line, valid or not; RyeError `malformed_signature` when there is
    something in its place that may not be thrown away unseen.
    """
    try:
        claim = locate(file)
    except RyeError as exc:
        if exc.code != "unsigned":
            raise
        return file.content
    parse(file, claim)
    return file.content[: claim.start] + file.content[claim.end :]


def attach(file: ItemFile, content: bytes, line: SignatureLine) -> bytes:
    """Put a signature line into content that has none."""
    start = _place(content)
    if start == 0 and content.startswith(SHEBANG):
        raise RyeError(
            "invalid_item",
            f"expected a newline after the line `#!…` of {file.path}, found the end of the file",
            where=file.path,
            item_id=file.item_id,
            hint=f"add a program below it, then: rye sign {file.item_id}",
        )
    style = comment_style(file.extension)
    if style is None:
        raise _no_comments(file)
    fields = f"{line.timestamp}:{line.content_hash}:{line.signature}:{line.fingerprint}".encode("ascii")
    written = style.opening + MARKER + fields + style.closing + b"\n"
    return content[:start] + written + content[start:]


def format_timestamp(moment: datetime) -> str:
    """A moment with a time zone, as it stands in a signature line."""
    if moment.tzinfo is None:
        raise ValueError("expected a moment with a time zone, found one without")
    return moment.astimezone(UTC).strftime(_TIMESTAMP_FORMAT)


def _place(content: bytes) -> int:
    """Where the signature line begins, or would: after a whole shebang line, else at the beginning."""
    return content.find(b"\n") + 1 if content.startswith(SHEBANG) else 0


def _line_end(content: bytes, start: int) -> int:
    """Where the next line begins."""
    return content.find(b"\n", start) + 1 or len(content)


@lru_cache(maxsize=64)
def _pattern(extension: str) -> re.Pattern[bytes]:
    style = comment_style(extension)
    if style is None:
        return re.compile(rb"(?!)")
    return re.compile(re.escape(style.opening) + _FIELDS + re.escape(style.closing))


def _number(start: int) -> int:
    return 2 if start else 1


def _malformed(file: ItemFile, start: int, expected: str, found: str) -> RyeError:
    return RyeError(
        "malformed_signature",
        f"expected {expected} as signature in line {_number(start)} of {file.path}, found {found}",
        where=file.path,
        item_id=file.item_id,
        line=_number(start),
    )


def _no_comments(file: ItemFile) -> RyeError:
    return RyeError(
        "invalid_item",
        f"expected a kind of file that can hold a comment, found {file.path}",
        where=file.path,
        item_id=file.item_id,
    )
