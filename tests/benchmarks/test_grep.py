"""The benchmark of searches runs, checks its answers, and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "grep.py"
TARGETS = {"grep with ripgrep, over rg by hand": 1.5, "grep without, over rg by hand": 6}


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_it_measures_both_ways_beside_ripgrep(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert len(report["figures"]) == 3
    for figure in report["figures"]:
        assert min(figure["by_hand_ms"], figure["with_ms"], figure["without_ms"]) > 0
    assert {each["name"]: each["limit"] for each in report["targets"]} == TARGETS
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
