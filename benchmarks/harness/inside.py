"""`benchmarks/inside.py`: its options, what it measures, its targets, and where the figures go."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from harness.figures import IncorrectError
from harness.joins import Join, joins, site, write_examples
from harness.memory import idle_percent, own_family
from harness.report import machine
from harness.session import add_option, copies_in, enter
from harness.targets import Target

QUIET_PERCENT: Final = 90
ROUNDS: Final = 30
QUICK_ROUNDS: Final = 2
BATCH: Final = 10
CROWDS: Final = 5
AT_ONCE: Final = 100
LONG_RESULTS: Final = 50
LONG_BYTES: Final = 100_000
SCRIPTS: Final = Path(sysconfig.get_path("scripts"))
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/performance.md"
BEGIN, END = "<!-- benchmark:inside -->\n", "<!-- /benchmark:inside -->"

_PYTHON: Final = '''"""Does what a benchmark needs."""

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_runtime"
PERMISSIONS = {permissions}
LIMITS = {{"calls": 1000}}

{code}
'''
_TOOLS: Final[Mapping[str, tuple[str, list[str]]]] = {
    "bench/noop": ("def main():\n    return None", []),
    "bench/echo": ("def main(**given):\n    return given", []),
    "bench/long": (f"def main(n):\n    return [n, 'x' * {LONG_BYTES}]", []),
    "bench/batch": (
        "import time\nfrom rye import call\n"
        "def main(tool, count, given):\n"
        "    found = []\n"
        "    for _ in range(count):\n"
        "        begun = time.perf_counter()\n"
        "        answer = call(tool, given)\n"
        "        found.append((time.perf_counter() - begun) * 1000)\n"
        "        assert answer == (given or None), answer\n"
        "    return found",
        ["bench/echo", "bench/noop"],
    ),
    "bench/crowd": (
        "import asyncio, time\nfrom rye import aio\n"
        "async def main(count, given):\n"
        "    await aio.call('bench/echo', given)\n"
        "    begun = time.perf_counter()\n"
        "    found = await asyncio.gather(*(aio.call('bench/echo', given) for _ in range(count)))\n"
        "    assert found == [given] * count\n"
        "    return time.perf_counter() - begun",
        ["bench/echo"],
    ),
    "bench/digest": (
        "from rye import call\n"
        "def main(count):\n"
        "    return sum(len(call('bench/long', n=n)[1]) for n in range(count))",
        ["bench/long"],
    ),
}
GIVEN: Final = {"name": "Ada", "count": 3}


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured, in milliseconds where nothing else is said; each list has a figure of each round."""

    outside: list[float]
    inside: list[float]
    noop: list[float]
    crowd_outside_s: list[float]
    crowd_inside_s: list[float]
    answer_bytes: int
    growth_mib: float
    joins: list[Join]

    @property
    def targets(self) -> list[Target]:
        """What is to be reached."""
        crowd = statistics.median(
            a / b for a, b in zip(self.crowd_outside_s, self.crowd_inside_s, strict=True)
        )
        long = f"{LONG_RESULTS} results of {LONG_BYTES // 1000} KB"
        return [
            Target(
                "a warm Python tool: by a program ÷ by a client, p50", 1.2, _ratio(self.inside, self.outside)
            ),
            Target("a no-op by a program, p50", 4, round(statistics.median(self.noop), 2), "ms"),
            Target(f"{AT_ONCE} at once: calls per second ÷ those of a client", 0.9, crowd, at_least=True),
            Target(f"a program over {long}: what reaches the client", 4096, self.answer_bytes, "bytes"),
            Target(f"a program over {long}: memory of the server added", 32, self.growth_mib, "MiB"),
            *(
                Target(f"{each.name}: bytes to the model without ÷ with", 10, each.ratio, at_least=True)
                for each in self.joins
            ),
        ]

    def table(self) -> list[str]:
        """The joins, as a table of the page."""
        head = [
            "| join | calls | bytes in the conversation | bytes with the program |",
            "| --- | ---: | ---: | ---: |",
        ]
        return head + [
            f"| `{each.name}` | {each.calls} | {each.conversation:,} | {each.program:,} |"
            for each in self.joins
        ]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


class _Place:
    """A user with a key, and a project with all tools, signed."""

    def __init__(self, directory: Path, address: str, *, quick: bool) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        self.environment = {
            "HOME": str(directory),
            "USER_SPACE": str(directory / "home"),
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CACHE_HOME": str(directory / "cache"),
            # No shims: with this HOME, each call would ask their manager.
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "SITE_URL": address,
        }
        self._rye("init")
        write_examples(self.project, quick=quick)
        for item_id, (code, calls) in _TOOLS.items():
            path = self.project / f".ai/tools/{item_id}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            permissions = {"calls": calls} if calls else {}
            path.write_text(_PYTHON.format(permissions=permissions, code=code), encoding="utf-8")
        self._rye("sign", "*")

    @property
    def server(self) -> StdioServerParameters:
        """How the server is started."""
        return StdioServerParameters(
            command=str(SCRIPTS / "rye-mcp"), args=["--project", str(self.project)], env=self.environment
        )

    def _rye(self, *words: str) -> None:
        done = subprocess.run(
            [SCRIPTS / "rye", *words],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise IncorrectError(f"rye {words[0]}: {done.stderr}{done.stdout}")


async def _execute(client: Client, item_id: str, **parameters: Any) -> tuple[Any, int]:
    """The data, and the length of the answer."""
    given = {"item_id": item_id, "parameters": parameters}
    result = await client.call_tool("execute", given)
    answer = result.structured_content or {}
    if answer.get("status") != "success":
        raise IncorrectError(f"{item_id}: {answer}")
    return answer.get("data"), len(result.model_dump_json(by_alias=True, exclude_none=True).encode())


async def _by_client(client: Client) -> list[float]:
    found = []
    for _ in range(BATCH):
        begun = time.perf_counter()
        data, _ = await _execute(client, "bench/echo", **GIVEN)
        found.append((time.perf_counter() - begun) * 1000)
        if data != GIVEN:
            raise IncorrectError(f"expected {GIVEN}, found {data}")
    return found


async def _crowd(client: Client, count: int) -> float:
    begun = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(_by_client_once, client)
    return time.perf_counter() - begun


async def _by_client_once(client: Client) -> None:
    data, _ = await _execute(client, "bench/echo", **GIVEN)
    if data != GIVEN:
        raise IncorrectError(f"expected {GIVEN}, found {data}")


async def _digest(client: Client) -> tuple[int, float]:
    """How long the answer is, and how much memory the server had more than before, at most, in MiB."""
    await _execute(client, "bench/digest", count=2)
    status = Path(f"/proc/{_server_pid()}/status")
    before = _memory_kib(status, "VmRSS")
    status.with_name("clear_refs").write_text("5", encoding="ascii")  # the most from now on
    data, size = await _execute(client, "bench/digest", count=LONG_RESULTS)
    if data != LONG_RESULTS * LONG_BYTES:
        raise IncorrectError(f"expected {LONG_RESULTS * LONG_BYTES} characters, found {data}")
    return size, max(0.0, (_memory_kib(status, "VmHWM") - before) / 1024)


def _server_pid() -> int:
    for process in own_family():
        words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        if any(word.endswith(b"/rye-mcp") for word in words):
            return process.pid
    raise IncorrectError("expected the process of the server, found none")


def _memory_kib(status: Path, name: str) -> int:
    lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


async def measure(directory: Path, rounds: int, *, quick: bool) -> Found:
    """Everything, in turns."""
    outside, inside, noop, crowds = [], [], [], ([], [])  # type: ignore[var-annotated]
    with site() as address:
        place = _Place(directory, address, quick=quick)
        async with Client(stdio_client(place.server), raise_exceptions=True) as client:
            await _by_client(client)
            for _ in range(rounds):
                outside.append(statistics.median(await _by_client(client)))
                data, _ = await _execute(client, "bench/batch", tool="bench/echo", count=BATCH, given=GIVEN)
                inside.append(statistics.median(data))
                data, _ = await _execute(client, "bench/batch", tool="bench/noop", count=BATCH, given={})
                noop += data
            at_once = 8 if quick else AT_ONCE
            for _ in range(1 if quick else CROWDS):
                crowds[0].append(await _crowd(client, at_once))
                data, _ = await _execute(client, "bench/crowd", count=at_once, given=GIVEN)
                crowds[1].append(data)
            size, growth = await _digest(client)
            return Found(outside, inside, noop, *crowds, size, growth, await joins(client, place.project))


def _page(found: Found, idle: float, copies: str) -> str:
    rows = [
        f"| {each.what} | {each.shown_limit()} | {each.shown(each.measured)} | {_verdict(each)} |"
        for each in found.targets
    ]
    lines = [
        "Written by `python benchmarks/inside.py --write`, from one run in which the contenders take turns.",
        f"{machine()}; before it, the machine was idle for {idle:.0f} % of the time; {copies}.",
        "",
        "|  | target | measured |  |",
        "| --- | ---: | ---: | ---: |",
        *rows,
        "",
        "The joins of [the examples](../examples/programs/README.md), in bytes of structured content:",
        "",
        *found.table(),
    ]
    return "\n".join(lines) + "\n"


def _verdict(target: Target) -> str:
    return "ok" if target.is_met else "MISSED"


def main(doc: str) -> int:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--strict", action="store_true", help="end with 1 when a target is missed")
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"how often; {ROUNDS} by default")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/performance.md")
    add_option(parser)
    options = parser.parse_args()
    if options.session:
        enter()
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"The machine is busy (idle {idle:.0f} %): these figures mean little.", file=sys.stderr)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    found: Found | None = None
    with tempfile.TemporaryDirectory(prefix="rye-inside-", dir=Path.home()) as directory:
        copies = copies_in({"HOME": directory})
        try:
            found = anyio.run(lambda: measure(Path(directory), max(1, rounds), quick=options.quick))
        except* IncorrectError as group:
            print(*group.exceptions, sep="\n", file=sys.stderr)
    if found is None:
        return 1
    print(f"{machine()}; {copies}", *found.table(), sep="\n")
    for each in found.targets:
        print(f"{each.what:<66}{each.shown(each.measured):>12}  {each.shown_limit()}  {_verdict(each)}")
    if options.json is not None:
        cases = [{"name": each.what, "value": each.measured, "limit": each.limit} for each in found.targets]
        options.json.write_text(json.dumps({"targets": cases}, indent=2) + "\n", encoding="utf-8")
    if options.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(
            f"{head}{BEGIN}{_page(found, idle, copies)}{END}{rest.partition(END)[2]}", encoding="utf-8"
        )
    return 1 if options.strict and not all(each.is_met for each in found.targets) else 0
