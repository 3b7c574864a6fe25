"""The benchmark of skills runs and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "skills.py"


def test_it_measures_all_targets_and_says_what_came_out(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", report], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    cases = {case["name"]: case for case in json.loads(report.read_text(encoding="utf-8"))["cases"]}
    assert cases["verify a skill, 50 files, 1 MB"]["max_ms"] == 8
    assert cases["list 20 skills again"]["max_ms"] == 150
    for name, case in cases.items():
        line = next(line for line in ran.stdout.splitlines() if line.startswith(f"{name} "))
        assert line.endswith({True: "ok", False: "MISSED", None: "ms"}[case["is_met"]])
