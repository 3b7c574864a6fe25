"""What programs cost, and what they spare: calls inside of calls beside the same calls of a client.

    python benchmarks/inside.py [--json FILE] [--strict] [--quick] [--rounds N] [--write] [--session]

Rules:

- A client of the SDK calls a real server over standard streams. The same warm Python tool is called by the
  client and by a program, in turns, a batch each; what counts is the median of the ratios of all rounds.
- Memory is the most that the server's process had while the program ran, over what it had before.
- The example joins of examples/programs run twice: as programs, and in the conversation that they replace, in
  which the client makes the very calls of the program. Counted is the structured content that a model reads.
- A wrong answer ends the benchmark with exit code 1. A target that is missed is only printed, unless
  `--strict` is given. `--write` puts the figures into docs/performance.md.
- Private copies are made where `benchmarks/warm.py` says; `--session` is as there.
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
    from harness.inside import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
