"""How long it takes to verify a skill of 50 files and 1 MB, and to list 500 skills as the server does.

    python benchmarks/skills.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- Verifying begins with nothing kept: every file is read and hashed, the listing passes the gate, and both are
  compared. Its floor reads and hashes the same files and does nothing else; the two take turns.
- Listing is `skills/list` without the wire: the entries of 500 skills, each verified. The second time and the
  later ones count; the first is printed too.
- Every answer is checked. A wrong one ends the benchmark with exit code 1. A target that is missed is only
  printed, unless `--strict` is given.
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
    from harness.skills import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
