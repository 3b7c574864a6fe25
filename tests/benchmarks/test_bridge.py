"""The benchmark of bridged tools runs, checks its answers, and says what it must. Figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "bridge.py"
LIMIT_MS = 3


def test_it_calls_a_server_directly_and_through_ours(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert all(report["p50_ms"][name] > 0 for name in ("direct", "execute", "exposed"))
    assert [target["limit"] for target in report["targets"]] == [LIMIT_MS, LIMIT_MS]
    for target in report["targets"]:
        line = next(line for line in ran.stdout.splitlines() if line.startswith(target["name"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
