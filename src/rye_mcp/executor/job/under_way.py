"""The runs of this process that are under way: what one of them has made was not there before for another.

Otherwise one run makes a name, another finds it there, and the name is in place when both are over.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

from rye_mcp.executor.job.planted import Missing

__all__ = ["UNDER_WAY", "UnderWay"]

Value = TypeVar("Value")


class UnderWay:
    """Names that were missing before runs that have not ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: dict[str, Missing] = {}
        self._looking = 0
        self._ended: set[Missing] = set()
        """Runs that have ended since somebody began to look who still does."""

    def begin(self, run_id: str, missing: Missing) -> None:
        """Say that a run may make names from now on."""
        with self._lock:
            self._runs[run_id] = missing

    def end(self, run_id: str) -> None:
        """Say that what a run has made has been moved away."""
        with self._lock:
            missing = self._runs.pop(run_id, None)
            if self._looking and missing is not None:
                self._ended.add(missing)

    def beside(self, look: Callable[[], Value]) -> tuple[Value, tuple[Missing, ...]]:
        """Look, and return what came of it with the runs that were under way at any time meanwhile."""
        with self._lock:
            self._looking += 1
        try:
            value = look()
            with self._lock:
                return value, tuple({*self._runs.values(), *self._ended})
        finally:
            with self._lock:
                self._looking -= 1
                if not self._looking:
                    self._ended.clear()


UNDER_WAY: Final = UnderWay()
