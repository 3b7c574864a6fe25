"""Run the whole test suite: first the tests that have to be alone, then all others beside each other.

Arguments are passed on to pytest (`-k word`, a path). Each of the two says how it ended; the exit code is
that of the first that failed. The report of coverage is of both together.
"""

import subprocess
import sys

NOTHING_SELECTED = 5
ELSEWHERE = [f"--ignore=tests/{each}" for each in ("attacks", "integration", "unit")]
"""Not looked into for tests that are alone: collecting takes its time."""
RUNS = (
    ["-m", "alone", *ELSEWHERE, "--cov", "--cov-report="],
    [
        "-m",
        "not alone",
        "--ignore=tests/containment",
        "-n",
        "auto",
        "--maxprocesses=4",
        "--cov",
        "--cov-append",
        "--cov-report=term",
    ],
)


def main(arguments: list[str]) -> int:
    """Run both, and return the exit code."""
    codes = [
        subprocess.run(  # noqa: S603 - this program, and what was typed behind it
            [sys.executable, "-m", "pytest", *run, *arguments], check=False
        ).returncode
        for run in RUNS
    ]
    failed = [code for code in codes if code not in {0, NOTHING_SELECTED}]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
