"""The benchmark runs and says what it must. Its figures are for people, and for `--strict`."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "process.py"
PAGE = "docs/performance.md"
MARKS = re.compile("<!-- /?benchmark:process -->")

CONTENDERS = {
    "posix_spawn + wait, C",
    "subprocess.run",
    "asyncio subprocess",
    "anyio.run_process",
    "lilux-proc exec",
    "SubprocessPrimitive",
}


def benchmark(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a copy of the page that holds figures."""
    root = tmp_path_factory.mktemp("documents")
    (root / "docs").mkdir()
    (root / PAGE).write_bytes((ROOT / PAGE).read_bytes())
    return root


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, elsewhere: Path) -> tuple[str, dict[str, Any]]:
    """What one quick run prints, and what it writes for scripts."""
    report = tmp_path_factory.mktemp("benchmark") / "report.json"
    kept = (ROOT / PAGE).read_bytes()
    ran = benchmark("--quick", "--json", report, "--write", "--root", elsewhere)
    assert ran.returncode == 0, ran.stderr
    assert (ROOT / PAGE).read_bytes() == kept
    return ran.stdout, json.loads(report.read_text(encoding="utf-8"))


def test_every_contender_is_measured_at_every_concurrency(quick: tuple[str, dict[str, Any]]) -> None:
    _, report = quick
    assert set(report["short_runs"]) == {"1", "8", "64", "256"}
    for by_name in report["short_runs"].values():
        assert set(by_name) == CONTENDERS == set(report["contenders"])
        for name, figures in by_name.items():
            assert 0 < figures["p50_ms"] <= figures["p95_ms"]
            assert figures["runs_per_s"] > 0
            has_no_loop = name in {"posix_spawn + wait, C", "lilux-proc exec"}
            assert (figures["lag_p99_ms"] is None) == has_no_loop


def test_ratios_are_computed_within_the_run(quick: tuple[str, dict[str, Any]]) -> None:
    _, report = quick
    one, many = report["short_runs"]["1"], report["short_runs"]["64"]
    ours, theirs = "SubprocessPrimitive", "asyncio subprocess"
    expected = {  # with one round, the median over the rounds is that round
        "primitive_p50_1": one[ours]["p50_ms"] / one[theirs]["p50_ms"],
        "primitive_runs_per_s_64": many[ours]["runs_per_s"] / many[theirs]["runs_per_s"],
        "primitive_lag_p99_64": many[ours]["lag_p99_ms"] / many[theirs]["lag_p99_ms"],
        "exec_p50_1": one["lilux-proc exec"]["p50_ms"] / one["posix_spawn + wait, C"]["p50_ms"],
        "flood_time": report["flood"][ours]["seconds"]
        / report["flood"]["reader that keeps nothing, C"]["seconds"],
    }
    assert report["ratios"].keys() == expected.keys()
    for name, ratio in expected.items():
        assert math.isclose(report["ratios"][name], ratio), name


def test_what_many_runs_leave_behind_is_counted(quick: tuple[str, dict[str, Any]]) -> None:
    _, report = quick
    endurance = report["endurance"]
    assert endurance["wrong"] == 0
    for moment in ("before", "after", "trimmed"):
        # This process, warden, serve and at least one keeper.
        assert endurance[moment]["processes"] >= 4
        assert endurance[moment]["descriptors"] > 4
        assert endurance[moment]["resident_kib"] > 1024
    assert endurance["trimmed"]["zombies"] == 0


def test_each_target_is_printed_with_what_was_measured(quick: tuple[str, dict[str, Any]]) -> None:
    printed, report = quick
    assert len(report["targets"]) == 10
    for target in report["targets"]:
        line = next(line for line in printed.splitlines() if line.startswith(target["what"]))
        assert line.endswith("ok" if target["is_met"] else "MISSED")
        reached = target["measured"] >= target["limit"] if target["at_least"] else None
        assert target["is_met"] == (target["measured"] <= target["limit"] if reached is None else reached)


def test_a_quick_run_is_not_for_the_page() -> None:
    ran = benchmark("--quick", "--write")
    assert ran.returncode == 2
    assert "--quick" in ran.stderr


def test_the_figures_of_the_page_are_replaced_and_nothing_else(
    quick: tuple[str, dict[str, Any]], elsewhere: Path
) -> None:
    before, old, after = MARKS.split((ROOT / PAGE).read_text(encoding="utf-8"))
    new_before, new, new_after = MARKS.split((elsewhere / PAGE).read_text(encoding="utf-8"))
    assert (new_before, new_after) == (before, after)
    assert new != old
    assert _first_cells(new) - _numbered(new) == _first_cells(old) - _numbered(old)


def _first_cells(markdown: str) -> set[str]:
    """What the rows of all tables are called."""
    return {line.split(" | ")[0] for line in markdown.splitlines() if line.startswith("| ")}


def _numbered(markdown: str) -> set[str]:
    """The names with a figure of the run in them: how many runs, or how much output."""
    return {cell for cell in _first_cells(markdown) if re.search(r"\d", cell)}
