"""`python -m scripts.reference`: write what the code knows into the documents, and seal the system space.

With `--check` nothing is written, and it ends with 1 when something would be.
"""

from __future__ import annotations

import sys

from scripts.reference import seal
from scripts.reference.pages import ROOT, stale

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Write the pages that are stale, or say which ones are."""
    found = stale()
    if "--check" in arguments:
        for page in found:
            print(f"stale: {page.relative_to(ROOT)}; run: make docs")
        return 1 if found else 0
    for page, text in found.items():
        page.write_text(text, encoding="utf-8")
        print(f"written: {page.relative_to(ROOT)}")
    return seal.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
