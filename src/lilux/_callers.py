"""On whose behalf something is done: what is scarce is shared out between callers, not between calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["caller", "on_behalf_of"]

_caller: ContextVar[str] = ContextVar("caller", default="")


@contextmanager
def on_behalf_of(whose: str) -> Iterator[None]:
    """Count what is done in the block, and what is begun there, as work of this caller."""
    token = _caller.set(whose)
    try:
        yield
    finally:
        _caller.reset(token)


def caller() -> str:
    """On whose behalf this is done; one and the same caller where nobody said so."""
    return _caller.get()
