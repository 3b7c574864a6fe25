"""How often search finds the right tools: R@5 and nDCG@10 on sets of tools and of sentences that want them.

    python benchmarks/relevance.py DIRECTORY [--json FILE] [--strict] [--set NAME ...]

Rules:

- A directory holds `NAME.tools.jsonl` (`id`, `name`, `description`, `category`, `body`) and
  `NAME.queries.jsonl` (`query`, `relevant`: ids) of each set. No set is part of the project.
- Each tool becomes a real item file, and each query goes through the verb that agents call, with nothing set
  for one set or another. What the system space holds is searched too, as it is for everybody.
- R@5 is the share of the relevant tools among the first five; nDCG@10 weighs them by their ranks among the
  first ten. Both are averages over all queries.
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
    from harness.relevance import main as run

    return run(__doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
