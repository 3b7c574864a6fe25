"""The benchmark of the page runs, and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "ui.py"
TARGETS = {
    "ping p99 while the page follows ten runs": 20,
    "first view with 100,000 runs": 300,
    "a line on the screen, at most": 200,
}

pytestmark = pytest.mark.timeout(300)


def test_it_measures_the_page_and_the_server_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    measured = {each["what"]: each["limit"] for each in report["targets"]}
    assert measured == {name: TARGETS[name] for name in measured}
    if "only pings are measured" not in ran.stderr:
        assert measured == TARGETS
    assert all(value is None or value > 0 for value in report["figures"].values())
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["what"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
