"""The items that an id or a pattern of ids selects.

In a pattern `*` stands for any characters, also `/`, and `?` for one. Patterns are compared with listed ids
and are never paths. What only looks like an item is selected as its refusal, so that no link is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemPlace, ItemType, Space, SpaceName, printable
from rye_mcp.spaces import Spaces

__all__ = [
    "EVERYTHING",
    "Refused",
    "Selection",
    "Tracked",
    "is_pattern",
    "matches",
    "require_pattern",
    "select",
]

EVERYTHING: Final = "*"
"""The pattern that every id matches."""

Tracked = Callable[[Sequence[ItemPlace]], Iterable[ItemPlace]]
"""Yields the items one after the other while they are worked on, so that a caller can show progress."""

MAX_PATTERN: Final = 519
"""How many characters a pattern may have: as many as the longest id."""

_SEGMENT = r"[A-Za-z0-9_*?][A-Za-z0-9_.*?-]*"
_PATTERN: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Refused:
    """A file in the place of an item that is not one, or that cannot be told from another one."""

    item_id: str
    item_type: ItemType
    space: Space
    error: RyeError


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected items, by space, type and id."""

    places: tuple[ItemPlace, ...]
    refused: tuple[Refused, ...] = ()


def is_pattern(text: object) -> bool:
    """Whether this is meant as a pattern, and not as an id."""
    return isinstance(text, str) and ("*" in text or "?" in text)


def select(
    spaces: Spaces, pattern: str, *, names: Iterable[SpaceName], types: Iterable[ItemType]
) -> Selection:
    """Everything in these spaces that matches; RyeError `invalid_id` for what is no pattern."""
    require_pattern(pattern)
    places: list[ItemPlace] = []
    refused: list[Refused] = []
    kinds = tuple(types)
    for name in names:
        for item_type in kinds:
            listing = spaces.list(name, item_type)
            places += [place for place in listing.items if matches(pattern, place.item_id)]
            for error in listing.refused:
                item_id = _id_in(error, spaces.space(name), item_type)
                if matches(pattern, item_id):
                    refused.append(Refused(item_id, item_type, spaces.space(name), error))
    return Selection(tuple(places), tuple(refused))


def require_pattern(pattern: str) -> None:
    """RyeError `invalid_id` for what no id and no pattern can be."""
    if len(pattern) > MAX_PATTERN:
        what = f"expected a pattern of at most {MAX_PATTERN} characters, found {len(pattern)}"
        raise RyeError("invalid_id", what)
    if not _PATTERN.fullmatch(pattern):
        raise RyeError(
            "invalid_id",
            f"expected a pattern of ids such as demo/*, found {pattern!a}",
            hint="segments of A-Z a-z 0-9 _ . - * ? joined by /, such as 'demo/*'",
        )


def matches(pattern: str, item_id: str) -> bool:
    """Whether an id matches; in time that grows no faster than both lengths, whatever the pattern is."""
    at = place = resume = 0
    star = -1
    while place < len(item_id):
        expected = pattern[at] if at < len(pattern) else None
        if expected == "*":
            star, resume = at, place
            at += 1
        elif expected in ("?", item_id[place]):
            at += 1
            place += 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return all(character == "*" for character in pattern[at:])


def _id_in(error: RyeError, space: Space, item_type: ItemType) -> str:
    """The id that a file would have, as far as its name tells one."""
    where, root = error.where or "", printable(space.root / item_type.directory) + "/"
    if not where.startswith(root):
        return where
    relative = where.removeprefix(root)
    above, slash, name = relative.rpartition("/")
    stem, dot, _ = name.rpartition(".")
    return above + slash + (stem if dot else name)
