"""One server on the MCP SDK, called directly and as signed tools of ours, over the same streams, in turns."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from harness.memory import idle_percent
from harness.report import machine
from harness.server import SCRIPTS, Talk

__all__ = ["main"]

SERVER: Final = """
from mcp.server import MCPServer
server = MCPServer("sums", version="1")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run()
"""

LIMIT_MS: Final = 3.0
"""How much a bridged call may take over a direct one."""

CALLS_PER_ROUND: Final = 60
QUICK_CALLS: Final = 10
QUIET_PERCENT: Final = 90
EXPOSED: Final = "mcp_sums_add"
ANSWER: Final = {"result": 42}

Times = dict[str, list[float]]


def main(description: str) -> int:
    """Measure, print, and say whether the target was met."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="few calls: whether it runs at all")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"the machine is busy (idle: {idle:.0f} %): the figures mean little")
    rounds, calls = (2, QUICK_CALLS) if options.quick else (options.rounds, CALLS_PER_ROUND)
    with tempfile.TemporaryDirectory(prefix="rye-bench-") as place:
        report = _measured(Path(place), rounds, calls)
    report |= {"machine": machine(), "idle_percent": idle}
    _print(report)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2), encoding="utf-8")
    missed = [target for target in report["targets"] if not target["is_met"]]
    return 1 if missed and options.strict else 0


def _measured(place: Path, rounds: int, calls: int) -> dict[str, Any]:
    project, environment = _project(place)
    script = project / "server.py"
    medians: Times = defaultdict(list)
    with (
        Talk([sys.executable, script], environment, project) as direct,
        Talk([SCRIPTS / "rye-mcp", "--expose", "mcp/sums/*"], environment, project) as ours,
    ):
        ours.ask("tools/list")
        questions = _questions(direct, ours)
        for each in questions.values():
            each()
        for _ in range(rounds):
            for name, found in _asked_in_turns(questions, calls).items():
                medians[name].append(statistics.median(found))
    over = {
        name: statistics.median(
            one - other for one, other in zip(medians[name], medians["direct"], strict=True)
        )
        for name in ("execute", "exposed")
    }
    targets = [
        {"name": f"{name}, over direct, ms", "value": value, "limit": LIMIT_MS, "is_met": value <= LIMIT_MS}
        for name, value in over.items()
    ]
    return {"p50_ms": {name: statistics.median(found) for name, found in medians.items()}, "targets": targets}


def _questions(direct: Talk, ours: Talk) -> dict[str, Callable[[], None]]:
    given = {"a": 40, "b": 2}
    bridged = {"item_id": "mcp/sums/add", "parameters": given}

    def call_directly() -> None:
        assert direct.call("add", **given) == ANSWER

    def execute() -> None:
        assert ours.call("execute", **bridged)["data"]["structuredContent"] == ANSWER

    def call_exposed() -> None:
        assert ours.call(EXPOSED, **given) == ANSWER

    return {"direct": call_directly, "execute": execute, "exposed": call_exposed}


def _asked_in_turns(questions: Mapping[str, Callable[[], None]], calls: int) -> Times:
    times: Times = defaultdict(list)
    for _ in range(calls):
        for name, each in questions.items():
            begun = time.perf_counter()
            each()
            times[name].append((time.perf_counter() - begun) * 1000)
    return times


def _project(place: Path) -> tuple[Path, dict[str, str]]:
    project, home = place / "project", place / "home"
    home.mkdir()
    project.mkdir()
    environment = {
        "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        "HOME": str(home),
        "USER_SPACE": str(home),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_CACHE_HOME": str(place / "cache"),
    }
    script = project / "server.py"
    script.write_text(SERVER)
    for command in (["init"], ["mcp", "add", "sums", "--", sys.executable, str(script)]):
        subprocess.run(
            [SCRIPTS / "rye", *command], cwd=project, env=environment, check=True, capture_output=True
        )
    return project, environment


def _print(report: Mapping[str, Any]) -> None:
    print(f"{'':34} {'p50 ms':>9}")
    for name, found in report["p50_ms"].items():
        print(f"{name:34} {found:9.2f}")
    for target in report["targets"]:
        word = "ok" if target["is_met"] else "MISSED"
        print(f"{target['name']:34} {target['value']:9.2f}  at most {target['limit']:g}: {word}")
