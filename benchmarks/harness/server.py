"""The server and a bare one, started in turns, and asked the same over their standard streams."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

__all__ = ["main"]

SCRIPTS: Final = Path(sysconfig.get_path("scripts"))

BARE: Final = """
from mcp.server import MCPServer
server = MCPServer("bare", version="1")
@server.tool()
def hello(name: str) -> str:
    return f"Hello, {name}!"
server.run()
"""

TOOL: Final = '''"""Greets."""
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"

import argparse
import json

parser = argparse.ArgumentParser()
parser.add_argument("--params")
parser.add_argument("--project-path")
params = json.loads(parser.parse_known_args()[0].params)
print(json.dumps({"greeting": f"Hello, {params['name']}!"}))
'''

PARAMS: Final = {"name": "Ada"}
CALLS_PER_ROUND: Final = 20
TARGETS: Final = (
    ("start, times the bare server", 1.1),
    ("load over a ping, ms", 2.0),
    ("execute, times by hand", 1.15),
)


class Talk:
    """A server that was started, and what is said to it."""

    def __init__(
        self, command: Sequence[str | Path], environment: Mapping[str, str], directory: Path
    ) -> None:
        self.begun = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=directory,
        )
        self._id = 0
        client = {"name": "benchmark", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.started_ms = (time.perf_counter() - self.begun) * 1000
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._id:
                result: dict[str, Any] = answer["result"]
                return result

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that goes well."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        assert not result["isError"], result
        content: dict[str, Any] = result["structuredContent"]
        return content

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def main(description: str) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="rye-bench-") as place:
        project, environment = _project(Path(place))
        starts, figures = _measured(project, environment, rounds)
    load, hand = figures["load"] - figures["ping"], figures["execute"] / figures["by hand"]
    for name, milliseconds in {**starts, **figures}.items():
        print(f"{name:24} {milliseconds:8.2f} ms")
    for (name, target), found in zip(
        TARGETS, (starts["start"] / starts["start, bare"], load, hand), strict=True
    ):
        print(f"{name:32} {found:6.2f}  (at most {target:g}: {'met' if found <= target else 'missed'})")
    print(f"{'execute over by hand, ms':32} {figures['execute'] - figures['by hand']:6.2f}")
    return 0


def _measured(
    project: Path, environment: Mapping[str, str], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    starts: dict[str, list[float]] = {"start": [], "start, bare": []}
    times: dict[str, list[float]] = {"ping": [], "load": [], "execute": [], "by hand": []}
    for _ in range(rounds):
        with Talk([sys.executable, "-c", BARE], environment, project) as bare:
            starts["start, bare"].append(bare.started_ms)
        with Talk([SCRIPTS / "rye-mcp"], environment, project) as server:
            starts["start"].append(server.started_ms)
            _one_round(server, project, environment, times)
    return _medians(starts), _medians(times)


def _one_round(
    server: Talk, project: Path, environment: Mapping[str, str], times: dict[str, list[float]]
) -> None:
    call = {"item_id": "demo/hello", "parameters": PARAMS}
    tool = project / ".ai/tools/demo/hello.py"
    script = [sys.executable, str(tool), "--params", json.dumps(PARAMS)]

    def by_hand() -> None:
        done = subprocess.run(script, env=environment, capture_output=True, check=True)
        assert json.loads(done.stdout)["greeting"] == "Hello, Ada!"

    def execute() -> None:
        assert server.call("execute", **call)["data"] == {"greeting": "Hello, Ada!"}

    work: dict[str, Callable[[], object]] = {
        "ping": lambda: server.ask("ping"),
        "load": lambda: server.call("load", item_id="demo/hello"),
        "execute": execute,
        "by hand": by_hand,
    }
    for each in work.values():
        each()
    for _ in range(CALLS_PER_ROUND):
        for name, each in work.items():
            begun = time.perf_counter()
            each()
            times[name].append((time.perf_counter() - begun) * 1000)


def _medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(found) for name, found in times.items()}


def _project(place: Path) -> tuple[Path, dict[str, str]]:
    project, home = place / "project", place / "home"
    tool = project / ".ai/tools/demo/hello.py"
    home.mkdir()
    project.mkdir()
    environment = {
        "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        "HOME": str(home),
        "USER_SPACE": str(home),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_CACHE_HOME": str(place / "cache"),
    }
    for command in (["init"], ["sign", "demo/hello"]):
        if command == ["sign", "demo/hello"]:
            tool.parent.mkdir(parents=True, exist_ok=True)
            tool.write_text(TOOL)
        subprocess.run(
            [SCRIPTS / "rye", *command], cwd=project, env=environment, check=True, capture_output=True
        )
    return project, environment
