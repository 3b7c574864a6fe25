"""The `warm` field of a runtime: how its interpreter is started before there is a call for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from lilux._dataclasses import dataclass
from rye_mcp.metadata._forms import Form, Problem, expected, list_of, mapping, one_of, text

__all__ = ["WARM_FORM", "Warm", "read_warm"]

PYTHON: Final = "python"
NODE: Final = "node"
"""The ways to prepare an interpreter: a Python is forked where that can be, a Node.js is started early."""

MAX_KEPT: Final = 16
MAX_SECONDS: Final = 600

_KEPT: Final = 2
_SECONDS: Final = 300


MAX_PRELOADED: Final = 32
_MODULE: Final = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"


Prepare = Literal["python", "node"]


@dataclass(frozen=True, slots=True)
class Warm:
    """How interpreters of a runtime wait for calls: how many at most, and how many seconds each.

    `preload` are modules of the interpreter's own environment that they have imported before.
    """

    prepare: Prepare
    keep: int = _KEPT
    seconds: int = _SECONDS
    preload: tuple[str, ...] = ()


def read_warm(value: Any) -> Warm:
    """Read a value in which `WARM_FORM` finds nothing wrong."""
    return Warm(**{**value, "preload": tuple(value.get("preload", ()))})


def _number(most: int, meaning: str) -> Form:
    """A whole number from 1 on."""
    what = f"a whole number from 1 to {most}"

    def check(value: Any) -> Iterator[Problem]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield expected(what, value)
        elif not 1 <= value <= most:
            yield (), f"expected {what}, found {value}"

    return Form(check, {"type": "integer", "minimum": 1, "maximum": most, "description": meaning})


WARM_FORM: Final = mapping(
    {
        "prepare": one_of(PYTHON, NODE).about("How the interpreter is had wait."),
        "keep": _number(MAX_KEPT, f"How many wait at most for calls of one kind; {_KEPT} by default."),
        "seconds": _number(MAX_SECONDS, f"How long one waits; {_SECONDS} by default."),
        "preload": list_of(
            text("the name of a module", _MODULE), "a list of names of modules", most=MAX_PRELOADED
        ).about("Modules of the interpreter's own environment that are imported before a call comes."),
    },
    needs="prepare",
    closed=True,
)
"""The form of such a value."""
