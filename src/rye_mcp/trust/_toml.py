"""Reads TOML that others wrote, within limits, and writes the few lines that are written here.

The number of bytes, brackets and dots is limited before anything is parsed. Unknown and missing keys are
`malformed_trust`: a mistyped word must not silently mean "everything".
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.visible import find_hidden

__all__ = ["is_owner", "is_visible_line", "malformed", "parse", "require_keys", "shown", "write_value"]

_NESTING_MARKS = (b"[", b"{", b".")
_SHOWN_CHARACTERS = 100

MAX_VISIBLE_CHARACTERS = 200
"""How long a reason may be."""

MAX_OWNER_CHARACTERS = 64
"""How long an owner may be: it is shown to agents too, in every answer that says who signed."""

_ROUND_BRACKETS = re.compile(
    "[()\u207d\u207e\u208d\u208e\u2768-\u276b\u27ee\u27ef\u2985\u2986\u2e28\u2e29"
    "\ufd3e\ufd3f\ufe35\ufe36\ufe59\ufe5a\uff08\uff09\uff5f\uff60]"
)
"""And all that look like them."""


def parse(data: bytes, place: Path, *, max_brackets: int) -> dict[str, Any]:
    """The table that stands in UTF-8 bytes, which were taken from `place`."""
    if sum(map(data.count, _NESTING_MARKS)) > max_brackets:
        raise malformed(place, f"at most {max_brackets} opening brackets and dots", "more")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError, OverflowError) as exc:
        raise malformed(place, "TOML", str(exc)) from exc


def require_keys(
    table: object, place: Path, what: str, *, required: Iterable[str], optional: Iterable[str] = ()
) -> Mapping[str, Any]:
    """The table, when it has all of one and nothing but both."""
    if not isinstance(table, dict):
        raise malformed(place, f"a table as {what}", type(table).__name__)
    missing = sorted(set(required) - table.keys())
    if missing:
        raise malformed(place, f"{', '.join(missing)} in {what}", "none")
    unknown = sorted(table.keys() - set(required) - set(optional))
    if unknown:
        raise malformed(place, f"no other keys in {what}", ", ".join(map(ascii, unknown))[:_SHOWN_CHARACTERS])
    return table


def is_visible_line(text: object) -> bool:
    """Whether this is one line that people can read."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= MAX_VISIBLE_CHARACTERS
        and text.isprintable()
        and not text.isspace()
        and find_hidden(text) is None
    )


def is_owner(text: object) -> bool:
    """Whether this can be what a key's owner is called."""
    return (
        isinstance(text, str)
        and is_visible_line(text)
        and len(text) <= MAX_OWNER_CHARACTERS
        and not _ROUND_BRACKETS.search(text)
        and text.split(" ") == text.split()
    )


def shown(value: object) -> str:
    """A value that somebody else wrote, in a message: text as ASCII, of anything else what it is."""
    return ascii(value)[:_SHOWN_CHARACTERS] if isinstance(value, str) else f"a {type(value).__name__}"


def write_value(value: str | int | Sequence[str]) -> str:
    """A value as TOML."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    return f"[{', '.join(map(write_value, value))}]"


def malformed(place: Path, expected: str, found: str) -> RyeError:
    """The error for a file that says who is trusted, and says it wrong."""
    return RyeError("malformed_trust", f"expected {expected} in {place}, found {found}", where=place)
