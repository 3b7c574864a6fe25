"""The benchmark of sharing runs, and checks what was pulled. Its figures are for people."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "sharing.py"
TARGETS = {"rye push and rye pull": 3.0}


@pytest.mark.skipif(shutil.which("docker-registry") is None, reason="docker-registry is not installed")
def test_it_measures_a_push_and_a_pull(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert min(report["push_s"], report["pull_s"]) > 0
    assert {each["name"]: each["limit"] for each in report["targets"]} == TARGETS
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
