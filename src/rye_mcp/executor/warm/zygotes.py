"""Prepared interpreters that others are forked from: which one is used, and when it is replaced.

A zygote holds no code of a tool and no variable but those that an interpreter reads when it starts. It is
replaced when it is old, worn, has grown, was slow, or when what was forked from it has crashed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import (
    Halves,
    NotParked,
    ParkSpec,
    RuntimeSpec,
    SubprocessPrimitive,
    SubprocessResult,
    Zygote,
    ZygoteSpec,
)
from rye_mcp.executor.warm.pool import BUSY, Slot, Waiting
from rye_mcp.executor.warm.recipe import Recipe

__all__ = ["Forked", "forked", "is_worn", "started"]

MAX_AGE_S: Final = 600.0
MAX_FORKS: Final = 1000
MAX_GROWTH: Final = 1.2
MAX_FORK_MS: Final = 100.0
"""When a zygote is replaced: by its age, its forks, its memory beside that at the start, the last fork."""

_READ_AT_START: Final = ("PYTHON", "LC_", "LANG")
"""How variables begin that an interpreter reads when it starts, and not again."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A process that waits for a call, and the variables that it does not have yet."""

    parked: Waiting
    missing: Mapping[str, str]
    slot: Slot | None = None


async def forked(
    primitive: SubprocessPrimitive,
    process: Halves,
    recipe: Recipe,
    slots: list[Slot],
    scripts: Sequence[bytes],
    *,
    keep: int,
    limit: float,
) -> Forked:
    """An interpreter that waits, forked from one of the zygotes, or from one more; NotParked `zygote_busy`.

    `slots` are the zygotes of a kind of calls: those that are worn, or were made otherwise, are closed.
    """
    policy, started = process.call.policy, _at_start(process.runtime)
    for slot in tuple(slots):
        if (
            is_worn(slot.zygote)
            or slot.crashed
            or slot.recipe.why_not(recipe, apart_from_paths=True) is not None
        ):
            if slot in slots:  # whatever closes all of them may be faster
                slots.remove(slot)
            await slot.zygote.close()
            continue
        try:
            parked = await slot.zygote.park(policy=policy, result_fd=process.call.result_fd, limit=limit)
        except NotParked as exc:
            if exc.code != BUSY:
                slot.crashed = True
            continue
        return Forked(parked, process.runtime.env, slot)
    if len(slots) >= keep:
        raise NotParked("every zygote has a call", code=BUSY)
    spec = ZygoteSpec(runtime=started, scripts=scripts, policy=policy)
    slot = Slot(await primitive.zygote(spec), recipe)
    slots.append(slot)
    parked = await slot.zygote.park(policy=policy, result_fd=process.call.result_fd, limit=limit)
    return Forked(parked, process.runtime.env, slot)


async def started(primitive: SubprocessPrimitive, process: Halves, *, limit: float) -> Forked:
    """An interpreter that waits, started like any other: where nothing can be forked."""
    spec = ParkSpec(
        runtime=process.runtime,
        policy=process.call.policy,
        result_fd=process.call.result_fd,
        python=True,
        limit=limit,
    )
    return Forked(await primitive.park(spec), {})


def is_worn(zygote: Zygote[SubprocessResult]) -> bool:
    """Whether it is to be replaced."""
    facts = zygote.facts
    return (
        not zygote.is_alive
        or time.monotonic() - facts.started_at > MAX_AGE_S
        or facts.forks >= MAX_FORKS
        or facts.memory_kb > facts.memory_at_start_kb * MAX_GROWTH
        or (facts.last_fork_ms is not None and facts.last_fork_ms > MAX_FORK_MS)
    )


def _at_start(runtime: RuntimeSpec) -> RuntimeSpec:
    env = {name: text for name, text in runtime.env.items() if name.startswith(_READ_AT_START)}
    return RuntimeSpec(command=runtime.command, args=runtime.args, env=env, search_path=runtime.search_path)
