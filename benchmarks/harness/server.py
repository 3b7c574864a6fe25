"""The server, a bare one and one on FastMCP, started in turns, and asked the same over their streams."""

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
import venv
from collections import defaultdict
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

PEER: Final = """
import asyncio, json, sys
from fastmcp import FastMCP
server = FastMCP("peer")
@server.tool
async def execute(parameters: dict) -> dict:
    process = await asyncio.create_subprocess_exec(
        *sys.argv[1:], "--params", json.dumps(parameters), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return json.loads(output)
server.run(show_banner=False)
"""
"""A server on FastMCP that starts the same script, and checks nothing."""

PROBED: Final = """
import asyncio, atexit, json, os, threading, time
made, lags = asyncio.events.new_event_loop, []
def probed():
    loop = made()
    statistics = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
    def waited():
        return int(os.pread(statistics, 100, 0).split()[1]) / 1e9
    def note(asked, before):
        lag = time.perf_counter() - asked
        lags.append((asked, lag, max(0, lag - (waited() - before))))
    def look():
        while not loop.is_closed():
            before, asked = waited(), time.perf_counter()
            try:
                loop.call_soon_threadsafe(note, asked, before)
            except RuntimeError:
                break
            time.sleep(0.001)
    threading.Thread(target=look, daemon=True).start()
    return loop
asyncio.events.new_event_loop = probed
atexit.register(lambda: json.dump(lags, open(os.environ["LAGS"], "w")))
from rye_mcp.start import main
main()
"""
"""Our server. A thread asks its event loop for a turn every millisecond. It keeps how long each took, and how
long without the time in which the loop was ready, and others had the processors."""

PARAMS: Final = {"name": "Ada"}
CALLS_PER_ROUND: Final = 20
AT_ONCE: Final = 50
SIGNED_AT_ONCE: Final = 20
PAUSE_S: Final = 0.002
"""How long after one ping the next one is sent, while tools run."""


Call = tuple[str, Mapping[str, Any]]


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
        self._under_way: set[int] = set()
        client = {"name": "benchmark", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.started_ms = (time.perf_counter() - self.begun) * 1000
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

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
            self._under_way.discard(answer.get("id"))

    def pings_among(self, calls: Sequence[Call]) -> list[float]:
        """How long pings take, in ms, while calls that were sent at once are under way."""
        for name, arguments in calls:
            self._id += 1
            self._under_way.add(self._id)
            call = {"name": name, "arguments": arguments}
            self._send({"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": call})
        times = []
        while self._under_way:
            begun = time.perf_counter()
            self.ask("ping")
            times.append((time.perf_counter() - begun) * 1000)
            time.sleep(PAUSE_S)
        return times

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that goes well."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


Times = dict[str, list[float]]


def main(description: str) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peer", type=Path, help="a virtual environment with fastmcp, which is made here")
    parser.add_argument("--no-peer", action="store_true", help="leave FastMCP out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rye-bench-") as place:
        project, environment = _project(Path(place))
        peer = None if options.no_peer else _with_fastmcp(options.peer or Path(place) / "peer")
        times = _measured(project, environment, peer, options.rounds)
    _print(times)
    return 0


def _print(times: Times) -> None:
    middle = {name: statistics.median(found) for name, found in times.items()}
    print(f"{'':34} {'p50 ms':>9} {'p95 ms':>9} {'max ms':>9}")
    late = {name: sorted(found)[int(len(found) * 0.95)] for name, found in times.items()}
    for name, found in times.items():
        print(f"{name:34} {middle[name]:9.2f} {late[name]:9.2f} {max(found):9.2f}")
    lags, blocked = times["lag of the event loop"], times["lag, but for waiting for a processor"]
    targets = [
        ("start, times the bare server", middle["start"] / middle["start, bare"], 1.1),
        ("load over a ping, ms", middle["load"] - middle["ping"], 2.0),
        ("execute, times by hand", middle["execute"] / middle["by hand"], 1.15),
        (f"ping while {AT_ONCE} tools run, p95, ms", late["ping while they run"], 50),
        ("lag of the event loop, p99, ms", sorted(lags)[int(len(lags) * 0.99)], 20),
        ("… without waiting for a processor", sorted(blocked)[int(len(blocked) * 0.99)], 10),
    ]
    for name, found_, target in targets:
        print(f"{name:34} {found_:9.2f}  (at most {target:g}: {'met' if found_ <= target else 'MISSED'})")
    print(f"{'execute over by hand, ms':34} {middle['execute'] - middle['by hand']:9.2f}")


def _with_fastmcp(environment: Path) -> Path:
    """The interpreter of an environment of its own that FastMCP is installed in."""
    interpreter = environment / "bin/python"
    if not interpreter.exists():
        venv.create(environment, with_pip=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "fastmcp"], check=True)
    return interpreter


def _measured(project: Path, environment: Mapping[str, str], peer: Path | None, rounds: int) -> Times:
    times: Times = defaultdict(list)
    script = [_interpreter(project, environment), str(project / ".ai/tools/demo/hello.py")]
    for _ in range(rounds):
        with Talk([sys.executable, "-c", BARE], environment, project) as bare:
            times["start, bare"].append(bare.started_ms)
        with Talk([SCRIPTS / "rye-mcp"], environment, project) as server:
            times["start"].append(server.started_ms)
            call = {"item_id": "demo/hello", "parameters": PARAMS}
            _ask_in_turns(_questions(server, script, environment, call), times)
            among = server.pings_among([("execute", call)] * AT_ONCE)
            times[f"ping behind {AT_ONCE} calls"].append(among[0])
            times["ping while they run"] += among[1:]
        lags = _lags(project, environment)
        times["lag of the event loop"] += [lag for lag, _ in lags]
        times["lag, but for waiting for a processor"] += [blocked for _, blocked in lags]
        if peer is not None:
            with Talk([peer, "-c", PEER, *script], environment, project) as other:
                times["start, FastMCP"].append(other.started_ms)
                _ask_in_turns(_questions_to_peer(other), times)
                among = other.pings_among([("execute", {"parameters": PARAMS})] * AT_ONCE)
                times[f"ping behind {AT_ONCE} calls, FastMCP"].append(among[0])
                times["ping while they run, FastMCP"] += among[1:]
    return times


def _interpreter(project: Path, environment: Mapping[str, str]) -> str:
    """What starts the tool: tools find nothing of the environment that the server is installed in."""
    with Talk([SCRIPTS / "rye-mcp"], environment, project) as server:
        call = {"item_id": "demo/hello", "parameters": PARAMS, "dry_run": True}
        command: list[str] = server.call("execute", **call)["command"]
    return command[0]


def _lags(project: Path, environment: Mapping[str, str]) -> list[tuple[float, float]]:
    """How long the event loop makes others wait, in ms, while it signs and runs a lot at once.

    The second figure leaves out the time in which it was ready, and waited for a processor.
    """
    found = project.parent / "lags.json"
    tools = [project / f".ai/tools/demo/new_{number}.py" for number in range(SIGNED_AT_ONCE)]
    for tool in tools:
        tool.write_text(TOOL.replace("Greets.", f"Greets, as {tool.stem}."))
    run: Call = ("execute", {"item_id": "demo/hello", "parameters": PARAMS})
    calls = [*(("sign", {"item_id": f"demo/{tool.stem}"}) for tool in tools), *[run] * AT_ONCE]
    command = [sys.executable, "-c", PROBED]
    with Talk(command, {**environment, "LAGS": str(found)}, project) as server:
        server.call("execute", item_id="demo/hello", parameters=PARAMS)
        begun = time.perf_counter()
        server.pings_among(calls)
        ended = time.perf_counter()
    assert all("rye:signed:" in tool.read_text() for tool in tools)
    for tool in tools:
        tool.unlink()
    looks = json.loads(found.read_text())
    return [(lag * 1000, own * 1000) for asked, lag, own in looks if begun <= asked <= ended]


def _questions(
    server: Talk, script: Sequence[str], environment: Mapping[str, str], call: Mapping[str, Any]
) -> dict[str, Callable[[], object]]:
    def by_hand() -> None:
        command = [*script, "--params", json.dumps(PARAMS)]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert json.loads(done.stdout)["greeting"] == "Hello, Ada!"

    def execute() -> None:
        assert server.call("execute", **call)["data"] == {"greeting": "Hello, Ada!"}

    return {
        "ping": lambda: server.ask("ping"),
        "load": lambda: server.call("load", item_id="demo/hello"),
        "execute": execute,
        "by hand": by_hand,
    }


def _questions_to_peer(peer: Talk) -> dict[str, Callable[[], object]]:
    def execute() -> None:
        assert peer.call("execute", parameters=PARAMS) == {"greeting": "Hello, Ada!"}

    return {"ping, FastMCP": lambda: peer.ask("ping"), "execute, FastMCP": execute}


def _ask_in_turns(questions: Mapping[str, Callable[[], object]], times: Times) -> None:
    for each in questions.values():
        each()
    for _ in range(CALLS_PER_ROUND):
        for name, each in questions.items():
            begun = time.perf_counter()
            each()
            times[name].append((time.perf_counter() - begun) * 1000)


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
