"""Run the tests of a tier: `quick` (make test), `all` (make test-all), `rest` (what quick leaves out).

    python scripts/run_tests.py quick -k word

Rules:

- Tests run beside each other, on every processor; tests that are `alone` run after them, one at a time. Each
  of the two runs ends with pytest's own closing line.
- Only `all` measures coverage, once, of both runs together, with the quickest tracer that knows branches.
- Other arguments go to pytest. The exit code is that of the first run that failed; 5 means that no test was
  selected.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

NOTHING_SELECTED: Final = 5
WORKERS: Final = ("-n", str(min(8, 2 * (os.cpu_count() or 1))), "--dist", "loadfile")
"""More than there are processors, because much of a test is waiting for a process. The tests of a file stay
in one worker, so that the servers and directories that they share are made once.
"""

BESIDE_EACH_OTHER: Final = ("--alone=without", *WORKERS)
ALONE: Final = ("--alone=only",)

MONITORING_KNOWS_BRANCHES: Final = (3, 14)


def runs_of(tier: str) -> list[list[str]]:
    """The arguments of each run of pytest."""
    if tier == "quick":
        return [[*WORKERS]]
    if tier == "rest":
        return [[*BESIDE_EACH_OTHER], [*ALONE]]
    return [
        [*BESIDE_EACH_OTHER, "--cov", "--cov-report="],
        [*ALONE, "--cov", "--cov-append", "--cov-report=term"],
    ]


def main(arguments: Sequence[str]) -> int:
    """Run everything, and return the exit code."""
    tier, *others = arguments
    environment = os.environ | {
        "COVERAGE_CORE": "sysmon" if sys.version_info >= MONITORING_KNOWS_BRANCHES else "ctrace"
    }
    # pytest rewrites every test module; it keeps the result for all workers, and for the next run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    codes = [
        subprocess.run(  # noqa: S603 - this program, and what the caller has typed
            [sys.executable, "-m", "pytest", "--tier", tier, *run, *others],
            cwd=ROOT,
            env=environment,
            check=False,
        ).returncode
        for run in runs_of(tier)
    ]
    failed = [code for code in codes if code not in {0, NOTHING_SELECTED}]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
