"""What an example expects, compared with what its run has found: every difference, or none.

Rules:

- `data` is the same value of JSON: `true` is not 1, and 1 is 1.0.
- `contains` is a part of it: a mapping may have more keys, a list more elements in any place, a text more
  around it. Whatever else stands there has to be the same.
- Differences are lines for people: a diff of the whole value for `data`, the places for `contains`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any, Final

from rye_mcp.executor.results import ExecutionResult
from rye_mcp.metadata import Example

__all__ = ["differences"]

MAX_LINES: Final = 60
"""How many lines of difference are told."""

_SHOWN: Final = 200


def differences(example: Example, found: ExecutionResult) -> tuple[str, ...]:
    """What is otherwise than expected."""
    expected = example.expected_code
    if expected is not None:
        return () if found.code == expected else (f"expected {expected}, found {found.code or 'success'}",)
    if not found.success:
        return (f"expected success, found {found.code}: {found.error}",)
    if example.expect is None:
        return ()
    how, value = example.expect
    lines = _diff(value, found.data) if how == "data" else list(_missing(value, found.data, ""))
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} more lines"]
    return tuple(lines)


def _diff(expected: Any, found: Any) -> Sequence[str]:
    if _is_same(expected, found):
        return ()
    before, after = (_spelled(value) for value in (expected, found))
    lines = list(unified_diff(before, after, "expected", "found", lineterm="", n=2))
    return lines or (f"expected {_short(expected)}, found {_short(found)}",)


def _spelled(value: Any) -> list[str]:
    """A value as lines; a text of several lines as those."""
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True).split("\n")


def _missing(expected: Any, found: Any, place: str) -> Iterator[str]:
    """What of the expected value is not in what was found."""
    match expected, found:
        case dict(), dict():
            for name, value in expected.items():
                if name in found:
                    yield from _missing(value, found[name], f"{place}/{name}")
                else:
                    yield f"{place}/{name}: expected {_short(value)}, found nothing"
        case list(), list():
            for number, value in enumerate(expected):
                if not any(_contains(value, each) for each in found):
                    yield f"{place}/{number}: expected {_short(value)} in the list, found {_short(found)}"
        case str(), str():
            if expected not in found:
                yield f"{place or '/'}: expected text with {_short(expected)}, found {_short(found)}"
        case _:
            if not _is_same(expected, found):
                yield f"{place or '/'}: expected {_short(expected)}, found {_short(found)}"


def _contains(expected: Any, found: Any) -> bool:
    return next(_missing(expected, found, ""), None) is None


def _is_same(expected: Any, found: Any) -> bool:
    match expected, found:
        case dict(), dict():
            return expected.keys() == found.keys() and all(
                _is_same(value, found[name]) for name, value in expected.items()
            )
        case list(), list():
            return len(expected) == len(found) and all(map(_is_same, expected, found))
    return isinstance(expected, bool) == isinstance(found, bool) and bool(expected == found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
