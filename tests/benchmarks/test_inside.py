"""The benchmark of programs runs, checks its answers, and says what it must. Figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "inside.py"
LIMITS = [1.2, 4, 0.9, 4096, 32, 10, 10, 10]


@pytest.mark.timeout(300)  # a few hundred calls, of a server that may share its processors
def test_it_calls_by_a_client_and_by_programs(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, str(SCRIPT), "--quick", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    targets = json.loads(path.read_text(encoding="utf-8"))["targets"]
    assert [target["limit"] for target in targets] == LIMITS
    assert all(target["value"] > 0 for target in targets if "memory" not in target["name"])
    for target in targets:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith(("ok", "MISSED"))
    [review, rename, report] = targets[-3:]
    assert review["name"].startswith("programs/review")
    assert rename["value"] > 1
    assert report["value"] > 1
