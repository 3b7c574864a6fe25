"""Measures whole `rye` commands, as a person waits for them: start, work, output, end."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.figures import IncorrectError
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.sign import sign_content

ITEMS = 5_000
QUICK_ITEMS = 50
RUNS = 5
ITEMS_IN_A_DIRECTORY = 100
MAX_VERIFY_S = 3.0
MAX_HELP_S = 0.15

_TOOL = '''"""Tool {number}: does something that is useful, with a name."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/primitives/subprocess"
__category__ = "demo"

CONFIG_SCHEMA = {{
    "type": "object",
    "properties": {{"name": {{"type": "string", "default": "world"}}}},
}}


def main(name: str = "world") -> dict[str, object]:
    return {{"hello": name, "number": {number}}}
'''


@dataclass(frozen=True, slots=True)
class Timed:
    """What one command came to, in seconds."""

    name: str
    seconds: float
    max_seconds: float

    @property
    def is_met(self) -> bool:
        """Whether its target was reached."""
        return self.seconds <= self.max_seconds

    @property
    def line(self) -> str:
        """How it is printed."""
        verdict = "ok" if self.is_met else "MISSED"
        return f"{self.name:<42}{self.seconds * 1000:8.1f} ms  ≤ {self.max_seconds * 1000:g} ms  {verdict}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for a report."""
        return asdict(self) | {"is_met": self.is_met}


def measure(directory: Path, *, quick: bool) -> list[Timed]:
    """Sign many items, then verify all of them; and ask for help."""
    count = QUICK_ITEMS if quick else ITEMS
    environment = _scene(directory, count)

    def rye(*arguments: str) -> Callable[[], str]:
        command = [sys.executable, "-c", "from rye_mcp.cli import main; main()", *arguments]
        return lambda: _run(command, directory / "project", environment)

    found = json.loads(rye("verify", "--space", "project", "--json")())
    if (found["verified"], found["refused"]) != (count, 0):
        raise IncorrectError(f"rye verify: expected {count} verified items, found {found['verified']}")
    runs = 1 if quick else RUNS
    return [
        Timed(f"rye verify, {count:,} items", _time(rye("verify"), runs), MAX_VERIFY_S),
        Timed("rye --help", _time(rye("--help"), runs), MAX_HELP_S),
    ]


def _scene(directory: Path, count: int) -> dict[str, str]:
    """A project with so many signed tools; the environment of the user who signed them."""
    home = directory / "many"
    keys = KeyRing(home / ".ai", environment={})
    keys.ensure(SignerKind.PERSON, owner="leo")
    key = keys.load(SignerKind.PERSON)
    space = Space(SpaceName.PROJECT, directory / "project/.ai")
    for number in range(count):
        item_id = f"group{number // ITEMS_IN_A_DIRECTORY}/tool{number}"
        path = space.root / f"tools/{item_id}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = _TOOL.format(number=number).encode()
        path.write_bytes(sign_content(ItemFile(space, ItemType.TOOL, item_id, ".py", path, content), key))
    return {
        "HOME": str(home),
        "USER_SPACE": str(home),
        "XDG_STATE_HOME": str(directory / "state"),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
    }


def _run(command: list[str], directory: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise IncorrectError(f"{command[3]}: expected exit code 0, found {done.returncode}: {done.stderr}")
    return done.stdout


def _time(run: Callable[[], str], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
