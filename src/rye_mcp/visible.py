"""Text out of files as people and models may see it: nothing that a terminal obeys, nothing that hides.

>>> visible("two\\nlines, \\x1b[2Jgone")
'two\\\\nlines, \\\\x1b[2Jgone'
"""

from __future__ import annotations

import re

__all__ = ["visible", "visible_lines"]

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e01ef]"
)


def visible(text: str) -> str:
    """The text as one line, with escapes for all that a terminal would obey or not show."""
    return visible_lines(text).replace("\n", "\\n").replace("\t", "\\t")


def visible_lines(text: str) -> str:
    """The same for the content of a file: its lines and tabs stay."""
    return text if text.isprintable() else _INVISIBLE.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
