"""How soon the page of `rye ui` is there and shows a line, and whether a server notices that it looks.

    python benchmarks/ui.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- The first view is the time from the start of `rye ui` until Chromium, which is open already, has painted the
  list of a log with 100,000 runs. Beside it stands how long `rye --version` takes, in turns: that much is the
  interpreter and the command line.
- A tool prints each line with the time of its printing; the page notes when it stands in the document.
- A server runs ten tools that print 1,000 lines a second each, and is pinged: while nobody looks, and while
  the page follows all ten. They take turns within each round.
- A target that is missed is only printed, unless `--strict` is given. Without Chromium and playwright nothing
  but the pings is measured.
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
    from harness.ui import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
