"""The steps of `rye demo`: each runs real programs, tells what it finds, and returns what it expected.

A step tells a fact the moment it is known, and never raises for an unmet expectation; it leaves judging to
its caller. It works in a temporary directory and leaves nothing behind.
"""

import fcntl
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from lilux.primitives.subprocess import SubprocessPrimitive, SubprocessResult

__all__ = ["STEPS", "Expectation", "Step", "Tell", "can_lock", "is_alive"]

HOSTILE = "{secret} ${HOME} $(touch pwned) `touch pwned`; touch pwned #"
TIMEOUT_S = 1.0
AT_ONCE = 64

# Everything a program can do by itself to be left alone: a session of its own, a parent that is gone, ignored
# signals. It says which process it is once it holds its lock, and then it waits, for ever.
ESCAPE_ARTIST = """
import fcntl, os, signal, sys

reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        lock = open(sys.argv[1], "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        started = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
        os.write(writer, f"{os.getpid()} {started}".encode())
        while True:
            signal.pause()
    os._exit(0)
os.wait()
print(os.read(reader, 64).decode(), flush=True)
signal.pause()
"""


@dataclass(frozen=True)
class Expectation:
    """A sentence that has to be true, and whether it is."""

    text: str
    met: bool


Tell = Callable[[str, str], None]
"""Takes a fact: what it is about, and what there is to say."""


@dataclass(frozen=True)
class Step:
    """One thing that is shown: what it is called, and what does it."""

    title: str
    act: Callable[[Tell], Awaitable[list[Expectation]]]


async def parameters_are_data(tell: Tell) -> list[Expectation]:
    """Pass text full of templates and shell syntax, as an argument and into a shell command line."""
    parameters = {"message": HOSTILE, "secret": "of another parameter"}
    forms: dict[str, dict[str, Any]] = {
        "argument": {"command": "printf", "args": ["%s", "{message}"]},
        "shell": {"command": "printf '%s' {message}", "shell": True},
    }
    tell("value", HOSTILE)
    for form, config in forms.items():
        tell(form, json.dumps(config))
    with TemporaryDirectory() as directory:
        results = {
            form: await SubprocessPrimitive().execute({**config, "cwd": directory}, parameters)
            for form, config in forms.items()
        }
        pwned = (Path(directory) / "pwned").exists()
    for form, result in results.items():
        tell(f"{form} got", result.stdout or _why_not(result))
    return [
        *(
            Expectation(f"the {form} form received exactly the value", result.stdout == HOSTILE)
            for form, result in results.items()
        ),
        Expectation("nothing inside the value was run", not pwned),
    ]


async def nothing_survives(tell: Tell) -> list[Expectation]:
    """End a tool by its timeout while a daemon of its own making does all it can to stay."""
    tell("tool", "starts a daemon: two forks, a new session, SIGTERM ignored, a file locked")
    with TemporaryDirectory() as directory:
        lock = Path(directory) / "lock"
        result = await SubprocessPrimitive().execute(
            {
                "command": sys.executable,
                "args": ["-I", "-S", "-c", "{program}", "{lock}"],
                "timeout": TIMEOUT_S,
            },
            {"program": ESCAPE_ARTIST, "lock": str(lock)},
        )
        lock_is_free = can_lock(lock)
    pid, _, started = result.stdout.strip().partition(" ")
    tell("daemon", f"process {pid}" if pid else "did not start")
    took = f"{result.duration_ms:,.0f} ms: {TIMEOUT_S:g} s, and the grace of SIGTERM"
    tell("ended by", f"{result.kind}, after {took}")
    tell("cleanup", result.cleanup.state if result.cleanup else "none")
    return [
        Expectation("the daemon was running and held its lock", started.isdigit()),
        Expectation("the timeout ended the call", result.kind == "timeout"),
        Expectation("the daemon's process is gone", not is_alive(pid, started)),
        Expectation("nobody holds its lock any more", lock_is_free),
    ]


async def many_at_once(tell: Tell) -> list[Expectation]:
    """Start many programs at the same moment and see that no answer goes astray."""
    primitive = SubprocessPrimitive()
    results: dict[int, SubprocessResult] = {}

    async def run(number: int) -> None:
        config = {"command": "printf", "args": ["%s", "{number}"]}
        results[number] = await primitive.execute(config, {"number": str(number)})

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for number in range(AT_ONCE):
            tasks.start_soon(run, number)
    seconds = time.perf_counter() - began
    durations = [result.duration_ms for result in results.values()]
    tell("all of them", f"{seconds * 1000:.1f} ms, {AT_ONCE / seconds:,.0f} a second")
    tell("each", f"{statistics.median(durations):.1f} ms in the middle, {max(durations):.1f} ms at most")
    return [
        Expectation("every program succeeded", all(result.success for result in results.values())),
        Expectation(
            "every call got its own answer",
            all(result.stdout == str(number) for number, result in results.items()),
        ),
    ]


STEPS: tuple[Step, ...] = (
    Step("A parameter is data, whatever it looks like", parameters_are_data),
    Step("Nothing outlives its call", nothing_survives),
    Step(f"{AT_ONCE} programs at once", many_at_once),
)


def _why_not(result: SubprocessResult) -> str:
    return f"({result.kind}) {result.stderr.strip()}"


def can_lock(path: Path) -> bool:
    """Say whether nobody holds a lock on the file; the kernel drops a lock with its last holder."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def is_alive(pid: str, started: str) -> bool:
    """Say whether this very process exists: the number alone could be somebody else's by now."""
    if not pid.isdigit():
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[19] == started
