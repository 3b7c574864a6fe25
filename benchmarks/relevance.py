"""How often search finds the right tools: R@5, nDCG@10 and MRR on sets of tools and of wishes.

    python benchmarks/relevance.py DIRECTORY [--make NAME PATH] [--json FILE] [--strict] [--set NAME ...]

Rules:

- A directory holds `NAME.tools.jsonl` (`id`, `name`, `description`, `category`, `body`) and
  `NAME.queries.jsonl` (`query`, `relevant`: ids) of each set. No set is part of the project; `--make` makes
  one there out of what was fetched before.
- Each tool becomes a real item file, and each query becomes what the verb of agents asks the catalog, with
  nothing set for one set or another. Signatures make no difference to an order, so that nothing is signed.
- Beside it stands plain FTS5: the same texts, split names, stems, the words of a query joined by OR.
- R@5 is the share of the relevant tools among the first five; nDCG@10 weighs them by their ranks among the
  first ten; MRR is one by the rank of the first. All are averages over all queries. The interval of the
  difference comes from drawing queries again, the same ones for both.
- Of each set it is said whether the parameters of the ranking were chosen on it.
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
