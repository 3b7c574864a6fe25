"""How much a call on a node costs over the same call here; the node is a worker on this machine.

    python benchmarks/nodes.py [--json FILE] [--strict] [--quick] [--rounds N]

Rules:

- The same signed tools, but for `workspace: none`, are called in turns in one process, as a server does:
  /bin/true, and a Python script. The worker is a process that `rye engine add` without `--ssh` leads to.
  Where Ray is installed, a cluster of one node on this machine is another contender.
- What counts for one call at a time is the median, over the rounds, of the differences of the medians within
  a round; for many at once the calls a second of both, one after the other.
- A call that is given up, and one whose worker is killed, is over when the process of the tool is dead; of
  the latter, its caller has to be told, too. The medians of a few count.
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
    from harness.nodes import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
