"""The benchmark of the gate runs and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "trust.py"


def test_it_measures_all_targets_and_says_what_came_out(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", report], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    cases = {case["name"]: case for case in json.loads(report.read_text(encoding="utf-8"))["cases"]}
    assert cases["verify_item, 10 KB"]["max_over_us"] == 150
    assert cases["verify_item again, 10 KB"]["max_over_us"] == 30
    assert cases["rye verify, 50 items"]["max_seconds"] == 3
    assert cases["rye --help"]["max_seconds"] == 0.15
    for name, case in cases.items():
        line = next(line for line in ran.stdout.splitlines() if line.startswith(f"{name} "))
        assert line.endswith("ok" if case["is_met"] else "MISSED")
