"""How much one validation may cost: time of the processor in all, and time for regular expressions.

The keywords of a schema ask for the effort that is left through a context variable, since a validator has
no place for what belongs to one call. Whoever has nothing left raises Exhausted; the validation then says
so in its result, and never that something fits which was not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from lilux.schemas._patterns import matches

__all__ = ["Exhausted", "current", "limited"]

TIME_LIMIT_S: Final = 0.3
"""How long a validation may work, and making its schema ready as long: through references, a schema can
demand more work than its size tells. While the thread waits for others, no time passes."""

PATTERN_LIMIT_S: Final = 0.25
"""How long all regular expressions of a validation may take together."""


class Exhausted(Exception):  # noqa: N818 - it is no error of anybody
    """A validation has taken too long; `instance` is the value that it was looking at."""

    def __init__(self, message: str, instance: Any) -> None:
        super().__init__(message)
        self.message = message
        self.instance = instance


class Effort:
    """What is left for one validation."""

    def __init__(self) -> None:
        self._deadline = time.thread_time() + TIME_LIMIT_S
        self._patterns_s = PATTERN_LIMIT_S

    def go_on(self, instance: Any) -> None:
        """Raise Exhausted when the time is up."""
        if time.thread_time() > self._deadline:
            raise Exhausted(f"expected a value that can be checked within {TIME_LIMIT_S:g} s", instance)

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a pattern is found in a text; Exhausted when that takes too long to tell."""
        started = time.monotonic()
        try:
            if self._patterns_s > 0:
                return matches(pattern, text, timeout_s=self._patterns_s)
        except TimeoutError:
            pass
        finally:
            self._patterns_s -= time.monotonic() - started
        raise Exhausted(
            f"expected a text on which all patterns can be tried within {PATTERN_LIMIT_S:g} s, "
            f"found one that is too hard for {_short(pattern)}",
            text,
        )


_current: ContextVar[Effort | None] = ContextVar("effort", default=None)


@contextmanager
def limited() -> Iterator[Effort]:
    """Give what happens in the block a new effort."""
    token = _current.set(Effort())
    try:
        yield current()
    finally:
        _current.reset(token)


def current() -> Effort:
    """The effort of the validation that is under way."""
    found = _current.get()
    if found is None:
        raise LookupError("expected a validation that is under way, found none")
    return found


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else f"{pattern[:60]}…")
