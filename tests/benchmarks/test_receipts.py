"""The benchmark of long logs runs, finds what it changed, and says what it must."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "receipts.py"


def test_it_makes_verifies_and_lists_a_log(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--rounds", "3", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [each["limit"] for each in report["targets"]] == [60, 50]
    assert report["figures"]["receipts"] == 2000
    assert all(value > 0 for value in report["figures"].values())
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["what"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")


def test_figures_of_few_receipts_are_not_for_the_page() -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--write"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "not for the page" in ran.stderr
