"""How long `rye/file-system/grep` takes over many files, with ripgrep and without, beside ripgrep by hand.

    python benchmarks/grep.py [--json FILE] [--strict] [--quick] [--files N] [--rounds N]

Rules:

- A call is a whole one: found, verified, run and logged, by an executor that is warm. By hand means `rg` with
  line numbers, started in the same directory, its output read to the end.
- The same patterns for all: a text that is in few files, a regular expression that is in few lines, and one
  that is in every file.
- All three take turns within each round. What counts is the median of the rounds' ratios: what slows the
  machine down for longer slows down all.
- Every answer is checked against what was written. A wrong one ends the benchmark with exit code 1. A target
  that is missed is only printed, unless `--strict` is given. Without ripgrep there is nothing to measure.
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
    from harness.grep import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
