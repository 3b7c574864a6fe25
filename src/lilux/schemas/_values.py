"""What a value must be before it is compared with a schema: JSON, and of a size that can be looked at.

Python's structures can hold what JSON cannot (NaN, names that are numbers, objects that hold themselves),
and more than a validator that follows them can bear. All of this is found here without recursion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from lilux.primitives.errors import ValidationError
from lilux.schemas._reports import pointer
from lilux.schemas._subschemas import Path

__all__ = ["DEPTH_LIMIT", "count", "everything", "items", "refusal"]

DEPTH_LIMIT: Final = 64
"""Objects and lists inside each other in a value."""

VALUES_LIMIT: Final = 1_000_000
"""How many values a value may have inside."""

DIGITS_LIMIT: Final = 4000
"""Digits of a whole number."""

BITS_LIMIT: Final = DIGITS_LIMIT * 3
"""Bits that never make more digits than that."""


def refusal(parameters: Any) -> ValidationError | None:
    """Why a value cannot be checked at all; None when it can."""
    level, count, depth = [parameters], 0, 0
    while level:
        if any(map(_is_odd, level)):
            return _oddity(parameters)
        level = [item for value in level for item in items(value)]
        depth, count = depth + bool(level), count + len(level)
        if depth > DEPTH_LIMIT:
            return ValidationError(
                "", f"expected at most {DEPTH_LIMIT} objects and lists inside each other, found more"
            )
        if count > VALUES_LIMIT:
            return ValidationError("", f"expected at most {VALUES_LIMIT} values, found more")
    return None


def items(value: Any) -> Iterator[Any]:
    """The values directly inside a value."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def everything(value: Any) -> Iterator[tuple[Path, Any]]:
    """A value and all values inside it, and the way to each."""
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, found = pending.pop()
        yield path, found
        if len(path) <= DEPTH_LIMIT and isinstance(found, dict | list):
            pairs = list(found.items() if isinstance(found, dict) else enumerate(found))
            pending.extend(((*path, key), item) for key, item in reversed(pairs))


def count(value: Any) -> int:
    """How many values a value is, with all that are inside it."""
    return sum(1 for _ in everything(value))


def _is_odd(value: Any) -> bool:
    """Whether JSON cannot hold a value though Python can."""
    if isinstance(value, dict):
        return not all(isinstance(name, str) for name in value)
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and value.bit_length() > BITS_LIMIT


def _oddity(parameters: Any) -> ValidationError:
    path, value = next((path, value) for path, value in everything(parameters) if _is_odd(value))
    if isinstance(value, dict):
        return ValidationError(pointer(path), "expected an object whose names are text")
    return ValidationError(pointer(path), f"expected a finite number of less than {DIGITS_LIMIT} digits")
