"""The part of `rye doctor` about warm calls: whether interpreters wait for calls, and the gain."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from typing import Final

from rye_mcp.app import App
from rye_mcp.configuration import allows_warm

__all__ = ["told_of_warm_calls"]

LAST_RUNS: Final = 1000
"""How many runs are looked at."""


def told_of_warm_calls(app: App, environment: Mapping[str, str] = os.environ) -> str:
    """The sentence; RyeError where the configuration is invalid."""
    from rye_mcp.executor.primitive_executor import WARM_VARIABLE

    if environment.get(WARM_VARIABLE) == "0":
        return f"no interpreter waits for a call, as {WARM_VARIABLE} is 0"
    if not allows_warm(app.context()):
        return "no interpreter waits for a call, as config/rye.yaml says warm: false"
    return f"interpreters wait for the calls of a server{_brought(app)}"


def _brought(app: App) -> str:
    """Return the gain according to the log; empty without warm runs, or without cold ones to compare."""
    from rye_mcp.runs.log import RunFilter, RunLog

    with RunLog(app.settings.state) as log:
        runs = [run for run in log.list(RunFilter(limit=LAST_RUNS)) if run.runtime and run.code is None]
    warm = [run.duration_ms for run in runs if run.runtime == "warm"]
    same = {run.item_id for run in runs if run.runtime == "warm"}
    cold = [run.duration_ms for run in runs if run.runtime != "warm" and run.item_id in same]
    if not warm or not cold:
        return ""
    took = f"{statistics.median(warm):.0f} ms warm, {statistics.median(cold):.0f} ms cold"
    return f": {len(warm)} of the last {len(warm) + len(cold)} runs of tools that had one were warm ({took})"
