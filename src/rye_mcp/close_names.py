"""The known name that an unknown one probably means: for hints, never to choose by it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

__all__ = ["MAX_COMPARED", "close_names"]

MAX_COMPARED: Final = 1000
"""How many known names are compared with one."""

MAX_CHARACTERS: Final = 200
"""How much of an unknown name is compared: others choose its length."""


def close_names(asked: str, known: Iterable[str], *, most: int = 1, likeness: float = 0.6) -> list[str]:
    """The known names that are most alike, the best first; none that is less alike than `likeness`."""
    from difflib import get_close_matches

    return get_close_matches(asked[:MAX_CHARACTERS], list(islice(known, MAX_COMPARED)), most, likeness)
