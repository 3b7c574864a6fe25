"""What `warm:` of a runtime says: how its interpreter is started before there is a call for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import kind
from rye_mcp.metadata._forms import Form, Problem, Schema

__all__ = ["WARM_FORM", "Warm", "read_warm"]

PYTHON: Final = "python"
"""An interpreter that lilux itself prepares; every other way is a file of the runtime's library."""

MAX_KEPT: Final = 16
MAX_SECONDS: Final = 600
MAX_MODULES: Final = 64

_KEPT: Final = 2
_SECONDS: Final = 300
_WAITER: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_MODULE: Final = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,7}"
_KEYS: Final = ("prepare", "preload", "keep", "seconds")

_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "prepare": {
            "type": "string",
            "pattern": f"^{_WAITER}$",
            "description": "python, or the file of the library that waits for the call.",
        },
        "preload": {
            "type": "array",
            "items": {"type": "string", "pattern": f"^{_MODULE}$"},
            "maxItems": MAX_MODULES,
            "description": "Modules of the interpreter that are imported before the call.",
        },
        "keep": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_KEPT,
            "description": f"How many wait at most; {_KEPT} by default.",
        },
        "seconds": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_SECONDS,
            "description": f"How long one waits for a call; {_SECONDS} by default.",
        },
    },
    "required": ["prepare"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Warm:
    """How interpreters of a runtime wait: `prepare` is `python`, or the file that waits in its place."""

    prepare: str
    preload: tuple[str, ...] = ()
    keep: int = _KEPT
    seconds: int = _SECONDS

    @property
    def is_python(self) -> bool:
        """Whether lilux prepares it."""
        return self.prepare == PYTHON


def read_warm(value: Any) -> Warm:
    """What a value says in which `WARM_FORM` finds nothing wrong."""
    return Warm(**{**value, "preload": tuple(value.get("preload", ()))})


def _check(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"expected a mapping with prepare, found {kind(value)}"
        return
    if "prepare" not in value:
        yield (), f"expected prepare, found {', '.join(sorted(map(str, value))) or 'nothing'}"
    for name, member in value.items():
        if name not in _KEYS:
            yield (name,), f"expected only {', '.join(_KEYS)}, found {name}"
        elif name == "preload":
            yield from _modules(member)
        elif name == "prepare":
            if not isinstance(member, str) or re.fullmatch(_WAITER, member) is None:
                yield (name,), f"expected python, or the name of a file of the library, found {member!a:.80}"
        else:
            most = MAX_KEPT if name == "keep" else MAX_SECONDS
            if isinstance(member, bool) or not isinstance(member, int) or not 1 <= member <= most:
                yield (name,), f"expected a whole number from 1 to {most}, found {member!a:.80}"


def _modules(value: Any) -> Iterator[Problem]:
    if not isinstance(value, list) or len(value) > MAX_MODULES:
        yield ("preload",), f"expected a list of at most {MAX_MODULES} modules, found {kind(value)}"
        return
    for number, each in enumerate(value):
        if not isinstance(each, str) or re.fullmatch(_MODULE, each) is None:
            yield ("preload", number), f"expected the name of a module, found {each!a:.80}"


WARM_FORM: Final = Form(_check, _SCHEMA)
