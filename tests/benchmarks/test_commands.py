"""The benchmark of the newcomer's commands runs and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "commands.py"


def test_it_measures_every_command_and_says_what_came_out(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--rounds", "1", "--json", report], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [case["name"] for case in found["cases"]] == ["rye new", "rye sign", "rye run"]
    assert found["max_seconds"] == 2
    assert found["seconds"] == sum(case["seconds"][0] for case in found["cases"])
    assert ran.stdout.rstrip().endswith("ok" if found["is_met"] else "MISSED")
