"""What it costs to confine a run: walls and cells beside no confinement, one at a time and four at once.

    python benchmarks/permissions.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- A run is `/bin/true`. The contenders take turns: each round runs every one of them once, so that what slows
  the machine down slows down all of them. What counts is the median of all rounds, and of the differences
  within a round.
- A Python tool runs through every stage, in turns: in a cell, where it may write its project, and unconfined.
- What hosts add to walls is printed, where the kernel tells hosts apart in them; it has no target.
- A probe is `lilux-proc probe`, with the start of that program.
- Four at once: the same number of runs of each contender, four of them under way at any time.
- As root, everything but the Python tool is measured a second time as an ordinary user, if that user may
  read this directory.
- A run that fails, or is confined less than it should be, ends the benchmark with exit code 1. A target that
  is missed is only printed, unless `--strict` is given. Where there are no cells, nothing is measured.
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
    from harness.permissions import main as run

    return run(__doc__ or "", Path(__file__))


if __name__ == "__main__":
    raise SystemExit(main())
