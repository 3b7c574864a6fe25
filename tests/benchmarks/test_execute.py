"""The benchmark of executions runs, checks its answers, and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "execute.py"

TARGETS = {
    "a Python tool, over by hand": 1.15,
    "a Python tool, more than by hand": 2,
    "dry_run": 2,
    "4 at once, over by hand": 1.2,
    "verify and copy 50 modules, first call": 10,
    "verify and copy 50 modules, again": 10,
    "a tool with 50 modules, second call, over by hand": 1.15,
    "a receipt": 0.15,
}
REMEMBERED = ("find", "lock", "chain", "verify", "validate", "pin")
STAGES = ("parameters", "snapshot", "environment", "configuration", "run", "result", "log")


@pytest.mark.timeout(300)  # every runtime there is, each started many times
def test_it_measures_every_runtime_and_stage_and_says_what_came_out(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert {"python_script", "python_function", "python_main", "binary"} <= report["commands"].keys()
    assert report["commands"].keys() <= report["runs"].keys()
    assert not report["commands"].keys() & set(report["missing"])
    for figures in (*report["runs"].values(), *report["commands"].values()):
        assert 0 < figures["floor_p50_ms"] <= figures["floor_p95_ms"]
    assert {*REMEMBERED, *STAGES} <= report["stages_us"].keys()
    for stage in STAGES:
        assert report["stages_us"][stage] > 0, stage
    assert {each["name"]: each["limit"] for each in report["targets"]} == TARGETS
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(f"{target['name']} "))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
        assert target["is_met"] is (target["value"] <= target["limit"])
