"""How long a long log takes to verify, and how long a page of its receipts takes to list.

    python benchmarks/receipts.py [--json FILE] [--strict] [--quick] [--rounds N] [--receipts N] [--write]

Rules:

- The log is made by the code that writes receipts: each has its own statement, signature and link. Only the
  transactions are longer than those of a server. Rows of runs are as many as a log keeps.
- What counts is `rye receipt verify --all`, as a process: its CPU time, of one core, so that other work of
  the machine does not count. It has to say that every receipt is verified. Then the oldest receipt is
  changed, and the same command has to find that.
- A page is 50 receipts, in a process that has the log open: the newest, those in the middle and the oldest,
  in turns.
- A wrong answer ends the benchmark with exit code 1. A target that is missed is only printed, unless
  `--strict` is given. `--write` puts the figures into docs/performance.md.
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
    from harness.receipts import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
