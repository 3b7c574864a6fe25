"""Prepared interpreters that others are forked from: what one is doing, and when it is replaced.

A zygote holds no code of a tool and no variable but those that an interpreter reads when it starts. It is
replaced when it is old, worn, has grown, is slow, or when what was forked from it has crashed.
"""

from __future__ import annotations

import time
from typing import Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import RuntimeSpec, SubprocessResult, Zygote
from rye_mcp.executor.warm.recipe import Recipe

__all__ = ["Slot", "at_start", "is_worn"]

MAX_AGE_S: Final = 600.0
MAX_FORKS: Final = 1000
MAX_GROWTH: Final = 1.2
MAX_FORK_MS: Final = 100.0
MAX_PROCESSOR_MS: Final = 25.0
"""When a zygote is replaced: by its age, its forks, its memory beside that at the start, and a slow last fork
if forks take it that long on average. Otherwise it is the machine that is busy, and a new one would be too.
"""

_READ_AT_START: Final = ("PYTHON", "LC_", "LANG")
"""How variables begin that an interpreter reads when it starts, and not again."""

_THREADS: Final = ("OMP_", "OPENBLAS_", "MKL_", "BLIS_", "NUMEXPR_")
"""How variables begin that say how many threads a library starts when it is imported."""

_OF_CALLS: Final = frozenset({"PYTHONPATH", "PYTHONSTARTUP", "PYTHONBREAKPOINT"})
"""What comes with a call. Modules in its places may be those of a tool, and a zygote imports none."""


@dataclass(slots=True)
class Slot:
    """A zygote, what it was made of, and what it is doing.

    It is `idle` while nothing that was forked from it is there: only then may it be closed. One that is
    `spoilt` is closed as soon as it is idle.
    """

    zygote: Zygote[SubprocessResult]
    recipe: Recipe
    is_idle: bool = True
    is_spoilt: bool = False
    busy_since: float = 0.0

    @property
    def is_fit(self) -> bool:
        """Whether more can be forked from it."""
        return not self.is_spoilt and not is_worn(self.zygote)


def is_worn(zygote: Zygote[SubprocessResult]) -> bool:
    """Whether it is to be replaced."""
    facts = zygote.facts
    return (
        not zygote.is_alive
        or time.monotonic() - facts.started_at > MAX_AGE_S
        or facts.forks >= MAX_FORKS
        or facts.memory_kb > facts.memory_at_start_kb * MAX_GROWTH
        or ((facts.last_fork_ms or 0.0) > MAX_FORK_MS and facts.processor_ms > facts.forks * MAX_PROCESSOR_MS)
    )


def at_start(runtime: RuntimeSpec) -> RuntimeSpec:
    """The same program with no variable but those that it reads when it starts."""
    beginnings = (*_READ_AT_START, *_THREADS)
    env = {
        name: text
        for name, text in runtime.env.items()
        if name.startswith(beginnings) and name not in _OF_CALLS
    }
    return RuntimeSpec(command=runtime.command, args=runtime.args, env=env, search_path=runtime.search_path)
