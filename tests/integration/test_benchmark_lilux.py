"""The benchmark of the primitives runs and says what it must. Its figures are for people."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "lilux.py"


def benchmark(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What one quick run prints, and what it writes for scripts."""
    report = tmp_path_factory.mktemp("benchmark") / "report.json"
    ran = benchmark("--quick", "--json", report)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, json.loads(report.read_text(encoding="utf-8"))


def test_every_section_that_there_is_was_measured(quick: tuple[str, dict[str, Any]]) -> None:
    modules = {path.stem for path in (ROOT / "benchmarks" / "sections").glob("*.py")} - {
        "__init__",
        "case",
        "run",
    }
    measured = {case["section"].lower().replace(" ", "_") for case in quick[1]["cases"]}
    assert measured == modules
    assert {"signing", "canonical_json", "lockfile"} <= measured


def test_ratios_are_computed_within_the_run(quick: tuple[str, dict[str, Any]]) -> None:
    for case in quick[1]["cases"]:
        assert case["ours_us"] > 0
        if case["floor_us"] is not None:  # with one round, the median over the rounds is that round
            assert math.isclose(case["ratio"], case["ours_us"] / case["floor_us"])


def test_each_case_is_printed_and_each_target_with_it(quick: tuple[str, dict[str, Any]]) -> None:
    printed, report = quick
    for case in report["cases"]:
        line = next(
            line for line in printed.splitlines() if line.startswith(f"{case['section']}: {case['name']} ")
        )
        assert line.endswith(("ok", "MISSED")) == (case["is_met"] is not None)
        if case["max_ratio"] is not None and case["max_ms"] is None:
            assert case["is_met"] == (case["ratio"] <= case["max_ratio"])
            assert line.endswith("ok" if case["is_met"] else "MISSED")


def test_hashing_and_verifying_a_file_has_its_target(quick: tuple[str, dict[str, Any]]) -> None:
    targets = {case["name"]: case["max_ratio"] for case in quick[1]["cases"]}
    assert targets["hash and verify a file of 10 KB"] == 1.3


def test_one_section_can_be_measured_alone() -> None:
    ran = benchmark("--quick", "--only", "lockfile")
    assert ran.returncode == 0, ran.stderr
    assert "lockfile: load" in ran.stdout
    assert "signing" not in ran.stdout


def test_an_unknown_section_is_refused() -> None:
    ran = benchmark("--only", "nothing")
    assert ran.returncode == 2
    assert "lockfile" in ran.stderr
