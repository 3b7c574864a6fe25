"""How long a newcomer waits: `rye new`, `rye sign` and `rye run` of a Python tool, as commands, in sum.

    python benchmarks/commands.py [--json FILE] [--strict] [--rounds N]

Rules:

- Commands are started as a person starts them, in a project and with a home of their own. A round makes a new
  tool, signs it and runs it for the first time.
- What counts is the median of the rounds, beside it what the processor has worked for it. Every answer is
  checked: a wrong one ends the benchmark with exit code 1. A target that is missed is only printed, unless
  `--strict` is given.
- Figures mean little while the machine is busy with something else: that is said first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

RYE = Path(sysconfig.get_path("scripts")) / "rye"
MAX_SECONDS = 2.0
BUSY = 0.5


@dataclass(frozen=True)
class Timed:
    """How long a command took, and how long a processor worked for it and what it started."""

    seconds: float
    worked: float


class Newcomer:
    """Somebody with a home and a project that nobody has used yet."""

    def __init__(self, place: Path) -> None:
        self._project = place / "project"
        self._project.mkdir()
        self._environment = {"HOME": str(place), "PATH": os.environ["PATH"], "LOGNAME": "newcomer"}

    def rye(self, *arguments: str, prints: str) -> Timed:
        """Run a command, which has to print this."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [RYE, *arguments],
            cwd=self._project,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode or prints not in done.stdout:
            raise SystemExit(f"rye {' '.join(arguments)} went wrong:\n{done.stdout}{done.stderr}")
        worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Timed(seconds, worked)


def rounds(count: int) -> dict[str, list[Timed]]:
    """The times of each command, round by round, after one that warms up."""
    found: dict[str, list[Timed]] = {"rye new": [], "rye sign": [], "rye run": []}
    with TemporaryDirectory(prefix="rye-commands-") as directory:
        newcomer = Newcomer(Path(directory))
        newcomer.rye("init", prints="Made the project")
        for number in range(count + 1):
            item = f"demo/tool_{number}"
            times = (
                newcomer.rye("new", item, "--lang", "python", prints="wrote "),
                newcomer.rye("sign", item, prints="signed "),
                newcomer.rye("run", item, "--name", "Ada", prints="Hello, Ada!"),
            )
            if number:
                for name, timed in zip(found, times, strict=True):
                    found[name].append(timed)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say whether the target is met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--strict", action="store_true", help="end with 1 when the target is missed")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="how often; 7 by default")
    options = parser.parse_args(arguments)
    if os.getloadavg()[0] > BUSY:
        print(
            f"The machine is busy (load {os.getloadavg()[0]:.1f}): these figures mean little.",
            file=sys.stderr,
        )
    found = rounds(max(1, options.rounds))
    totals = [sum(each.seconds for each in times) for times in zip(*found.values(), strict=True)]
    total = statistics.median(totals)
    for name, times in found.items():
        seconds, worked = (
            statistics.median(v) for v in zip(*((t.seconds, t.worked) for t in times), strict=True)
        )
        print(f"{name:<10} {seconds:6.3f} s, a processor worked {worked:6.3f} s")
    is_met = total <= MAX_SECONDS
    print(f"in sum     {total:6.3f} s, at most {MAX_SECONDS:g} s: {'ok' if is_met else 'MISSED'}")
    if options.json is not None:
        cases = [
            {"name": name, "seconds": [t.seconds for t in times], "worked": [t.worked for t in times]}
            for name, times in found.items()
        ]
        report = {"cases": cases, "seconds": total, "max_seconds": MAX_SECONDS, "is_met": is_met}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if options.strict and not is_met else 0


if __name__ == "__main__":
    raise SystemExit(main())
