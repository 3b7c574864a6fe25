"""How much Python is handed to Python's own parser, which takes its time with text that was made for it.

Rules:

- What passes is parsed in a fraction of a second, whatever it says. 300 KiB of ordinary lines pass as a rule;
  the limits are for what nobody writes.
- The parser needs a few microseconds for each word or sign, so these are counted. They are counted without
  regard to strings and comments, since who gets those wrong counts too little; where one string ends is not
  even the same in every version of Python.
- For each `{` in an f-string it goes through the string (before 3.12) or the rest of the file again, and for
  each dot of an imported name through what is before it: there the product is what counts. Marks on top of
  one letter are sorted, each past all of the others.
- What is nested too deeply it refuses by itself, and in no time.

    >>> require_parsable("x = 1\\n")
"""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import Final

from rye_mcp.metadata._issues import Unreadable

__all__ = ["require_parsable"]

MAX_SOURCE_BYTES: Final = 384 << 10
"""How large a source may be that is parsed whole."""

MAX_TOKENS: Final = 75_000
"""How many words and signs there may be in it."""

MAX_F_STRING_WORK: Final = 500_000_000
"""How many bytes times `{` there may be in a source with f-strings."""

MAX_IMPORT_DOTS: Final = 100
"""How many dots there may be in one import."""

MAX_MARKS: Final = 64
"""How many combining marks there may be in a row."""

# Words; lines; strings without a word in them; signs, without those that come in pairs or between words.
_TOKEN: Final = re.compile(r"""\w+|\n\s*|["'][^"'\w\n]*["']|[.:]{2,}|:\]|[^\w\s"').\]}:=]""")
_F_STRING: Final = re.compile(r"""(?<![A-Za-z0-9_])[rR]?[fFtT][rR]?["']""")
_SYMBOLS: Final = re.compile(rf"[^\x00-\x7f\w\s]{{{MAX_MARKS + 1},}}")
_IMPORT: Final = re.compile(
    r"(?:^|[;:])[ \t\f]*+(?:from|import)\b(?:[^\n;#(\\]|\\.)*+", re.MULTILINE | re.DOTALL
)


def require_parsable(text: str) -> None:
    """Unreadable, with the limit and the line, for what the parser would be busy with for too long."""
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    if size > MAX_SOURCE_BYTES:
        what = f"expected at most {MAX_SOURCE_BYTES} bytes of Python that is read whole, found {size}"
        raise Unreadable(what, _line_at(text, MAX_SOURCE_BYTES))
    _require_few_fields(text, size)
    _require_few_marks(text)
    _require_few_dots(text)
    if len(text) > MAX_TOKENS and (beyond := next(islice(_TOKEN.finditer(text), MAX_TOKENS, None), None)):
        what = f"expected at most {MAX_TOKENS} words and signs of Python, found more"
        raise Unreadable(what, _line_at(text, beyond.start()))


def _require_few_fields(text: str, size: int) -> None:
    limit = MAX_F_STRING_WORK // max(size, 1)
    if text.count("{") <= limit or (f_string := _F_STRING.search(text)) is None:
        return
    what = f"expected at most {limit} {{ in {size} bytes of Python with f-strings, found {text.count('{')}"
    raise Unreadable(what, _line_at(text, f_string.start()))


def _require_few_dots(text: str) -> None:
    # To look for imports takes as long as a third of the parsing, and most files have fewer dots in all.
    for imported in _IMPORT.finditer(text) if text.count(".") > MAX_IMPORT_DOTS else ():
        if imported[0].count(".") > MAX_IMPORT_DOTS:
            what = f"expected at most {MAX_IMPORT_DOTS} dots in one import, found more"
            raise Unreadable(what, _line_at(text, imported.start()))


def _require_few_marks(text: str) -> None:
    for symbols in () if text.isascii() else _SYMBOLS.finditer(text):
        if sum(map(bool, map(unicodedata.combining, symbols[0]))) > MAX_MARKS:
            what = f"expected at most {MAX_MARKS} combining marks in a row, found more"
            raise Unreadable(what, _line_at(text, symbols.start()))


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
