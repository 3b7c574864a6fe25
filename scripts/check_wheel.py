"""Whether a wheel works where nothing else is: a fresh environment, an empty set of variables, a new home.

    python scripts/check_wheel.py dist/rye_mcp-….whl
    python scripts/check_wheel.py --installed …/bin

Rules:

- What a newcomer does is done as they do it: `rye init`, `new`, `sign`, `run`, `test`, `verify`, and the
  server answers. Each step has to end well and say what it must, or the check ends with 1.
- Programs get `HOME` and the `PATH` of a bare system, and nothing of whoever runs this.
- With `--installed`, the programs in that directory are checked; otherwise the wheel is installed into an
  environment that is made for it and removed afterwards, with its dependencies.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

BARE_PATH = "/usr/local/bin:/usr/bin:/bin"
TIME_LIMIT_S = 60
GREETING = {"greeting": "Hello, Ada!"}


class Failed(Exception):  # noqa: N818 - says what it is
    """A step did not end as it must."""


class Newcomer:
    """Somebody with a new home, a project and the installed programs."""

    def __init__(self, programs: Path, place: Path) -> None:
        self._programs = programs
        self._home = place / "home"
        self._project = place / "a project"
        self._home.mkdir()
        self._project.mkdir()

    def rye(self, *arguments: str) -> Any:
        """What `rye … --json` answers."""
        return json.loads(self._run(self._programs / "rye", *arguments))

    def says(self, *arguments: str) -> str:
        """What `rye …` prints."""
        return self._run(self._programs / "rye", *arguments)

    def serve(self, *messages: dict[str, Any]) -> dict[int, Any]:
        """The results of the MCP server, by the ids of the messages; it is left when all are there."""
        answers: dict[int, Any] = {}
        expected = {message["id"] for message in messages if "id" in message}
        with subprocess.Popen(  # noqa: S603 - a program of the wheel
            [self._programs / "rye-mcp"],
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            limit = Timer(TIME_LIMIT_S, server.kill)
            limit.start()
            if server.stdin is None or server.stdout is None:
                raise Failed("rye-mcp has no pipes")
            for message in messages:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
            for answer in map(json.loads, server.stdout):
                answers |= {answer["id"]: answer["result"]} if "result" in answer else {}
                if expected <= answers.keys():
                    break
            server.stdin.close()
            limit.cancel()
        return answers

    @property
    def _environment(self) -> dict[str, str]:
        return {"HOME": str(self._home), "PATH": BARE_PATH}

    def _run(self, program: Path, *arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - the programs of the wheel
            [program, *arguments],
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        if done.returncode:
            command = " ".join([program.name, *arguments])
            raise Failed(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def steps(newcomer: Newcomer) -> Iterator[tuple[str, bool]]:
    """Each step, and whether it came out as it must."""
    yield "rye --version", newcomer.says("--version").startswith("rye ")
    yield "rye init", newcomer.rye("init", "--json")["project"]["yours"] is True
    yield "rye new", newcomer.rye("new", "demo/hello", "--json")["status"] == "created"
    yield "rye sign", newcomer.rye("sign", "demo/hello", "--json")["status"] == "signed"
    yield "rye run", newcomer.rye("run", "--json", "demo/hello", "--name", "Ada")["data"] == GREETING
    yield "rye test", newcomer.rye("test", "demo/hello", "--json")["passed"] == 2
    yield "rye verify", newcomer.rye("verify", "--json")["refused"] == 0
    client = {"name": "check_wheel", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    call = {"name": "execute", "arguments": {"item_id": "demo/hello", "parameters": {"name": "Ada"}}}
    answers = newcomer.serve(
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
        {"id": 3, "method": "tools/call", "params": call},
    )
    names = {tool["name"] for tool in answers[2]["tools"]}
    yield "rye-mcp lists its tools", {"search", "load", "execute", "sign"} <= names
    yield "rye-mcp runs the tool", answers[3]["structuredContent"]["data"] == GREETING


def check(programs: Path) -> bool:
    """Do every step, and tell of it; whether all of them came out as they must."""
    with TemporaryDirectory(prefix="rye-wheel-") as directory:
        newcomer = Newcomer(programs, Path(directory))
        began = time.perf_counter()
        try:
            for name, is_good in steps(newcomer):
                now = time.perf_counter()
                print(f"{name:<24} {'ok' if is_good else 'WRONG':<6} {now - began:5.2f} s")
                began = now
                if not is_good:
                    return False
        except (Failed, KeyError, ValueError, subprocess.TimeoutExpired) as exc:
            print(f"failed: {type(exc).__name__}: {exc}")
            return False
    return True


def install(wheel: Path, environment: Path) -> Path:
    """The directory of the programs, in a fresh environment with this wheel."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)  # noqa: S603
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)  # noqa: S603
    return environment / "bin"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a wheel, or what is installed already."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("wheel", nargs="?", type=Path)
    what.add_argument("--installed", type=Path, metavar="DIR", help="the directory of programs to check")
    options = parser.parse_args(arguments)
    if options.installed is not None:
        return 0 if check(options.installed.resolve()) else 1
    with TemporaryDirectory(prefix="rye-environment-") as environment:
        return 0 if check(install(options.wheel.resolve(), Path(environment))) else 1


if __name__ == "__main__":
    raise SystemExit(main())
