"""How long `rye push` and `rye pull` of many signed items take, with a registry on this machine.

    python benchmarks/sharing.py [--json FILE] [--strict] [--quick] [--items N] [--rounds N]

Rules:

- The registry is `docker-registry`, with its files on the disk. Without it there is nothing to measure.
- Commands are started as a person starts them. In each round, everything is pushed to a repository that is
  empty, and pulled into a project that has nothing of it. The median of the rounds counts.
- What was pulled is compared with what was pushed, byte for byte. A difference ends the benchmark with exit
  code 1. A target that is missed is only printed, unless `--strict` is given.
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
    from harness.sharing import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
