"""Measures skills: one is verified with nothing kept, many are listed when nothing has changed."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from lilux._stamps import SETTLED_NS
from rye_mcp.app import App, Settings
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.skills import list_skills
from rye_mcp.spaces import _skills
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.sign import BatchResult, SignRequest, sign

FILES, BYTES, SKILLS = 50, 1_000_000, 500
QUIET_PERCENT = 90
MAX_VERIFY_MS, MAX_LIST_MS = 8.0, 150.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What one case came to, in milliseconds; `floor_ms` is what stands below it."""

    name: str
    ms: float
    max_ms: float | None = None
    floor_ms: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether its target was reached; None without one."""
        return None if self.max_ms is None else self.ms <= self.max_ms

    @property
    def line(self) -> str:
        """How it is printed."""
        floor = "" if self.floor_ms is None else f"  floor {self.floor_ms:8.2f} ms"
        target = "" if self.max_ms is None else f"  ≤ {self.max_ms:g} ms"
        verdict = {True: "  ok", False: "  MISSED", None: ""}[self.is_met]
        return f"{self.name:<40}{self.ms:8.2f} ms{floor}{target}{verdict}"


class Scene:
    """A project with one large skill, and another one with many small ones."""

    def __init__(self, directory: Path, skills: int) -> None:
        self.skills = skills
        self.large = _context(directory / "large", directory, {"large": _large()})
        self.many = _context(
            directory / "many", directory, {f"skill-{each}": _small(each) for each in range(skills)}
        )
        self.root = directory / "large/.ai/skills/large"
        time.sleep(1.1 * SETTLED_NS / 1e9)

    def verify(self) -> str:
        """Verify the large skill with nothing kept."""
        _skills._kept.clear()
        self.large.context.trust.answers.clear()
        file = self.large.context.spaces.find("large", ItemType.SKILL).item
        return self.large.context.verify(file).digest

    def read(self) -> str:
        """Read and hash the same files."""
        whole = hashlib.sha256()
        for above, _, names in os.walk(self.root):
            for name in sorted(names):
                with open(f"{above}/{name}", "rb") as file:  # noqa: PTH123 - the quickest way there is
                    whole.update(hashlib.sha256(file.read()).digest())
        return whole.hexdigest()

    def list(self) -> int:
        """List the many skills."""
        return len(list_skills(self.many.app))


@dataclass(frozen=True, slots=True)
class _Project:
    app: App
    context: Context


def _large() -> dict[str, bytes]:
    source = random.Random(1)  # noqa: S311 - the same files each time
    each = BYTES // (FILES - 1)
    files = {
        f"references/{number:02}.md": source.randbytes(each // 2).hex().encode()
        for number in range(FILES - 1)
    }
    return {**files, "SKILL.md": _text("large")}


def _small(number: int) -> dict[str, bytes]:
    name = f"skill-{number}"
    return {"SKILL.md": _text(name), "references/more.md": b"More.\n" * 50, "scripts/run.sh": b"echo ok\n"}


def _text(name: str) -> bytes:
    front = f"---\nname: {name}\ndescription: Does {name} when somebody needs it.\nlicense: MIT\n---\n"
    return (front + "Do one thing after the other.\n" * 20).encode()


def _context(project: Path, directory: Path, skills: dict[str, dict[str, bytes]]) -> _Project:
    for name, files in skills.items():
        for path, content in files.items():
            place = project / ".ai/skills" / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    home = directory / "home"
    settings = Settings.find(project=project, user_directory=home, state=directory / "state", environment={})
    app = App.open(settings)
    app.keys.ensure(SignerKind.PERSON, owner="leo")
    result = sign(SignRequest("*", ItemType.SKILL), app.context(SignerKind.PERSON))
    if not isinstance(result, BatchResult) or len(result.signed) != len(skills):
        raise IncorrectError(f"expected {len(skills)} signed skills, found {result}")
    return _Project(app, app.context())


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            scene = Scene(Path(directory), 20 if options.quick else SKILLS)
            found = _measured(scene, 1 if options.quick else options.rounds)
    except IncorrectError as exc:
        print(exc, file=sys.stderr)
        return 1
    for case in found:
        print(case.line)
    if options.json:
        cases = [{**dataclasses.asdict(case), "is_met": case.is_met} for case in found]
        report = {"machine": machine(), "idle_percent": idle, "cases": cases}
        options.json.write_text(json.dumps(report, indent=2), encoding="utf-8")
    return 1 if options.strict and any(case.is_met is False for case in found) else 0


def _measured(scene: Scene, rounds: int) -> list[Measured]:
    digest, first = scene.verify(), _timed(scene.list, scene.skills)
    ours, floor = [], []
    for _ in range(rounds):
        ours.append(_timed(scene.verify, digest))
        floor.append(_timed(scene.read, scene.read()))
    again = [_timed(scene.list, scene.skills) for _ in range(rounds)]
    return [
        Measured(
            f"verify a skill, {FILES} files, 1 MB",
            statistics.median(ours),
            MAX_VERIFY_MS,
            statistics.median(floor),
        ),
        Measured(f"list {scene.skills} skills, the first time", first),
        Measured(f"list {scene.skills} skills again", statistics.median(again), MAX_LIST_MS),
    ]


def _timed(work: Callable[[], object], expected: object) -> float:
    begun = time.perf_counter()
    found = work()
    took = (time.perf_counter() - begun) * 1000
    if found != expected:
        raise IncorrectError(f"expected {expected!r}, found {found!r}")
    return took


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="one round of few skills, to try the benchmark")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="how often each is measured")
    return parser.parse_args()
