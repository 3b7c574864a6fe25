"""Measures `rye/file-system/grep`, with ripgrep and without, beside ripgrep by hand."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.execution import Target
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from rye_mcp.executor.primitive_executor import PrimitiveExecutor

__all__ = ["main"]

FILES: Final = 10_000
QUICK_FILES: Final = 300
QUIET_PERCENT: Final = 90
LIMIT: Final = 100
"""How many lines a call answers when nobody says how many."""

MEDIAN_LINES: Final = 62
SPREAD: Final = 1.45
MOST_LINES: Final = 20_000
"""How long files are: half have less than 4 KiB, and the mean is 11 KiB."""

EVERY: Final = 200
"""In one of so many files stands what is looked for."""

PATTERNS: Final = {
    "a text in few files": "needle_in_the_hay",
    "an expression in few lines": r"needle_\w+ = \d{2}$",
    "an expression in every file": r"\breturn\s+word\d+",
}
MAX_WITH: Final = 1.5
MAX_WITHOUT: Final = 6.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One pattern: the medians in milliseconds, and how many times as long as by hand both ways take."""

    pattern: str
    by_hand_ms: float
    with_ms: float
    without_ms: float
    with_ratio: float
    without_ratio: float


@dataclass(frozen=True, slots=True)
class Hay:
    """A project full of files, and what is in them."""

    project: Path
    files: int

    @classmethod
    def written(cls, directory: Path, files: int) -> Hay:
        """Files as long as those of installed Python packages, with the same words in every run."""
        chance = random.Random(11)  # noqa: S311
        words = [f"word{number}" for number in range(5000)] + ["def", "return", "import", "self", "if"] * 200
        pool = [" ".join(chance.choices(words, k=8)) for _ in range(5000)]
        (directory / ".ai").mkdir(parents=True)
        (directory / ".gitignore").write_text("*.log\nbuild/\n/dist/\n!keep.log\n", encoding="utf-8")
        for number in range(files):
            path = directory / f"package{number // 100}/part{number // 10 % 10}/module{number % 10}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            length = min(MOST_LINES, round(chance.lognormvariate(math.log(MEDIAN_LINES), SPREAD)))
            lines = chance.choices(pool, k=length)
            lines.append(f"return word{number % 5000}")
            if number % EVERY == 0:
                lines.append(f"needle_in_the_hay = {10 + number % 90}")
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return cls(directory, files)

    def expected(self, title: str) -> int:
        """How many lines a call answers."""
        in_all = self.files if "every" in title else (self.files + EVERY - 1) // EVERY
        return min(LIMIT, in_all)


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        print("expected ripgrep to measure beside, found none: nothing was measured", file=sys.stderr)
        return 0
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    files = options.files or (QUICK_FILES if options.quick else FILES)
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            figures = asyncio.run(
                _measure(Path(directory), ripgrep, files, 1 if options.quick else options.rounds)
            )
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    targets = _targets(figures)
    print(f"{machine()}, {files:,} files\n")
    print("\n".join([_HEAD, *map(_line, figures), "", *(target.line for target in targets)]), flush=True)
    if options.json:
        report = {"quick": options.quick, "machine": machine(), "idle_percent": idle, "files": files}
        report |= {"figures": [asdict(each) for each in figures]}
        report |= {"targets": [asdict(each) | {"is_met": each.is_met} for each in targets]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not all(target.is_met for target in targets))


def _targets(figures: Sequence[Figure]) -> list[Target]:
    """What must be reached: by the pattern that takes longest."""
    return [
        Target("grep with ripgrep, over rg by hand", max(each.with_ratio for each in figures), MAX_WITH),
        Target("grep without, over rg by hand", max(each.without_ratio for each in figures), MAX_WITHOUT),
    ]


_HEAD = f"{'milliseconds':<32}{'by hand':>10}{'with rg':>10}{'ratio':>8}{'without':>10}{'ratio':>8}"


def _line(figure: Figure) -> str:
    with_it = f"{figure.with_ms:10.1f}{figure.with_ratio:8.2f}"
    without = f"{figure.without_ms:10.1f}{figure.without_ratio:8.2f}"
    return f"{figure.pattern:<32}{figure.by_hand_ms:10.1f}{with_it}{without}"


async def _measure(directory: Path, ripgrep: str, files: int, rounds: int) -> list[Figure]:
    hay = Hay.written(directory / "project", files)
    programs = directory / "environment"
    venv.create(programs, with_pip=False)
    path = f"{programs}/bin"
    with_it = directory / "with"
    with_it.mkdir()
    (with_it / "rg").symlink_to(ripgrep)
    executors = [_executor(directory, hay, f"{path}:{with_it}"), _executor(directory, hay, path)]
    try:
        return [await _figure(hay, ripgrep, executors, title, rounds) for title in PATTERNS]
    finally:
        for executor in executors:
            await executor.close()


def _executor(directory: Path, hay: Hay, path: str) -> PrimitiveExecutor:
    """An executor whose tools find nothing but what is on this path."""
    before = os.environ["PATH"]
    os.environ["PATH"] = path
    try:
        return PrimitiveExecutor(hay.project, user_space=directory / "home", state=directory / "state")
    finally:
        os.environ["PATH"] = before


async def _figure(
    hay: Hay, ripgrep: str, executors: Sequence[PrimitiveExecutor], title: str, rounds: int
) -> Figure:
    """One pattern. A round before the others gets everything going, and does not count."""
    times: list[tuple[float, float, float]] = []
    for number in range(rounds + 1):
        by_hand = await asyncio.to_thread(_by_hand, ripgrep, hay, title)
        with_it, without = [await _by_us(executor, hay, title) for executor in executors]
        if number:
            times.append((by_hand, with_it, without))
    middle = [statistics.median(column) * 1e3 for column in zip(*times, strict=True)]
    ratios = [statistics.median(each[way] / each[0] for each in times) for way in (1, 2)]
    return Figure(title, *middle, *ratios)


def _by_hand(ripgrep: str, hay: Hay, title: str) -> float:
    started = time.perf_counter()
    ran = subprocess.run(
        [ripgrep, "--line-number", PATTERNS[title], "./"], cwd=hay.project, capture_output=True, check=False
    )
    seconds = time.perf_counter() - started
    if min(LIMIT, ran.stdout.count(b"\n")) != hay.expected(title):
        raise IncorrectError(f"{title}: expected {hay.expected(title)} lines of ripgrep, found others")
    return seconds


async def _by_us(executor: PrimitiveExecutor, hay: Hay, title: str) -> float:
    started = time.perf_counter()
    result = await executor.execute("rye/file-system/grep", {"pattern": PATTERNS[title]})
    seconds = time.perf_counter() - started
    if not result.success:
        raise IncorrectError(
            f"{title}: expected an answer, found {result.code}: {result.error}: {result.data}"
        )
    found: list[dict[str, Any]] = result.data["matches"]
    if len(found) != hay.expected(title) or found != sorted(found, key=lambda each: each["path"].split("/")):
        raise IncorrectError(f"{title}: expected {hay.expected(title)} lines in order, found {len(found)}")
    return seconds


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--files", type=int, metavar="N", help=f"how many files (default: {FILES:,})")
    parser.add_argument(
        "--rounds", type=int, default=11, help="rounds of each pattern (default: %(default)s)"
    )
    return parser.parse_args()
