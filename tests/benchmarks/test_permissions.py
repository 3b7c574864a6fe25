"""The benchmark of permissions runs, and says what it must. Its figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "permissions.py"
LIMITS = [0.2, 0.6, 0.7, 1.0]
TOOL_LIMIT, PROBE_LIMIT = 1.06, 20.0


def test_it_measures_walls_and_cells_beside_no_confinement(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    if "nothing was measured" in ran.stderr:
        pytest.skip("this machine makes no cells")
    report = json.loads(path.read_text(encoding="utf-8"))
    limits = []
    for figures in report["figures"].values():
        names = figures["median_ms"].keys()
        assert names - {"walls, hosts"} == {"off", "walls", "cell", "cell, hosts"}
        assert figures["per_second"].keys() == names
        assert min(figures["per_second"].values()) > 0
        assert figures["probe_ms"] > 0
        limits += [*LIMITS, PROBE_LIMIT]
        limits += [] if figures["tool_ratio"] is None else [TOOL_LIMIT]
    assert TOOL_LIMIT in limits
    assert [each["limit"] for each in report["targets"]] == limits
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
