"""Decides when a failed request is tried again, and how long to wait before.

The caller decides what is worth another attempt. `Retry-After` wins over the usual wait, up to a limit. Time
and chance come from a `Clock`.
"""

from __future__ import annotations

import random
import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Literal, Protocol

import anyio

from lilux._dataclasses import dataclass

__all__ = ["Backoff", "Clock", "RetryPolicy", "SystemClock", "delay_after_failure", "delay_after_status"]

Backoff = Literal["exponential", "linear"]

MAX_BACKOFF_S: Final = 3600.0
"""No wait between two attempts is longer."""

MAX_RETRY_AFTER_S: Final = 60.0
"""A server that asks for more gets this much."""

JITTER: Final = 0.25
"""The largest random part of a wait after a status."""

MAX_WAIT_S: Final = MAX_BACKOFF_S * (1 + JITTER)
"""No wait is longer, whatever it is for."""

_SECONDS: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to try, how the waits grow, and the statuses that are worth another attempt."""

    max_attempts: int = 1
    backoff: Backoff = "exponential"
    on_status: frozenset[int] = frozenset()


class Clock(Protocol):
    """Where waiting, the date and chance come from."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def random(self) -> float:
        """A number from 0 up to 1."""
        ...


class SystemClock:
    """The real one."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def random(self) -> float:
        """A number from 0 up to 1."""
        return random.random()  # noqa: S311 - it spreads load, and keeps no secret


def delay_after_failure(policy: RetryPolicy, attempt: int) -> float:
    """Seconds to wait after the attempt with this number, counted from 0."""
    if policy.backoff == "linear":
        return min(attempt + 1.0, MAX_BACKOFF_S)
    return min(2.0 ** min(attempt, 32), MAX_BACKOFF_S)


def delay_after_status(policy: RetryPolicy, attempt: int, retry_after: str | None, clock: Clock) -> float:
    """The same after a status, where the server may have asked for a wait of its own."""
    asked = _seconds(retry_after, clock.time()) if retry_after else None
    delay = delay_after_failure(policy, attempt) if asked is None else min(asked, MAX_RETRY_AFTER_S)
    return delay * (1 + JITTER * clock.random())


def _seconds(retry_after: str, now: float) -> float | None:
    """Read the header as seconds from now; None when it makes no sense."""
    if _SECONDS.fullmatch(retry_after):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
