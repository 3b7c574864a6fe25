"""The benchmark of calls on a node runs, checks answers, and says what it must. Figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "nodes.py"


@pytest.mark.timeout(300)  # a cluster has to start, where Ray is installed
def test_it_calls_the_same_tools_here_and_on_a_node(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    places = ("here", "node", "ray") if find_spec("ray") else ("here", "node")
    assert sorted(report["p50_ms"]) == [f"{place} {name}" for place in places for name in ("bin_true", "sum")]
    assert all(value > 0 for value in (*report["p50_ms"].values(), *report["per_second"].values()))
    ends = [15.0, 50.0, 50.0]
    limits = [2.0, 0.9, 0.7, *ends]
    if find_spec("ray"):
        limits = [2.0, 0.9, 0.7, 4.0, 1.3, 0.9, 0.7, *ends, *ends, 80.0, 100.0]
    assert [target["limit"] for target in report["targets"]] == limits
    assert all(value > 0 for found in report["ends_ms"].values() for value in found.values())
    assert all(target["value"] > 0 for target in report["targets"] if target["name"].endswith(", MB"))
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
