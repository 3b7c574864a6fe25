"""Tables and code in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["cell", "code", "explained", "table"]

_LOOSE_ANGLE: Final = re.compile(r"<(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""What would begin a tag, outside of code."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, without the line break at its end."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def cell(text: str) -> str:
    """A text of one line, as it may stand in a cell."""
    return _LOOSE_ANGLE.sub(r"\\<", _one_line(text))


def code(text: str) -> str:
    """A text as code, in a cell; nothing for no text."""
    return f"`{_one_line(text)}`" if text else ""


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def explained(names: Iterable[str], meanings: Mapping[str, str], *, what: str) -> list[tuple[str, str]]:
    """Each name with what a person says that it means; ValueError where the two do not name the same."""
    listed = list(names)
    if set(listed) != set(meanings):
        missing, superfluous = sorted(set(listed) - set(meanings)), sorted(set(meanings) - set(listed))
        raise ValueError(f"expected every {what} to be explained, found {missing=}, {superfluous=}")
    return [(name, meanings[name]) for name in listed]
