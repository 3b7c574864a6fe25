"""A zygote has nothing of a call, and is replaced in time."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from lilux.primitives.subprocess import RuntimeSpec, ZygoteFacts
from rye_mcp.executor.warm.recipe import at_start, is_worn


def test_it_starts_with_what_is_read_at_the_start_and_with_nothing_of_a_call() -> None:
    read = {"PYTHONUTF8": "1", "LC_ALL": "C", "LANG": "C", "OPENBLAS_NUM_THREADS": "1"}
    of_calls = {"PYTHONPATH": "/of/a/tool", "PYTHONSTARTUP": "/a", "RYE_TOOL_SOURCE": "/b", "TOKEN": "c"}
    runtime = RuntimeSpec(command="/usr/bin/python3", args=("-s",), env={**of_calls, **read})
    found = at_start(runtime)
    assert (found.command, found.args, found.env) == (runtime.command, runtime.args, read)


LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ten minutes": ({"age_s": 500}, {"age_s": 601}),
    "a thousand forks": ({"forks": 999}, {"forks": 1000}),
    "a fifth more memory": ({"memory_kb": 1200}, {"memory_kb": 1201}),
    "a tenth of a second for a fork": ({"last_fork_ms": 100.0}, {"last_fork_ms": 101.0}),
    "its own end": ({}, {"is_alive": False}),
}


@pytest.mark.parametrize(("within", "beyond"), LIMITS.values(), ids=LIMITS)
def test_it_is_replaced_beyond_each_limit(within: dict[str, Any], beyond: dict[str, Any]) -> None:
    assert not is_worn(zygote(**within))
    assert is_worn(zygote(**beyond))


def zygote(*, age_s: float = 0.0, is_alive: bool = True, **facts: Any) -> Any:
    """One that had a processor all the time."""
    plain = {"forks": 1, "memory_kb": 1000, "memory_at_start_kb": 1000, "last_fork_ms": 1.0}
    started_at = time.monotonic() - age_s
    found = ZygoteFacts(**{"pid": 1, "started_at": started_at, "processor_ms": 1e6, **plain, **facts})
    return SimpleNamespace(is_alive=is_alive, facts=found)
