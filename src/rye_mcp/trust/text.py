"""What the bytes of an item may be, apart from what they say.

Rules:

- `require_text` holds whenever an item is verified: at most 1 MiB of UTF-8, without a byte order mark, a
  carriage return or a NUL. Bytes are never changed to make them so.
- `require_honest_text` holds besides when an item is signed: nothing that makes a file look other than it
  is. No control characters for bidirectional text, no characters without a width, no tags, no C1 controls,
  and no Python file that says that it is in another encoding.
- What is refused is a RyeError, `too_large` or `not_text`, with the line that it was found in.
"""

from __future__ import annotations

import codecs
import re

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_ITEM_BYTES, SHEBANG, ItemFile

__all__ = ["require_honest_text", "require_text"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REFUSED_BYTES = {b"\r": "a carriage return", b"\0": "a NUL"}
_HIDDEN = re.compile(
    "[\u0080-\u009f"  # C1 controls, NEL among them
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, embeddings, overrides, isolates
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d"  # without a width, or with nothing in it
    "\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
    "\U000e0000-\U000e007f]"  # tags
)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
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
    if file.content.isascii():
        return
    text = file.content.decode("utf-8")
    if found := _HIDDEN.search(text):
        position = len(text[: found.start()].encode("utf-8"))
        raise _not_text(file, "characters that can be seen", f"U+{ord(found[0]):04X}", position)


def _require_utf8_cookie(file: ItemFile) -> None:
    if not _is_python(file):
        return
    position = 0
    for line in file.content.split(b"\n", _COOKIE_LINES)[:_COOKIE_LINES]:
        if (cookie := _COOKIE.match(line)) and not _is_utf8(cookie[1]):
            raise _not_text(file, "a Python file in UTF-8", f"the encoding {cookie[1].decode()!r}", position)
        position += len(line) + 1


def _is_python(file: ItemFile) -> bool:
    shebang = file.content.partition(b"\n")[0] if file.content.startswith(SHEBANG) else b""
    return file.extension == ".py" or (not file.extension and b"python" in shebang)


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
