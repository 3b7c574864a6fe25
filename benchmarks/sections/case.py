"""What a section measures: one call, and the floor that it stands on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Case"]

Call = Callable[[], Any]


def _anything(answer: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Case:
    """One call through lilux, and the same through what it stands on, if that is to be compared."""

    name: str
    ours: Call
    floor: Call | None = None
    is_right: Callable[[Any], bool] = _anything
    """Whether an answer, of either, is right."""
    max_ratio: float | None = None
    """The target for ours ÷ floor."""
    max_ms: float | None = None
    """The target for ours by itself, where the specification names a time."""
