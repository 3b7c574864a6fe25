"""How much the gate costs over hashing a file and verifying one signature, and how long whole commands take.

    python benchmarks/trust.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- A case and its floor take turns within each round. What counts is the median of the rounds' differences, in
  microseconds a call: what slows the machine down for longer slows down both.
- Commands are started as a person starts them; the median of a few runs counts.
- Every case and every floor is checked before it is timed. A wrong answer ends the benchmark with exit code
  1. A target that is missed is only printed, unless `--strict` is given.
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
    from harness.gate import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
