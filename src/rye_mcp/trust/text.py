"""What the bytes of an item may be, apart from what they say.

Rules:

- `require_text` holds whenever an item is verified: at most 1 MiB of UTF-8, without a byte order mark, a
  carriage return or a NUL. Bytes are never changed to make them so.
- `require_honest_text` holds besides when an item is signed: nothing that makes a file look other than it
  is. No control characters but the line feed and the tab, none for bidirectional text, no separators of lines
  that are none, no characters without a width, no tags, and no file that Python would take to be in another
  encoding. A form feed divides the pages of some old Python sources; it is refused with the others, since a
  terminal may clear what was above it, and no program is less for want of it. What makes an emoji of a
  character (U+FE0F) is allowed.
- What is refused is a RyeError, `too_large` or `not_text`, with the line that it was found in.
"""

from __future__ import annotations

import codecs
import re

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ITEM_BYTES, ItemFile

__all__ = ["find_hidden", "require_honest_text", "require_text"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REFUSED_BYTES = {b"\r": "a carriage return", b"\0": "a NUL"}
_HIDDEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f"  # C0 controls and DEL, which move and colour what a terminal shows
    "\u0080-\u009f\u2028\u2029"  # C1 controls, NEL among them; separators of lines and paragraphs
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, embeddings, overrides, isolates
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d"  # without a width, or with nothing in it
    "\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
    "\u2800\ufff9-\ufffb\U0001d173-\U0001d17a"  # Braille without dots, annotations, beams and slurs
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"  # tags, variation selectors that carry whole texts
)
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


def find_hidden(text: str) -> re.Match[str] | None:
    """The first character that makes a text look other than it is."""
    return _HIDDEN.search(text)


def require_honest_text(file: ItemFile) -> None:
    """Refuse what should not be signed, because it looks other than it is."""
    require_text(file)
    _require_utf8_cookie(file)
    text = file.content.decode("utf-8")
    if found := find_hidden(text):
        position = len(text[: found.start()].encode("utf-8"))
        raise _not_text(file, "characters that can be seen", f"U+{ord(found[0]):04X}", position)


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
