"""How much a verified run costs over starting the same script by hand, for each runtime, and of what.

    python benchmarks/execute.py [--json FILE] [--strict] [--quick] [--rounds N]

By hand means: the same interpreter with the same arguments, environment, working directory, standard input
and files, as they stand in the prepared call itself, started with `asyncio.create_subprocess_exec`, with
nothing checked, nothing bounded and nothing written down.

Rules:

- Runs of ours and by hand take turns within each round. What counts is the median of the rounds' ratios, and
  of their differences: what slows the machine down for longer slows down both.
- Every answer is checked, and so is that it was verified, sealed and logged. A wrong one ends the benchmark
  with exit code 1. A target that is missed is only printed, unless `--strict` is given.
- What a receipt costs is measured at the end of a run in the log, with a receipt and without one, in turns:
  the row of a run that was made before, and what was known of its call.
- A stage that calls pass over, because nothing has changed since the call before, takes 0 µs.
- A runtime whose interpreter is not there is left out, and named.
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
    from harness.execution import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
