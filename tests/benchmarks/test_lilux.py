"""The benchmark of the primitives runs and says what it must. Its figures are for people."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "lilux.py"


Benchmarks = dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark") / "report.json"


@pytest.fixture(scope="module", autouse=True)
def benchmarks(report: Path) -> Iterator[Benchmarks]:
    """Every run that a test asks for, all at the same time: the figures of these mean nothing anyway."""
    runs: dict[str, list[str | Path]] = {
        "quick": ["--quick", "--json", report],
        "one section": ["--quick", "--only", "lockfile"],
        "unknown section": ["--only", "nothing"],
    }
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, SCRIPT, *options],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for name, options in runs.items()
        }


@pytest.fixture(scope="module")
def quick(benchmarks: Benchmarks, report: Path) -> tuple[str, dict[str, Any]]:
    """What one quick run prints, and what it writes for scripts."""
    printed, errors = benchmarks["quick"].communicate()
    assert benchmarks["quick"].returncode == 0, errors
    return printed, json.loads(report.read_text(encoding="utf-8"))


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


def test_one_section_can_be_measured_alone(benchmarks: Benchmarks) -> None:
    printed, errors = benchmarks["one section"].communicate()
    assert benchmarks["one section"].returncode == 0, errors
    assert "lockfile: load" in printed
    assert "signing" not in printed


def test_an_unknown_section_is_refused(benchmarks: Benchmarks) -> None:
    _, errors = benchmarks["unknown section"].communicate()
    assert benchmarks["unknown section"].returncode == 2
    assert "lockfile" in errors
