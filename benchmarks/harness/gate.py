"""Measures the gate of rye-mcp beside bare hashes and signatures, on a file of 10 KB."""

from __future__ import annotations

import argparse
import base64
import dataclasses
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from harness import commands as commands_harness
from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from lilux._stamps import SETTLED_NS
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName
from rye_mcp.trust import signature
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.verify import Trust, verify_item

FILE_BYTES = 10 * 1024
BATCH_S = 0.02
QUIET_PERCENT = 90


@dataclass(frozen=True, slots=True)
class Case:
    """One call, what it stands on, and how many microseconds it may take over that."""

    name: str
    ours: Callable[[], Any]
    floor: Callable[[], Any]
    max_over_us: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What one case came to, in microseconds a call."""

    name: str
    ours_us: float
    floor_us: float
    over_us: float
    max_over_us: float | None

    @property
    def is_met(self) -> bool | None:
        """Whether its target was reached; None without one."""
        return None if self.max_over_us is None else self.over_us <= self.max_over_us

    @property
    def line(self) -> str:
        """How it is printed."""
        target = "" if self.max_over_us is None else f"  ≤ {self.max_over_us:g} µs"
        verdict = {True: "  ok", False: "  MISSED", None: ""}[self.is_met]
        times = f"{self.ours_us:8.1f} µs  floor {self.floor_us:8.1f} µs  over {self.over_us:8.1f} µs"
        return f"{self.name:<42}{times}{target}{verdict}"


class Scene:
    """A user with a key and a trusted document, and a file that the key has signed."""

    def __init__(self, directory: Path) -> None:
        user_space = directory / "home/.ai"
        keys = KeyRing(user_space, environment={})
        keys.ensure(SignerKind.PERSON, owner="leo")
        keys.ensure(SignerKind.AGENT)
        self.key = keys.load(SignerKind.PERSON)
        space = Space(SpaceName.PROJECT, directory / "project/.ai")
        content = b'"""A tool."""\n' + b"# a comment of a tool\n" * (FILE_BYTES // 22)
        path = space.root / "tools/demo/hello.py"
        self.unsigned = ItemFile(space, ItemType.TOOL, "demo/hello", ".py", path, content)
        self.file = replace(self.unsigned, content=sign_content(self.unsigned, self.key))
        self.trust = Trust(
            user_space=user_space, project=directory / "project", state=directory / "state", environment={}
        )
        public = serialization.load_pem_public_key(self.key.public.pem)
        assert isinstance(public, Ed25519PublicKey)
        self.public = public
        claim = signature.locate(self.file)
        line = signature.parse(self.file, claim)
        self.value = line.signature
        self.statement = signature.statement_digest(
            self.file,
            timestamp=line.timestamp,
            key_id=self.key.public.key_id,
            digest=claim.digest,
            length=claim.length,
        ).encode()
        time.sleep(1.1 * SETTLED_NS / 1e9)

    def verify(self) -> str:
        """Through the gate, with no answer that was kept."""
        self.trust.answers.clear()
        return verify_item(self.file, self.trust, role=Role.TOOL).digest

    def verify_again(self) -> str:
        """Through the gate, with the answer of the last time."""
        return verify_item(self.file, self.trust, role=Role.TOOL).digest

    def verify_bare(self) -> str:
        """One hash and one signature, with a key that is loaded already."""
        self.public.verify(base64.urlsafe_b64decode(self.value), self.statement)
        return hashlib.sha256(self.unsigned.content).hexdigest()

    def hash_bare(self) -> str:
        """One hash."""
        return hashlib.sha256(self.unsigned.content).hexdigest()

    def cases(self) -> Sequence[Case]:
        """What is measured."""
        return [
            Case("verify_item, 10 KB", self.verify, self.verify_bare, max_over_us=150),
            Case("verify_item again, 10 KB", self.verify_again, self.hash_bare, max_over_us=30),
        ]


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    rounds, batch_s = (1, 0.0) if options.quick else (options.rounds, BATCH_S)
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            found = [_measure(case, rounds, batch_s) for case in Scene(Path(directory)).cases()]
        with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
            commands = commands_harness.measure(Path(directory), quick=options.quick)
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    lines = [*(each.line for each in found), *(each.line for each in commands)]
    print(f"{machine()}\n", *lines, sep="\n", flush=True)
    if options.json:
        cases = [dataclasses.asdict(each) | {"is_met": each.is_met} for each in found]
        cases += [each.as_dict() for each in commands]
        report = {"quick": options.quick, "machine": machine(), "idle_percent": idle, "cases": cases}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    missed = any(each.is_met is False for each in found) or not all(each.is_met for each in commands)
    return int(options.strict and missed)


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each case (default: %(default)s)")
    return parser.parse_args()


def _measure(case: Case, rounds: int, batch_s: float) -> Measured:
    if (ours := case.ours()) != (floor := case.floor()):
        raise IncorrectError(f"{case.name}: expected {floor!r}, found {ours!r}")
    calls = (case.ours, case.floor)
    counts = [_calls_in(call, batch_s) for call in calls]
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append(_time(calls[which], counts[which]) * 1e6)
    over = statistics.median(one - other for one, other in zip(*times, strict=True))
    return Measured(
        case.name, statistics.median(times[0]), statistics.median(times[1]), over, case.max_over_us
    )


def _calls_in(call: Callable[[], Any], seconds: float) -> int:
    count = 1
    while (took := _time(call, count) * count) < seconds / 2:
        count *= 2
    return max(1, round(count * seconds / took)) if seconds else 1


def _time(call: Callable[[], Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count
