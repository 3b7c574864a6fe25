"""Run the tests of a tier: `quick` (make test), `all` (make test-all), `rest` (what quick leaves out).

    python scripts/run_tests.py quick -k word

Rules:

- Tests run beside each other, on every processor; tests that are `alone` run after them, one at a time. Each
  of the two runs ends with pytest's own closing line.
- A few tests that failed run once more, one at a time: on a machine with other work, a test that waits for
  processes may lose a race against its time limit. A test that passes then is named at the end, so that it
  can be looked into; one that fails again fails the run.
- Only `all` measures coverage, once, of both runs together, with the quickest tracer that knows branches.
- Other arguments go to pytest. The exit code is that of the first run that failed; 5 means that no test was
  selected.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

FAILED: Final = 1
NOTHING_SELECTED: Final = 5
FEW: Final = 5
"""More failures than these have another reason than a busy machine."""

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
    codes = [run_pytest(["--tier", tier, *run, *others], environment) for run in runs_of(tier)]
    failed = [code for code in codes if code not in {0, NOTHING_SELECTED}]
    return failed[0] if failed else min(codes)


def run_pytest(arguments: Sequence[str], environment: Mapping[str, str], root: Path = ROOT) -> int:
    """Run pytest, and once more the few tests that failed."""
    with tempfile.TemporaryDirectory() as cache:
        code = _pytest([*arguments, "-o", f"cache_dir={cache}"], environment, root)
        failed = _failed(Path(cache)) if code == FAILED else []
        if not 0 < len(failed) <= FEW:
            return code
        print("\nOnce more, one at a time:", *failed, sep="\n  ", flush=True)
        code = _pytest(["-n", "0", *failed], environment, root)
    if code == 0:
        print("These failed first and passed alone; each deserves a look:", *failed, sep="\n  ", flush=True)
    return code


def _failed(cache: Path) -> list[str]:
    """The tests that failed, as pytest's cache names them."""
    found = cache / "v/cache/lastfailed"
    return sorted(json.loads(found.read_bytes())) if found.is_file() else []


def _pytest(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> int:
    return subprocess.run(  # noqa: S603 - this program, and what the caller has typed
        [sys.executable, "-m", "pytest", *arguments], cwd=root, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
