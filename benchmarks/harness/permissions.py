"""Measures what walls and cells add to a run, as root and as an ordinary user."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.execution import Target
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from harness.tools import UNDER_PERMISSIONS, Scene, by_us
from lilux.primitives.subprocess import Hosts, Policy, ProcessSpec, SubprocessPrimitive

__all__ = ["main"]

QUIET_PERCENT: Final = 90
ROUNDS, QUICK_ROUNDS = 300, 5
CROWD, QUICK_CROWD = 1000, 20
AT_ONCE: Final = 4
ORDINARY_USER: Final = 4001

CONTENDERS: Final[Mapping[str, Policy | None]] = {
    "off": None,
    "walls": Policy(tier="walls", require="walls"),
    "cell": Policy(tier="cell", require="cell"),
    "cell, hosts": Policy(tier="cell", require="cell", net=Hosts(["allowed.example"])),
}
WITH_BROKER: Final[Mapping[str, Policy]] = {
    "walls, hosts": Policy(tier="walls", require="walls", net=Hosts(["allowed.example"]))
}
"""Walls with hosts, where the kernel lets us tell hosts apart in them: measured, without a target."""

MAX_ADDED_MS: Final[Mapping[str, float]] = {"walls": 0.2, "cell": 0.6, "cell, hosts": 0.7}
"""The most that a run takes longer than one that is not confined."""

MAX_PROBE_MS: Final = 20.0
"""The most that it takes to find out what can be enforced, once for each supervisor."""

PROBES: Final = 20
MIN_RUNS_S: Final = 1000.0
MAX_TOOL_RATIO: Final = 1.06


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one user: medians in milliseconds, what was added to each run, and runs a second.

    `probe_ms` is the time of `lilux-proc probe`, with the start of that program.
    `tool_ratio` is the time of a Python tool that writes its project in a cell, over the same unconfined.
    """

    median_ms: Mapping[str, float]
    added_ms: Mapping[str, float]
    per_second: Mapping[str, float]
    probe_ms: float
    tool_ratio: float | None = None

    def targets(self, user: str) -> list[Target]:
        """What must be reached."""
        per_run = 1e3 / self.per_second["cell"]
        targets = [
            Target(f"{name} over no confinement, {user}", self.added_ms[name], most, "ms")
            for name, most in MAX_ADDED_MS.items()
        ]
        targets.append(
            Target(f"time for a run in a cell, four at once, {user}", per_run, 1e3 / MIN_RUNS_S, "ms")
        )
        targets.append(Target(f"a probe, {user}", self.probe_ms, MAX_PROBE_MS, "ms"))
        if self.tool_ratio is not None:
            name = f"a Python tool in a cell over unconfined, {user}"
            targets.append(Target(name, self.tool_ratio, MAX_TOOL_RATIO))
        return targets


def main(doc: str, script: Path) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    try:
        rounds = QUICK_ROUNDS if options.quick else options.rounds
        own = asyncio.run(_measure(options.quick, rounds, with_tool=True))
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    if own is None:
        print("expected a machine that can make cells, found none: nothing was measured", file=sys.stderr)
        return 0
    users = {"root" if os.getuid() == 0 else "user": own}
    if os.getuid() == 0:
        users |= _as_ordinary_user(script, options)
    targets = [target for user, figures in users.items() for target in figures.targets(user)]
    print(f"{machine()}\n\n{'':<8}{'':<14}{'one at a time':>16}{'added':>12}{'four at once':>16}")
    for user, figures in users.items():
        for name in figures.median_ms:
            added = f"{figures.added_ms[name]:9.3f} ms" if name in figures.added_ms else ""
            print(
                f"{user:<8}{name:<14}{figures.median_ms[name]:13.3f} ms{added:>12}"
                f"{figures.per_second[name]:14.0f}/s"
            )
    print("\n" + "\n".join(target.line for target in targets), flush=True)
    if options.json:
        report: dict[str, Any] = {"quick": options.quick, "machine": machine(), "idle_percent": idle}
        report |= {"figures": {user: asdict(figures) for user, figures in users.items()}}
        report |= {"targets": [asdict(each) | {"is_met": each.is_met} for each in targets]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not all(target.is_met for target in targets))


_AS_USER: Final = ("setpriv", f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups")


def _as_ordinary_user(script: Path, options: argparse.Namespace) -> dict[str, Figures]:
    """The same as somebody else."""
    arguments = ["--user-figures", "--rounds", str(options.rounds), *(["--quick"] if options.quick else [])]
    # Other users may not be able to reach root's own interpreter.
    reached = subprocess.run([*_AS_USER, sys.executable, "-c", ""], capture_output=True, check=False)
    python = sys.executable if not reached.returncode else shutil.which("python3", path="/usr/bin") or ""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    packages = os.pathsep.join(each for each in sys.path if "site-packages" in each or each.endswith("src"))
    try:
        ran = subprocess.run(
            [*_AS_USER, python, str(script), *arguments],
            cwd="/",
            env={"PATH": path, "HOME": "/", "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
    except (subprocess.CalledProcessError, PermissionError) as exc:
        said = getattr(exc, "stderr", "") or str(exc)
        print(f"not measured as an ordinary user: {said[-300:]}", file=sys.stderr)
        return {}
    return {"user": Figures(**json.loads(ran.stdout))} if ran.stdout else {}


async def _measure(quick: bool, rounds: int, *, with_tool: bool) -> Figures | None:
    primitive = SubprocessPrimitive()
    facts = await primitive.probe()
    if facts.cell is None:
        return None
    contenders = {**CONTENDERS, **(WITH_BROKER if facts.broker else {})}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, policy in contenders.items():
            took = await _run(primitive, policy)
            if turn:  # the first has to find out and to make what all others use
                times[name].append(took)
    added = {
        name: statistics.median(mine - off for mine, off in zip(times[name], times["off"], strict=True))
        for name in contenders
        if name != "off"
    }
    count = QUICK_CROWD if quick else CROWD
    crowds = {name: await _crowd(primitive, policy, count) for name, policy in contenders.items()}
    medians = {name: statistics.median(took) for name, took in times.items()}
    ratio = await _tool_ratio(rounds // 3 + 1) if with_tool else None
    return Figures(medians, added, crowds, statistics.median(_probe() for _ in range(PROBES)), ratio)


def _probe() -> float:
    """Find out what can be enforced, as each supervisor does once, in a program of its own."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    started = time.perf_counter()
    subprocess.run([shutil.which("lilux-proc", path=path) or "", "probe"], capture_output=True, check=True)
    return (time.perf_counter() - started) * 1e3


async def _tool_ratio(rounds: int) -> float:
    """Measure the same tool in a cell and unconfined, in turns; the median of the ratios of all rounds."""
    open_id, confined_id = UNDER_PERMISSIONS
    with tempfile.TemporaryDirectory(prefix="permissions-") as directory:
        executor = Scene(Path(directory), under_permissions=True).executor()
        try:
            ratios = []
            for turn in range(rounds + 1):
                taken = {}
                for item_id in UNDER_PERMISSIONS if turn % 2 else reversed(UNDER_PERMISSIONS):
                    taken[item_id] = await by_us(executor, item_id)
                ratios += [taken[confined_id] / taken[open_id]] if turn else []
        finally:
            await executor.close()
    return statistics.median(ratios)


async def _run(primitive: SubprocessPrimitive, policy: Policy | None) -> float:
    started = time.perf_counter()
    result = await primitive.run(ProcessSpec(command="/bin/true", cwd="/", policy=policy))
    took = (time.perf_counter() - started) * 1e3
    level = "none" if result.enforced is None else result.enforced.level
    if not result.success or level != ("none" if policy is None else policy.tier):
        raise IncorrectError(f"expected a run as {policy}, found {result.error or result.enforced}")
    return took


async def _crowd(primitive: SubprocessPrimitive, policy: Policy | None, count: int) -> float:
    async def some() -> None:
        for _ in range(count // AT_ONCE):
            await _run(primitive, policy)

    await asyncio.gather(*(_run(primitive, policy) for _ in range(AT_ONCE)))
    started = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return count // AT_ONCE * AT_ONCE / (time.perf_counter() - started)


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds; the median counts")
    parser.add_argument("--user-figures", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.user_figures:
        figures = asyncio.run(_measure(options.quick, options.rounds, with_tool=False))
        print(json.dumps(asdict(figures)) if figures else "")
        raise SystemExit(0)
    return options
