"""Measures `rye push` and `rye pull` with a registry on loopback."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from harness.execution import Target
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from rye_mcp.app import App, Settings
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.sign import SignRequest, sign

__all__ = ["main"]

ITEMS: Final = 200
QUICK_ITEMS: Final = 5
QUIET_PERCENT: Final = 90
MAX_S: Final = 3.0
_RYE: Final = Path(sysconfig.get_path("scripts")) / "rye"

_TOOL: Final = '''"""Tool number {number}: says hello to somebody."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"


def main(name="world"):
    return "Hello, " + name + " {number}"
'''


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians in seconds."""

    items: int
    push_s: float
    pull_s: float

    @property
    def both_s(self) -> float:
        """One push and one pull."""
        return self.push_s + self.pull_s


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    registry = shutil.which("docker-registry")
    if registry is None:
        print("expected docker-registry to share through, found none: nothing was measured", file=sys.stderr)
        return 0
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    items = options.items or (QUICK_ITEMS if options.quick else ITEMS)
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            figures = _measure(Path(directory), registry, items, 1 if options.quick else options.rounds)
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    target = Target("rye push and rye pull", figures.both_s, MAX_S, "s")
    print(f"{machine()}, {items:,} items\n")
    print(f"rye push {figures.push_s:6.2f} s\nrye pull {figures.pull_s:6.2f} s\n\n{target.line}", flush=True)
    if options.json:
        report = {"quick": options.quick, "machine": machine(), "idle_percent": idle, **asdict(figures)}
        report |= {"targets": [asdict(target) | {"is_met": target.is_met}]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not target.is_met)


def _measure(directory: Path, registry: str, items: int, rounds: int) -> Figures:
    environment = _environment(directory)
    project = _project(directory / "project", environment, items)
    times: list[tuple[float, float]] = []
    with _served(directory, registry) as host:
        for number in range(rounds + 1):  # the first gets everything going, and does not count
            reference = f"{host}/benchmark/round{number}:1"
            other = _empty(directory / f"other{number}", environment)
            push_s = _timed(["push", reference, "*"], project, environment)
            pull_s = _timed(["pull", reference], other, environment)
            _compare(project, other)
            times.append((push_s, pull_s))
    counted = times[1:]
    return Figures(items, *(statistics.median(column) for column in zip(*counted, strict=True)))


def _environment(directory: Path) -> dict[str, str]:
    home = directory / "home"
    home.mkdir()
    places = {"HOME": home, "USER_SPACE": home, "XDG_STATE_HOME": home / "state"}
    return {**os.environ, **{name: str(path) for name, path in places.items()}}


def _empty(project: Path, environment: dict[str, str]) -> Path:
    project.mkdir()
    _timed(["init"], project, environment)
    return project


def _project(project: Path, environment: dict[str, str], items: int) -> Path:
    """A project with so many signed tools."""
    _empty(project, environment)
    for number in range(items):
        path = project / f".ai/tools/group{number // 20}/tool{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TOOL.format(number=number), encoding="utf-8")
    settings = Settings.find(
        project=project,
        user_directory=Path(environment["USER_SPACE"]),
        state=Path(environment["XDG_STATE_HOME"]) / "rye",
        environment=environment,
    )
    sign(SignRequest("*"), App.open(settings).context(SignerKind.PERSON))
    return project


@contextmanager
def _served(directory: Path, registry: str) -> Iterator[str]:
    """A registry on a port of its own, for the time of the block."""
    configuration = directory / "registry.yml"
    configuration.write_text(
        f"version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\n"
        f"storage: {{filesystem: {{rootdirectory: {directory}/registry}}}}\n"
        f'http: {{addr: "127.0.0.1:0"}}\n',
        encoding="utf-8",
    )
    with (directory / "registry.log").open("wb+") as log:
        process = subprocess.Popen([registry, "serve", configuration], stdout=log, stderr=log)
        try:
            yield _host(process, directory / "registry.log")
        finally:
            process.kill()
            process.wait()


def _host(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if found := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.01)
    raise IncorrectError(
        f"expected a registry, found that it ended: {log.read_text(encoding='utf-8')[-300:]}"
    )


def _timed(arguments: list[str], project: Path, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    ran = subprocess.run([_RYE, *arguments], cwd=project, env=environment, capture_output=True, check=False)
    seconds = time.perf_counter() - started
    if ran.returncode:
        raise IncorrectError(f"rye {arguments[0]} failed: {ran.stderr.decode()[-300:]}")
    return seconds


def _compare(project: Path, other: Path) -> None:
    expected, found = (
        {path.relative_to(each): path.read_bytes() for path in each.glob(".ai/tools/**/*.py")}
        for each in (project, other)
    )
    if expected != found:
        raise IncorrectError(f"expected {len(expected)} tools as they were pushed, found {len(found)}")


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--items", type=int, metavar="N", help=f"how many items (default: {ITEMS})")
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds (default: %(default)s)")
    return parser.parse_args()
