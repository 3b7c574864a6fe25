"""What a program may call, and what those tools may call: by their verified files, nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.tree import MAX_CALL_DEPTH
from rye_mcp.items import ItemType
from rye_mcp.permissions import sentence, taken_to_declare
from rye_mcp.verbs.context import Context

__all__ = ["Callee", "callees"]

MAX_SHOWN: Final = 100
"""How many tools are shown at most."""

_PATTERN: Final = "a pattern"
_AGAIN: Final = "as above"
_MORE: Final = "not shown"


@dataclass(frozen=True, slots=True)
class Callee:
    """A tool, or a pattern, that a program may call; `state` is `verified`, or why nothing is told of it."""

    item_id: str
    state: str
    may: str | None = None
    calls: tuple[Callee, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether a call would be refused as things are."""
        return self.may is None and self.state not in (_PATTERN, _AGAIN, _MORE)

    @property
    def in_words(self) -> str:
        """The tool, and what it may do."""
        return f"{self.item_id}: {self.may or self.state}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {"item_id": self.item_id, "state": self.state}
        if self.may is not None:
            answer["declares"] = self.may
        if self.calls:
            answer["calls"] = [each.as_dict() for each in self.calls]
        return answer


def callees(calls: frozenset[str], context: Context) -> tuple[Callee, ...]:
    """The tools that stand in `permissions.calls`, each with those that it may call itself."""
    return tuple(_Look(context).below(calls, depth=1))


class _Look:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._shown: set[str] = set()

    def below(self, calls: frozenset[str], *, depth: int) -> Iterator[Callee]:
        for item_id in sorted(calls):
            if item_id.endswith("/*"):
                yield Callee(item_id, _PATTERN)
            elif item_id in self._shown:
                yield Callee(item_id, _AGAIN)
            elif len(self._shown) >= MAX_SHOWN or depth > MAX_CALL_DEPTH:
                yield Callee(item_id, _MORE)
            else:
                self._shown.add(item_id)
                yield self._one(item_id, depth)

    def _one(self, item_id: str, depth: int) -> Callee:
        try:
            verified = self._context.verify(self._context.spaces.find(item_id, ItemType.TOOL).item)
            declared = self._context.metadata(verified).permissions
        except RyeError as exc:
            return Callee(item_id, exc.code)
        may = sentence(taken_to_declare(declared, verified.signer.kind))
        calls = frozenset() if declared is None else declared.calls
        return Callee(item_id, "verified", may, tuple(self.below(calls, depth=depth + 1)))
