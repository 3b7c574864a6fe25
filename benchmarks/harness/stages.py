"""What each stage of a call costs: the stages of the executor itself, with a clock around each of them."""

from __future__ import annotations

import inspect
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.tools import PARAMETERS, by_us
from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor import decider, preparation
from rye_mcp.executor.job import jobs
from rye_mcp.executor.primitive_executor import PrimitiveExecutor

BEFORE_THE_RUN: Final = (
    "find",
    "lock",
    "chain",
    "verify",
    "validate",
    "pin",
    "parameters",
    "snapshot",
    "environment",
    "configuration",
)
"""The stages that a call goes through before anything runs; all others come during it or afterwards."""


async def measure(executor: PrimitiveExecutor, item_id: str, count: int) -> dict[str, float]:
    """The median of each stage, in microseconds a call; `rest` is what belongs to none."""
    calls: list[dict[str, float]] = []
    times: defaultdict[str, float] = defaultdict(float)
    with _clocks(executor, times):
        for _ in range(count):
            times.clear()
            whole = await by_us(executor, item_id)
            calls.append({**times, "rest": whole - sum(times.values())})
    return {name: statistics.median(call.get(name, 0.0) for call in calls) * 1e6 for name in calls[0]}


async def dry_runs(executor: PrimitiveExecutor, item_id: str, count: int) -> list[float]:
    """How long each of some dry runs took, in seconds."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        await executor.dry_run(item_id, PARAMETERS)
        times.append(time.perf_counter() - started)
    return times


def carrying(executor: PrimitiveExecutor, item_id: str) -> float:
    """How long it takes to verify a chain with all that it brings along, and to copy it; in seconds."""
    chain = executor._decider.builder.build(item_id)
    started = time.perf_counter()
    verified = executor._decider.verifier.verify_chain(chain)
    snapshot = executor._preparation._snapshots.create(verified.carried)
    took = time.perf_counter() - started
    snapshot.remove()
    return took


@contextmanager
def _clocks(executor: PrimitiveExecutor, times: defaultdict[str, float]) -> Iterator[None]:
    """Put a clock around every stage, for as long as the block lasts."""
    places = (
        ("find", executor._decider.builder, "find"),
        ("lock", executor._locks, "check_root"),
        ("chain", executor._decider.builder, "follow"),
        ("verify", executor._decider.verifier, "verify_chain"),
        ("validate", decider, "require_valid"),
        ("pin", executor._locks, "pin"),
        ("parameters", decider, "checked_parameters"),
        ("snapshot", executor._preparation, "begin"),
        ("environment", executor._preparation.environments, "resolve"),
        ("configuration", preparation, "build_process"),
        ("output", executor._outputs, "spool"),
        ("run", SubprocessPrimitive, "run"),
        ("result", jobs, "read_process"),
        ("output", executor._outputs, "finish"),
        ("lockfile", executor._locks, "create"),
        ("log", executor._log, "append"),
    )
    originals = [(owner, name, inspect.getattr_static(owner, name, None)) for _, owner, name in places]
    for stage, owner, name in places:
        setattr(owner, name, _clocked(getattr(owner, name), stage, times))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original) if _is_own(owner) else delattr(owner, name)


def _is_own(owner: Any) -> bool:
    """Whether an attribute was there before, as in a class or a module; in an object it only hides one."""
    return inspect.isclass(owner) or inspect.ismodule(owner)


def _clocked(function: Callable[..., Any], stage: str, times: defaultdict[str, float]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        async def waited(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return await function(*args, **kwargs)
            finally:
                times[stage] += time.perf_counter() - started

        return waited

    def called(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            times[stage] += time.perf_counter() - started

    return called
