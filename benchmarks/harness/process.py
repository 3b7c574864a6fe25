"""`benchmarks/process.py`: its options, its parts in order, and where their figures go."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from pathlib import Path

from harness import contenders, endurance, flood, report, speed, targets
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.native import Native
from lilux._supervisor import find_lilux_proc

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"(<!-- benchmark:process -->\n).*(\n<!-- /benchmark:process -->)", re.DOTALL)

QUIET_PERCENT = 90
"""Less idle time than this before the start, and the figures are not to be trusted."""


def main(description: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(description)
    try:
        found = _measure(options)
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    print(found.for_terminal(), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found.for_scripts(), indent=2) + "\n", encoding="utf-8")
    if options.write:
        _rewrite(options.root / "docs" / "performance.md", found.for_page())
    is_correct = found.endurance.wrong == 0
    return int(not is_correct or (options.strict and not all(target.is_met for target in found.targets)))


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--write", action="store_true", help="rewrite the figures in docs/performance.md")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="where docs/ is")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--rounds", type=int, default=9, help="of the short runs (default: %(default)s)")
    options = parser.parse_args()
    if options.write and options.quick and options.root.resolve() == ROOT.resolve():
        parser.error("--quick measures nothing that belongs on a page")
    return options


def _measure(options: argparse.Namespace) -> report.Report:
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        _tell(f"this machine is busy ({idle:.0f} % idle): expect noise")
    lilux_proc, quick = find_lilux_proc(), options.quick
    size = flood.QUICK_SIZE if quick else flood.SIZE
    many = (endurance.QUICK_RUNS, endurance.QUICK_AT_ONCE) if quick else (endurance.RUNS, endurance.AT_ONCE)
    rounds = 1 if quick else options.rounds
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory, asyncio.Runner() as runner:
        native = Native.compile(Path(directory))
        everybody = contenders.contenders(runner, native, lilux_proc)
        short = speed.measure(everybody, rounds, speed.QUICK_COUNTS if quick else speed.COUNTS, _tell)
        floods = flood.measure(native, lilux_proc, size, 1 if quick else flood.ROUNDS, _tell)
    _tell(f"many runs: {many[0]:,} of them, then {many[1]:,} at once")
    endured = flood.in_fresh_process(endurance.measure, *many)
    ratios = {**speed.ratios(short), "flood_time": flood.time_ratio(floods)}
    by_taker = {name: flood.Flood.median(found) for name, found in floods.items()}
    growth = by_taker[contenders.PRIMITIVE].growth_kib or 0
    return report.Report(
        quick=quick,
        machine=report.machine(),
        idle_percent=idle,
        rounds=rounds,
        flood_bytes=size,
        short_runs=speed.medians(short),
        flood=by_taker,
        endurance=endured,
        ratios=ratios,
        targets=targets.targets(ratios, growth, endured),
    )


def _rewrite(document: Path, text: str) -> None:
    old = document.read_text(encoding="utf-8")
    new, count = SECTION.subn(lambda found: f"{found[1]}{text}{found[2]}", old)
    if count != 1:
        raise SystemExit(f"expected one section {SECTION.pattern!r} in {document.name}, found {count}")
    document.write_text(new, encoding="utf-8")


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
