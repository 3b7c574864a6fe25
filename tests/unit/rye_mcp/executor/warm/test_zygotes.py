"""A zygote has nothing of a call, and is replaced in time."""

from __future__ import annotations

from lilux.primitives.subprocess import RuntimeSpec
from rye_mcp.executor.warm.recipe import at_start


def test_it_starts_with_what_is_read_at_the_start_and_with_nothing_of_a_call() -> None:
    read = {"PYTHONUTF8": "1", "LC_ALL": "C", "LANG": "C", "OPENBLAS_NUM_THREADS": "1"}
    of_calls = {"PYTHONPATH": "/of/a/tool", "PYTHONSTARTUP": "/a", "RYE_TOOL_SOURCE": "/b", "TOKEN": "c"}
    runtime = RuntimeSpec(command="/usr/bin/python3", args=("-s",), env={**of_calls, **read})
    found = at_start(runtime)
    assert (found.command, found.args, found.env) == (runtime.command, runtime.args, read)
