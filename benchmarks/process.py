"""How fast processes run through lilux, beside everything else one could use, in one run.

    python benchmarks/process.py [--json FILE] [--write] [--root DIR] [--strict] [--quick] [--rounds N]

Three parts: short runs (/bin/true at concurrency 1, 8, 64 and 256), a flood (1 GiB of output), and many runs
(10,000 one after another, 1,000 at once). Then every target, with what was measured. Rules:

- All contenders are measured in the same run, taking turns; a figure is the median over the rounds. A ratio
  is the median of the rounds' ratios, because both sides of it were measured a moment apart.
- Absolute times are this machine's, now. Only ratios are targets, and numbers that have no noise.
- Every run of every contender is checked. One wrong answer ends the benchmark with exit code 1. A target that
  is missed is only printed, unless `--strict` is given.
- Figures mean little while the machine is busy with something else: that is said first.

The C programs are compiled on the spot, with `cc -O2`, into a temporary directory.
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
    from harness.process import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
