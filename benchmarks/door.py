"""How long a connection through the door takes, and how many bytes pass through it, beside no door at all.

    python benchmarks/door.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- The same program talks to the same server of this machine: once unconfined, straight to 127.0.0.1, and once
  in a cell whose only way out is the door. They take turns within each round. What counts is the median of
  the rounds.
- A connection is a name that is known already, a connection, one byte there and one back. A stream is 256 MiB
  in one direction.
- A start is `/bin/true` in a cell, with hosts and with no network at all.
- Every byte is counted by the door as well; a wrong number ends the benchmark with exit code 1. A target
  that is missed is only printed, unless `--strict` is given. Where there are no cells, nothing is measured.
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
    from harness.door import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
