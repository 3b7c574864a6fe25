"""The benchmark of calls on a node runs, checks answers, and says what it must. Figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "nodes.py"


def test_it_calls_the_same_tools_here_and_on_a_node(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert sorted(report["p50_ms"]) == ["here bin_true", "here sum", "node bin_true", "node sum"]
    assert all(value > 0 for value in (*report["p50_ms"].values(), *report["per_second"].values()))
    assert [target["limit"] for target in report["targets"]] == [2.0, 0.9, 0.7]
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
