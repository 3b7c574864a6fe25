"""How long the search index takes to build, to follow a change and to answer, and how large it becomes.

    python benchmarks/search.py [--json FILE] [--strict] [--quick] [--items N ...]

Rules:

- Items are real files, with names, descriptions, parameters and code of words that are as unevenly common as
  those of a language; the words are the same in every run. So are the queries, of each kind many.
- A first index is what a server has before its first search. Meanwhile an event loop answers pings, and the
  slowest answer is what counts. Beside it stands that of a process that does nothing else at that time.
- A change is a file that was written. It counts from when the system tells of it, as a server is told, until
  a sentence finds it.
- Over standard streams, a client asks the installed server, and each of ten results has passed the gate. The
  memory that a first search adds is that of the word table, of the index and of the code.
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
    from harness.search import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
