"""What every source of metadata comes to: values that JSON can hold, the lines they stand in, and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["MAX_DEPTH", "MAX_INT_BITS", "MAX_NODES", "Place", "Raw", "Way", "kind"]

MAX_DEPTH: Final = 64
"""How many lists and mappings may stand inside each other."""

MAX_NODES: Final = 20_000
"""How many values there may be in one item, those behind aliases counted each time."""

MAX_INT_BITS: Final = 1024
"""How long a whole number may be."""


Way = tuple[str | int, ...]
"""The keys and positions that lead to a value, the name of its field first."""

Place = tuple[int, int]
"""A line and a column, both counted from 1."""


@dataclass(slots=True)
class Raw:
    """What an item says about itself, before anything of it was checked.

    `values` are by the names of metadata fields, `lines` says in which line of the file each begins. `places`
    says of every value, by the way to it, in which line and column it begins, for who asks for all of that;
    `description` is what the code says for want of a description, such as a docstring. `besides` are names of
    Python that look like those of metadata and are none, with their lines, for who asks for all of that too.
    """

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    description: str | None = None
    places: dict[Way, Place] = field(default_factory=dict)
    besides: dict[str, int] = field(default_factory=dict)

    def column(self, name: str) -> int | None:
        """Where in the line of a field its value begins, when it does so there and that is known."""
        line, column = self.places.get((name,), (None, None))
        return column if line == self.lines.get(name) else None

    def place(self, way: Way) -> Place | tuple[int | None, None]:
        """Where a value begins, or the nearest around it of which that is known."""
        for length in range(len(way), 0, -1):
            if way[:length] in self.places:
                return self.places[way[:length]]
        return self.lines.get(str(way[0])), None


def kind(value: object) -> str:
    """What a value is, in words for messages."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return str(value).lower()
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return type(value).__name__


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "text"),
    ((int, float), "a number"),
    (list, "a list"),
    (dict, "a mapping"),
)
