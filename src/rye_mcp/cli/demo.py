"""`rye demo`: the main job of rye-mcp, done before your eyes, in a temporary directory.

Each step runs real programs, prints what it finds, and returns what it expected. The exit code is 0 only if
every expectation was met.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import anyio
import typer

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import SubprocessPrimitive, SubprocessResult
from rye_mcp.app import App, Settings
from rye_mcp.initialization import initialize_project, initialize_user
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.explain import ExplainRequest, Explanation, explain
from rye_mcp.verbs.sign import SignRequest, sign

__all__ = [
    "ALL_STEPS",
    "STEPS",
    "Expectation",
    "Step",
    "Tell",
    "an_agent_runs_what_was_signed",
    "can_lock",
    "demo",
    "is_alive",
    "present",
]

HOSTILE = "{secret} ${HOME} $(touch pwned) `touch pwned`; touch pwned #"
TIMEOUT_S = 1.0
AT_ONCE = 64

# Everything a program can do by itself to be left alone: a session of its own, a parent that is gone, ignored
# signals. It says which process it is once it holds its lock, and then it waits until it is killed.
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


ITEM_ID = "demo/greet"

TOOL = '''"""Greets somebody by name, without haste."""

import sys
import time

__version__ = "1.0.0"
__executor_id__ = "python_runtime"


def main(name="world"):
    for work in ("looking for words", "clearing the throat", "about to speak"):
        print(work, file=sys.stderr, flush=True)
        time.sleep(0.4)
    return {"greeting": f"Hello, {name}!"}
'''

TAMPERED = "open('canary', 'w').close()\n"
QUESTION = "how do I greet somebody"


async def an_agent_runs_what_was_signed(tell: Tell) -> list[Expectation]:
    """Sign a tool, let an agent run it over MCP, change it, let the agent try again; then show the chain."""
    with TemporaryDirectory(prefix="rye-demo-") as directory:
        scene = _Scene(Path(directory))
        scene.write(TOOL)
        signer = scene.sign()
        tell("tool", f"{ITEM_ID}, one file of {len(TOOL.splitlines())} lines in Python, signed by {signer}")
        began = time.perf_counter()
        seen = await _as_an_agent(scene, tell)
        tell("took", f"{time.perf_counter() - began:.1f} s from starting the server to its end")
        canary = scene.canary.exists()
        scene.restore()
        explanation = await explain(ExplainRequest(ITEM_ID), scene.app.context(SignerKind.PERSON))
        for line in _as_picture(explanation):
            tell("chain", line)
    return [
        Expectation("the agent found it by a sentence", seen.found[:1] == [ITEM_ID]),
        Expectation("it told how far it was while it ran", len(seen.heard) > 1),
        Expectation("it ran from its verified bytes", seen.ran.get("data") == {"greeting": "Hello, Ada!"}),
        Expectation("nothing but what was verified could run", seen.ran.get("sealed") is True),
        Expectation("one line more, and it was refused", seen.refused.get("code") == "content_changed"),
        Expectation("that line was never run", not canary),
    ]


@dataclass(frozen=True)
class _Seen:
    """An agent's findings: of its search, of the messages meanwhile, of the run, and after a change."""

    found: list[str]
    heard: list[str]
    ran: dict[str, Any]
    refused: dict[str, Any]


async def _as_an_agent(scene: _Scene, tell: Tell) -> _Seen:
    # Not before it is needed: the SDK takes longer to load than everything else here to happen.
    from rye_mcp.mcp_server.stdio import client_of, server_command

    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        tell("progress", message or "")

    execute = {"item_id": ITEM_ID, "parameters": {"name": "Ada"}}
    tell("server", "rye-mcp over stdio, for the MCP client of the SDK")
    async with client_of([server_command()], environment=scene.environment, directory=scene.project) as call:
        hits = (await call("search", {"query": QUESTION})).get("results", ())
        found = [hit["id"] for hit in hits]
        tell("search", f'"{QUESTION}" → {", ".join(found[:3]) or "nothing"}')
        tell("execute", f"{ITEM_ID} {execute['parameters']}")
        ran = await call("execute", execute, hear)
        tell("answer", f"{ran.get('data')}, sealed: {ran.get('sealed')}")
        scene.tamper()
        refused = await call("execute", execute)
        tell("tampered", f"{refused.get('code')}; hint: {refused.get('hint')}")
    return _Seen(found, heard, ran, refused)


def _as_picture(explanation: Explanation) -> Iterator[str]:
    """The chain as lines, one below the other."""
    for depth, each in enumerate(explanation.chain):
        arrow = "" if depth == 0 else "   " * (depth - 1) + "└─ "
        signer = each.integrity.signer
        vouched = "nobody" if signer is None else signer.in_words
        yield f"{arrow}{each.element.item_id}  [{each.element.space}, {vouched}]"


class _Scene:
    """A user and a project of theirs, below one directory."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        home = directory / "home"
        self.environment = {
            "HOME": str(home),
            "USER_SPACE": str(home),
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "PATH": os.environ.get("PATH", os.defpath),
        }
        settings = Settings.find(
            project=self.project,
            user_directory=home,
            state=directory / "state/rye",
            environment=self.environment,
        )
        self.app = App.open(settings)
        user = initialize_user(self.app.spaces.user.root, self.app.keys, self.app.trust, owner="you")
        initialize_project(self.project, user, self.app.trust, propose=False)
        self.app = App.open(settings)
        self._path = self.project / f".ai/tools/{ITEM_ID}.py"

    @property
    def canary(self) -> Path:
        """The file that the changed tool would make."""
        return self.project / "canary"

    def write(self, text: str) -> None:
        """Write the tool."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(text, encoding="utf-8")

    def sign(self) -> str:
        """Sign the tool, as its author does; who that is."""
        sign(SignRequest(ITEM_ID), self.app.context(SignerKind.PERSON))
        self._signed = self._path.read_bytes()
        return "you, with a key that was made for this"

    def tamper(self) -> None:
        """Add a line to the signed tool."""
        self._path.write_bytes(self._signed + TAMPERED.encode())

    def restore(self) -> None:
        """Take the line away again."""
        self._path.write_bytes(self._signed)


LABEL_WIDTH = 13

ALL_STEPS: tuple[Step, ...] = (
    *STEPS,
    Step("An agent runs what a person has signed, and nothing else", an_agent_runs_what_was_signed),
)
"""The steps, in this order; the last one is the point of all the others."""

EXIT_UNMET = 1


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Let an agent run a signed tool, and check what is promised."""
    if not present(ALL_STEPS, as_json=as_json):
        raise typer.Exit(EXIT_UNMET)


def present(steps: Sequence[Step], *, as_json: bool = False) -> bool:
    """Run the steps, print what happens, and say whether every expectation was met."""
    return anyio.run(_print_json if as_json else _print_text, steps)


async def _print_text(steps: Sequence[Step]) -> bool:
    typer.echo(f"rye-mcp {version('rye-mcp')}: what this version does, done now")
    expectations: list[Expectation] = []
    for number, step in enumerate(steps, start=1):
        typer.echo(f"\n{number}. {step.title}\n")
        found = await step.act(_teller())
        for expectation in found:
            typer.echo(f"   {_mark(expectation)}{expectation.text}")
        expectations += found
    typer.echo(f"\n{_verdict(expectations)}")
    return all(expectation.met for expectation in expectations)


async def _print_json(steps: Sequence[Step]) -> bool:
    done = [await _done(step) for step in steps]
    met = all(each["met"] for each in done)
    typer.echo(json.dumps({"version": version("rye-mcp"), "met": met, "steps": done}, indent=2))
    return met


async def _done(step: Step) -> dict[str, Any]:
    """A step as data. What is said of one thing again is a line more."""
    facts: dict[str, str] = {}

    def tell(label: str, text: str) -> None:
        facts[label] = f"{facts[label]}\n{text}" if label in facts else text

    expectations = await step.act(tell)
    return {
        "title": step.title,
        "met": all(each.met for each in expectations),
        "facts": facts,
        "expectations": [{"text": each.text, "met": each.met} for each in expectations],
    }


def _teller() -> Tell:
    """Prints each fact as it comes; what is said of one thing again stands below it."""
    said = ""

    def tell(label: str, text: str) -> None:
        nonlocal said
        typer.echo(f"   {'' if label == said else label:<{LABEL_WIDTH}}{text}")
        said = label

    return tell


def _mark(expectation: Expectation) -> str:
    text, colour = ("ok", typer.colors.GREEN) if expectation.met else ("NOT MET", typer.colors.RED)
    return typer.style(f"{text:<{LABEL_WIDTH}}", fg=colour)


def _verdict(expectations: Sequence[Expectation]) -> str:
    unmet = sum(not expectation.met for expectation in expectations)
    if unmet:
        return f"{unmet} of {len(expectations)} expectations were NOT met."
    return f"All {len(expectations)} expectations were met."
