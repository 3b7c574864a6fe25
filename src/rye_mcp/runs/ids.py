"""The ids of runs, and the handles by which what a run has written is asked for.

Rules:

- A run id is 26 characters: the time in milliseconds (48 bits), then chance (80 bits), in Crockford's base 32
  and in lower case. Ids sort by the time at which they were made, nobody can guess one, and each has one
  form.
- An id comes from outside too. Nothing makes a path of it before `check_run_id` has seen it.
- A handle is `rye://runs/<run id>/<stream>`.

    >>> handle_of("01m7r64xnv25r13hyhb9ccmrbf", "stdout")
    'rye://runs/01m7r64xnv25r13hyhb9ccmrbf/stdout'
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeGuard

from rye_mcp.errors import RyeError

__all__ = [
    "STREAMS",
    "StreamName",
    "check_run_id",
    "check_stream",
    "first_id_at",
    "handle_of",
    "is_run_id",
    "new_run_id",
    "parse_handle",
    "time_of",
]

StreamName = Literal["stdout", "stderr", "result"]

STREAMS: Final[tuple[StreamName, ...]] = ("stdout", "stderr", "result")
"""The streams of a run; `result` is its descriptor for results."""

_SCHEME: Final = "rye://runs/"
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = 26
_CHANCE_BITS: Final = 80
_LAST_MILLISECOND: Final = 253_402_300_799_999  # of the year 9999, the last one that Python knows
_RUN_ID: Final = re.compile(rf"[0-7][{_DIGITS}]{{{_LENGTH - 1}}}", re.ASCII)
_SHOWN_CHARACTERS: Final = 60


def new_run_id() -> str:
    """An id for a run that begins now."""
    chance = int.from_bytes(os.urandom(_CHANCE_BITS // 8))
    return _digits_of((time.time_ns() // 1_000_000 << _CHANCE_BITS) | chance)


def first_id_at(moment: datetime) -> str:
    """Return the id that sorts before all ids made at this time or later, and after all others."""
    milliseconds = min(max(0, round(moment.timestamp() * 1000)), _LAST_MILLISECOND)
    return _digits_of(milliseconds << _CHANCE_BITS)


def _digits_of(number: int) -> str:
    return "".join(_DIGITS[number >> shift & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))


def check_run_id(run_id: object) -> str:
    """The run id, when it is one; RyeError `invalid_run_id` when it is anything else."""
    if is_run_id(run_id):
        return run_id
    found = ascii(run_id)[:_SHOWN_CHARACTERS] if isinstance(run_id, str) else type(run_id).__name__
    raise RyeError("invalid_run_id", f"expected a run id of {_LENGTH} characters, found {found}")


def is_run_id(text: object) -> TypeGuard[str]:
    """Whether this is a run id; who goes on with it asks `check_run_id` instead."""
    return isinstance(text, str) and _RUN_ID.fullmatch(text) is not None


def check_stream(stream: object) -> StreamName:
    """The name of a stream, when it is one; RyeError `output_not_found` when it is anything else."""
    for name in STREAMS:
        if stream == name:
            return name
    found = ascii(stream)[:_SHOWN_CHARACTERS]
    raise RyeError(
        "output_not_found",
        f"expected one of {', '.join(STREAMS)} as stream, found {found}",
        hint=f"one of {', '.join(STREAMS)}",
    )


def time_of(run_id: str) -> datetime:
    """When an id was made."""
    number = 0
    for digit in check_run_id(run_id):
        number = number << 5 | _DIGITS.index(digit)
    milliseconds = min(number >> _CHANCE_BITS, _LAST_MILLISECOND)
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


def handle_of(run_id: str, stream: StreamName) -> str:
    """Return the handle of a stream of a run."""
    return f"{_SCHEME}{check_run_id(run_id)}/{stream}"


def parse_handle(text: object) -> tuple[str, StreamName | None]:
    """The run id and the stream of a handle; a run id alone names no stream. RyeError when it is neither."""
    if not isinstance(text, str) or not text.startswith(_SCHEME):
        return check_run_id(text), None
    run_id, _, stream = text.removeprefix(_SCHEME).partition("/")
    return check_run_id(run_id), check_stream(stream)
