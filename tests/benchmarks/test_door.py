"""The benchmark of the door runs, counts every byte, and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "door.py"
TARGETS = {
    "a connection through the door, over none": 2,
    "time for a megabyte through the door": 5,
    "a start with hosts, over one with no network": 0.1,
}


def test_it_measures_the_door_beside_none(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    if "nothing was measured" in ran.stderr:
        pytest.skip("this machine makes no cells")
    report = json.loads(path.read_text(encoding="utf-8"))
    for side in ("direct", "door"):
        assert min(report["figures"][side].values()) > 0
    assert {each["name"]: each["limit"] for each in report["targets"]} == TARGETS
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
