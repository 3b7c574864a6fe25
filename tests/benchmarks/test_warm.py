"""The benchmark of warm calls runs, and its calls that are to be warm are. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "warm.py"


@pytest.mark.timeout(300)
def test_it_measures_warm_calls_beside_cold_ones_and_by_hand(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", report], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    values = {each["name"]: each["value"] for each in found["targets"]}
    assert values.pop("idle for too long: processes that wait") == 0
    values.pop("Node.js: warm ÷ by hand, p50", None)
    assert len(values) == 11
    assert all(value > 0 for value in values.values())
    assert "| one call, p50 |" in ran.stdout
    assert "| over stdio, a tool of a bare server that does nothing, p50 |" in ran.stdout
