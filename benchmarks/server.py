"""How long a client waits for the server, beside a bare `MCPServer` with one tool and a server on FastMCP.

    python benchmarks/server.py [--rounds N] [--peer DIRECTORY | --no-peer]

Rules:

- All are started as a client starts them, in turns within each round; medians count.
- `start` is from starting the process to the answer to `initialize`. `load` is compared with a ping of the
  same server, `execute` with the same script, interpreter and arguments started by hand.
- FastMCP does the same work: its one tool starts the same script. It is installed into an environment of its
  own, which is thrown away unless `--peer` names one to keep.
- Fifty calls are sent at once, and pings until all of them are answered. The first ping stands in line behind
  the calls; it is told apart.
- The lag is how long a thread of the server waits for a turn of the event loop, while twenty tools are signed
  and fifty run; then the same without the time in which the loop waits for a processor, which the tools that
  run and everything else on the machine want too.
- Every answer is checked before its time counts. Figures mean little while the machine is busy.
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
    from harness.server import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
