"""The guards that `scripts/mutate.py` removes, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scripts.mutate import load
from scripts.reference.tables import cell, code, table

__all__ = ["PARTS"]

_TESTS: Final = "tests/"


def _mutations() -> str:
    rows = [(cell(each.guards), cell(each.without), ", ".join(map(_shown, each.red))) for each in load()]
    return table(("guards", "without it", "what went red"), rows)


def _shown(test: str) -> str:
    return code(test.removeprefix(_TESTS))


PARTS: Final[Mapping[str, Callable[[], str]]] = {"mutations": _mutations}
