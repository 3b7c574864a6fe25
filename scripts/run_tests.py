"""Run the tests of a tier: `quick` (make test), `all`, `rest` (what quick leaves out) or `ray`.

    python scripts/run_tests.py quick -k word

Rules:

- Tests run beside each other, on every processor; tests that are `alone` run after them, one at a time. Each
  of the two runs ends with pytest's own closing line. `ray` runs those that start a Ray cluster, two at a
  time: each of the two has a cluster of its own, and most of a test is waiting.
- A few tests that failed run once more, one at a time: on a machine with other work, a test that waits for
  processes may lose a race against its time limit. Those that fail then, too, get a second and last chance if
  the machine has more to do than it has processors. A test that passes then is named at the end, and somebody
  should look into it; one that still fails fails the run.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

FAILED: Final = 1
NOTHING_SELECTED: Final = 5
FEW: Final = 5
"""More failures than these have another reason than a busy machine."""

WORKERS: Final = ("-n", str(min(12, 3 * (os.cpu_count() or 1))), "--dist", "loadfile")
"""More than there are processors, because much of a test is waiting for a process. The tests of a file stay
in one worker, so that the servers and directories that they share are made once.
"""

BESIDE_EACH_OTHER: Final = ("--alone=without", *WORKERS)
ALONE: Final = ("--alone=only",)
RAY: Final = ("-n", "2", "--dist", "loadfile", "tests/ray")

MONITORING_KNOWS_BRANCHES: Final = (3, 14)


def runs_of(tier: str) -> list[list[str]]:
    """The arguments of each run of pytest."""
    if tier == "ray":
        return [["--tier", "rest", *RAY]]
    if tier == "quick":
        return [["--tier", tier, *WORKERS]]
    if tier == "rest":
        return [["--tier", tier, *BESIDE_EACH_OTHER], ["--tier", tier, *ALONE]]
    return [
        ["--tier", tier, *BESIDE_EACH_OTHER, "--cov", "--cov-report="],
        ["--tier", tier, *ALONE, "--cov", "--cov-append", "--cov-report=term"],
    ]


def main(arguments: Sequence[str]) -> int:
    """Run everything, and return the exit code."""
    tier, *others = arguments
    environment = os.environ | {
        "COVERAGE_CORE": "sysmon" if sys.version_info >= MONITORING_KNOWS_BRANCHES else "ctrace"
    }
    # pytest rewrites every test module; it keeps the result for all workers, and for the next run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ended = [run_pytest([*run, *others], environment) for run in runs_of(tier)]
    codes = [code for code, _ in ended]
    notes = [note for _, found in ended for note in found]
    if notes:
        print("\nEach of these deserves a look:", *notes, sep="\n", flush=True)
    failed = [code for code in codes if code not in {0, NOTHING_SELECTED}]
    return failed[0] if failed else min(codes)


def run_pytest(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    root: Path = ROOT,
    *,
    is_busy: Callable[[], bool] = lambda: os.getloadavg()[0] > (os.cpu_count() or 1),
) -> tuple[int, list[str]]:
    """Run pytest, and again the few that failed: the exit code, and a line for each that passed then."""
    code, failed = _run(arguments, environment, root)
    notes: list[str] = []
    for chance in (1, 2):
        if not 0 < len(failed) <= FEW or (chance == 2 and not is_busy()):
            break
        print("\nAgain, one at a time:", *failed, sep="\n  ", flush=True)
        code, still = _run(["-n", "0", *failed], environment, root)
        if code not in {0, FAILED}:
            break
        notes += [f"passed only when alone ({chance} of 2): {test}" for test in failed if test not in still]
        failed = still
    return code, notes


def _run(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> tuple[int, list[str]]:
    """Run pytest: the exit code, and the tests that failed, as its cache names them."""
    with tempfile.TemporaryDirectory() as cache:
        code = _pytest([*arguments, "-o", f"cache_dir={cache}"], environment, root)
        found = Path(cache) / "v/cache/lastfailed"
        is_told = code == FAILED and found.is_file()
        return code, sorted(json.loads(found.read_bytes())) if is_told else []


def _pytest(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> int:
    return subprocess.run(  # noqa: S603 - this program, and what the caller has typed
        [sys.executable, "-m", "pytest", *arguments], cwd=root, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
