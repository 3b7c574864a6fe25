"""When each test runs: `make test` leaves out tests that have a mark of `LATER`; `make test-all` runs all.

Rules:

- This is the one list of marks. `tests/conftest.py` registers them, gives whole directories theirs, and
  selects by `--tier`; `scripts/run_tests.py` and the closing line of `make test` read the names from here.
- A test without a mark belongs to `make test`. A test says with a mark what it needs, or why it can wait.
- `smoke` outweighs every mark of `LATER`: a few tests of a subject that otherwise waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

__all__ = [
    "ALONE",
    "ALONE_OR_NOT",
    "DIRECTORIES",
    "LATER",
    "OTHER",
    "SMOKE",
    "TIERS",
    "Tier",
    "left_out",
    "reason",
    "runs_in",
]

Tier = Literal["all", "quick", "rest"]
TIERS: Final[tuple[Tier, ...]] = ("all", "quick", "rest")

ALONE: Final = "alone"
ALONE_OR_NOT: Final = ("only", "without")
SMOKE: Final = "smoke"

LATER: Final[Mapping[str, str]] = {
    "benchmarks": "runs a benchmark, with few rounds, and checks what it reports",
    "browser": "drives a browser, which has to be there",
    "conformance": "runs the official conformance suites and clients of others, which npm installs",
    "containment": "attacks the supervisor, and measures when processes are gone",
    "documents": "runs the demo, and the commands and scripts that the pages show",
    "eras": "repeats in the older era of the protocol what does not differ there",
    "loops": "repeats under trio, outside of lilux, what holds under asyncio",
    "network": "needs a package registry",
    "packaging": "builds and installs the sdist and the wheel",
    "ray": "starts a Ray cluster on this machine; skipped where Ray is not installed (make test-ray)",
    "thorough": "more cases of what `make test` tries once, or a rare guard that takes seconds",
}
"""Why a test with this mark waits for `make test-all`."""

OTHER: Final[Mapping[str, str]] = {
    ALONE: "measures what tests beside it would disturb, so `make test-all` runs nothing beside it",
    "both_loops": "runs under trio too, outside of the tests of lilux",
    "both_eras": "runs in both eras of the protocol in `make test` too, because the answers differ",
    "each_once": "runs each value of each parameter once in `make test`, with the first of all others",
    "first_case": "runs the first case in `make test`, or the first value of the named parameters",
    SMOKE: "runs in `make test` too, beside others, although its directory waits for `make test-all`",
    "soak": "uses `rounds`, and so is a part of `make soak`, with many more rounds",
}

DIRECTORIES: Final[Mapping[str, Sequence[str]]] = {
    "benchmarks": ("benchmarks",),
    "browser": ("browser",),
    "conformance": ("conformance",),
    "containment": ("containment", ALONE),
    "ray": ("ray", ALONE),
}
"""Directories below `tests/`, and the marks of every test in them."""


def runs_in(tier: Tier, marks: Collection[str]) -> bool:
    """Whether a test with these marks runs in a tier."""
    return tier == "all" or (tier == "rest") == (reason(marks) is not None)


def reason(marks: Collection[str]) -> str | None:
    """The mark for which a test waits, the first of several; None if it does not wait."""
    return None if SMOKE in marks else next((name for name in LATER if name in marks), None)


def left_out(counts: Mapping[str, int]) -> str:
    """The line that says what `make test` did not run."""
    named = ", ".join(f"{count:,} {mark}" for mark, count in sorted(counts.items()))
    return f"Not run: {named}. To run these too: make test-all"
