"""How fast the primitives of lilux are, beside the bare libraries that they stand on, in one run.

    python benchmarks/lilux.py [--json FILE] [--only SECTION] [--strict] [--quick] [--rounds N]

The sections are modules of `sections/`, listed in `sections/__init__.py`. Rules:

- A case and its floor take turns within each round, and the ratio is the median of the rounds' ratios: what
  slows the machine down for longer slows down both. Only ratios are targets, and times where a limit is
  one.
- Every case and every floor is checked before it is timed. A wrong answer ends the benchmark with exit code
  1. A target that is missed is only printed, unless `--strict` is given.
- Figures mean little while the machine is busy with something else: that is said first.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Import what is measured, then what measures: this file has the same name as the package."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
    __import__("lilux")
    sys.path.append(str(HERE))
    from sections.run import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
