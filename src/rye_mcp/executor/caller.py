"""The caller of a run, and the trace that the run belongs to, as W3C Trace Context has it.

A malformed trace is dropped: it is never worth a refusal. Only version 00 is known.

    >>> TraceContext.read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").variables()
    {'TRACEPARENT': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from lilux._dataclasses import dataclass

if TYPE_CHECKING:
    from rye_mcp.executor.tree import Program
    from rye_mcp.runs.records import CallerKind

__all__ = ["TRACE_VARIABLES", "Caller", "TraceContext"]

TRACE_VARIABLES: Final = ("TRACEPARENT", "TRACESTATE")
"""The variables of a tool."""

MAX_STATE_CHARACTERS: Final = 512
MAX_STATE_MEMBERS: Final = 32

_PARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_MEMBER: Final = re.compile(
    r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A trace, and where in it a run belongs."""

    parent: str
    state: str | None = None

    @classmethod
    def read(cls, parent: Any, state: Any = None) -> Self | None:
        """The trace that these say, None when they say none; a state that is malformed is left out."""
        if not isinstance(parent, str) or not _PARENT.fullmatch(parent):
            return None
        return cls(parent, state if isinstance(state, str) and _is_state(state) else None)

    def variables(self) -> Mapping[str, str]:
        """The variables that a tool gets of it."""
        found = dict(zip(TRACE_VARIABLES, (self.parent, self.state), strict=True))
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a run: a person or an agent, and the agent's program, by its own account.

    `parent` is the run that asks, when one does, and `depth` how many runs are above this one.
    `program` is that run, when it called through its descriptor, and `call` is the key of that call.
    """

    kind: CallerKind = "person"
    client: str | None = None
    parent: str | None = None
    depth: int = 0
    trace: TraceContext | None = None
    program: Program | None = None
    call: str = ""


def _is_state(text: str) -> bool:
    if len(text) > MAX_STATE_CHARACTERS:
        return False
    members = [each.strip(" \t") for each in text.split(",")]
    return len(members) <= MAX_STATE_MEMBERS and all(map(_MEMBER.fullmatch, members))
