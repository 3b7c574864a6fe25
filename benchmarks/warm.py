"""What it brings that interpreters wait for calls: warm calls beside cold ones, and beside a start by hand.

    python benchmarks/warm.py [--json FILE] [--strict] [--quick] [--rounds N] [--write] [--session]

Rules:

- A call goes through every stage of `PrimitiveExecutor`: verified, sealed and logged. The three contenders
  take turns in one run, and what counts is the median of the ratios of all rounds.
- A round waits until an interpreter waits again: the figure is that of a call that comes now and then. What
  calls cost that follow each other at once is measured by itself.
- A call that was to be warm and is not, or a wrong answer, ends the benchmark with exit code 1. A target that
  is missed is only printed, unless `--strict` is given. `--write` puts the figures into docs/performance.md.
- Each call makes a private copy. In a login session it is in memory (`/run/user/UID`). A container has no
  session, and its copies are on its disk: `--session` gives root one, in a mount namespace. The file system
  is said beside the figures.
- Figures mean little while the machine is busy with something else: that is said first.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Import what is measured, then what measures: a file in this directory has the name of the package."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
    __import__("lilux")
    sys.path.append(str(HERE))
    from harness.warm import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
