"""How much a call of a bridged tool costs over calling its MCP server directly.

    python benchmarks/bridge.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- The same program is the server in both cases, on the MCP SDK, and one raw client asks both over standard
  streams, in turns. `execute` is through the tool of that name, `exposed` through the tool as one of MCP.
- What counts is the median, over the rounds, of the differences of the medians within a round.
- Every answer is checked before its time counts. A missed target is only printed, unless `--strict` is
  given. Figures mean little while the machine is busy with something else: that is said first.
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
    from harness.bridge import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
