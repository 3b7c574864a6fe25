"""What the elements of a chain declare in one of their fields, merged and checked.

Rules:

- Elements are added from the primitive up, and each overrides what was there: mappings merge, field by field,
  everything else is replaced.
- A field that nobody knows, or whose value is of another kind, is an issue; all issues of all elements are
  reported at once, each with the element that has it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain import ChainElement
from rye_mcp.items import printable

__all__ = ["Check", "Declarations", "is_flag", "is_text", "is_texts"]

Check = Callable[[Any], str | None]
"""What is wrong with a value, or nothing."""


@dataclass(slots=True)
class Declarations:
    """What was declared so far for the field of this name."""

    name: str
    checks: Mapping[str, Check]
    values: dict[str, Any] = field(default_factory=dict)
    _issues: list[tuple[ChainElement, dict[str, Any]]] = field(default_factory=list)

    def add(self, element: ChainElement, declared: Mapping[str, Any] | None) -> None:
        """Take over what an element declares, above all that was added before."""
        for key, value in (declared or {}).items():
            check = self.checks.get(key)
            if check is None:
                self.issue(element, str(key), f"expected one of {', '.join(self.checks)}")
            elif problem := check(value):
                self.issue(element, key, problem)
            elif isinstance(value, dict):
                self.values[key] = {**self.values.get(key, {}), **value}
            else:
                self.values[key] = value

    def issue(self, element: ChainElement, key: str, problem: str) -> None:
        """Take note of what is wrong."""
        where = f"{self.name}.{key}"
        found = {"message": f"{where} of {element.item_id}: {problem}", "field": where}
        self._issues.append((element, {**found, "item_id": element.item_id}))

    def raise_any(self) -> None:
        """RyeError `invalid_item` with every issue, when there are any."""
        if not self._issues:
            return
        element, _ = self._issues[0]
        shown = printable(element.path)
        raise RyeError(
            "invalid_item",
            "; ".join(found["message"] for _, found in self._issues),
            where=shown,
            hint=f"fix {shlex.quote(shown)}, then: rye sign {element.item_id}",
            item_id=element.item_id,
            issues=[found for _, found in self._issues],
        )


def is_flag(value: Any) -> str | None:
    """Whether it is true or false."""
    return None if isinstance(value, bool) else f"expected true or false, found {value!r:.80}"


def is_text(value: Any) -> str | None:
    """Whether it is text that a system can be given."""
    if not isinstance(value, str):
        return f"expected text, found {type(value).__name__}"
    return None if value and "\0" not in value else "expected text, found none, or a NUL in it"


def is_texts(value: Any) -> str | None:
    """Whether it is a list of such texts."""
    if not isinstance(value, list):
        return f"expected a list of texts, found {type(value).__name__}"
    return next((problem for each in value if (problem := is_text(each))), None)
