"""The benchmark runs and says what it must. Its figures are for people, and for `--strict`."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "process.py"

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
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What one quick run prints, and what it writes for scripts."""
    report = tmp_path_factory.mktemp("benchmark") / "report.json"
    readme = (ROOT / "README.md").read_bytes()
    ran = benchmark("--quick", "--json", report)
    assert ran.returncode == 0, ran.stderr
    assert (ROOT / "README.md").read_bytes() == readme
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


def test_a_quick_run_is_not_for_the_readme() -> None:
    ran = benchmark("--quick", "--readme")
    assert ran.returncode == 2
    assert "--quick" in ran.stderr
