"""What the bytes of an item may be, apart from what they say.

Rules:

- `require_text` holds whenever an item is verified: at most 1 MiB of UTF-8, without a byte order mark, a
  carriage return or a NUL. Bytes are never changed to make them so.
- `require_honest_text` holds besides when an item is signed: no character that hides (see `rye_mcp.visible`),
  and no file that Python would take to be in another encoding. The form feed that divides the pages of some
  old Python sources is refused too: a terminal may clear what was above it, and no program needs it.
- What is refused is a RyeError, `too_large` or `not_text`, with the line that it was found in.
"""

from __future__ import annotations

import codecs
import re

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ITEM_BYTES, ItemFile
from rye_mcp.visible import find_hidden

__all__ = ["require_honest_text", "require_text"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REFUSED_BYTES = {b"\r": "a carriage return", b"\0": "a NUL"}
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PYTHON_EXTENSIONS = {".py", ""}
"""What may be Python: without an extension, whatever its `#!` says, as that may start Python."""

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
