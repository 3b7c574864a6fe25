"""A supervisor in the middle of a run whose tool has got away: the stage of every test about survivors.

The client of `serve` is this process, or one of its own, `host.py`, which can be killed, or the primitive of
`lilux` in a process of its own, `primitive_host.py`; `exec` has none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.containment.client import Client, Frame
from tests.containment.leash import Leash, leash
from tests.containment.processes import children_of, ends, parent_of

ROOT = Path(__file__).resolve().parents[2]
SWITCH = "LILUX_PROC_OFF"
EXEC = "exec"
PARKED = "parked"
FORKED = "from a zygote"
LOOPS = ("asyncio", "trio")

WAYS = (
    "daemonize",
    "close_all",
    "change_group",
    "be_a_sibling",
    "collect_orphans",
    "freeze",
    "run_on",
    "storm",
    "refuse",
    "refuse_frozen",
)
"""How `misbehave.c` tries to get away."""


@dataclass(frozen=True)
class Programs:
    """The supervisor, the tool, and a Python that finds the supervisor; on demand, those with switches."""

    binary: Path
    misbehave: Path
    python: Path
    _built: Callable[[str], Path]

    @property
    def switched(self) -> Path:
        """A supervisor whose guards can be switched off; building it takes a while."""
        return self._built("switched")

    @property
    def switched_python(self) -> Path:
        """A Python that finds that supervisor."""
        return self._built("switched_python")


@dataclass
class Scene:
    """Who takes part, by name: `warden`, `serve`, `keeper`, `client`, or `exec` and `keeper`."""

    leash: Leash
    pids: dict[str, int]
    client: Client | None = None
    run: int = 0
    process: subprocess.Popen[bytes] | None = None
    handles: dict[str, int] = field(default_factory=dict)

    def kill(self, *names: str) -> None:
        """SIGKILL, so that none of them does anything after another has died."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for name in names:
                with suppress(ProcessLookupError):  # when the first is dead, somebody else may be quicker
                    self.signal(name, number)

    def signal(self, name: str, number: int) -> None:
        signal.pidfd_send_signal(self.handles[name], number)

    def still_there(self, names: Iterable[str], deadline: float) -> list[str]:
        """Those of the named processes that have not ended by then."""
        return [name for name in names if not ends(self.handles[name], deadline)]


@contextmanager
def play(
    programs: Programs, way: str, *, face: str = "", off: str = "", timeout_ms: int | None = None
) -> Iterator[Scene]:
    """A run that has got away, under a supervisor without the guards that are named in `off`.

    `face` is how the supervisor is used: by this process, at once, for a parked process or for one that is
    forked from a zygote, through `exec`, by `lilux` on an event loop, or by a host in the given manner.
    """
    binary = programs.switched if off else programs.binary
    env = {**os.environ, SWITCH: off}
    if face in LOOPS:
        binary = programs.switched_python if off else programs.python
    stage = {"": _own, PARKED: _parked, FORKED: _forked, EXEC: _exec, **dict.fromkeys(LOOPS, _primitive)}.get(
        face, _hosted
    )
    with leash() as held, ExitStack() as stack:
        command = [str(binary), *held.command(programs.misbehave, way)]
        scene = stack.enter_context(stage(held, command, env, face, timeout_ms))
        stack.callback(put_away, scene)
        scene.handles = {name: os.pidfd_open(pid) for name, pid in scene.pids.items()}
        yield scene


@contextmanager
def _own(
    held: Leash, command: list[str], env: dict[str, str], _: str, timeout_ms: int | None
) -> Iterator[Scene]:
    with Client.start(Path(command[0]), env=env) as client:
        run = client.start_run(*command[1:], notify=True, timeout_ms=timeout_ms)
        pids = cast_of(client, client.wait_for(run, "started"))
        held.wait_until_away()
        yield Scene(held, pids, client, run)


@contextmanager
def _parked(
    held: Leash, command: list[str], env: dict[str, str], _: str, timeout_ms: int | None
) -> Iterator[Scene]:
    with Client.start(Path(command[0]), env=env) as client:
        run = client.park(*command[1:])
        client.send("call", id=run, notify=True, timeout_ms=timeout_ms)
        pids = cast_of(client, client.wait_for(run, "started"))
        held.wait_until_away()
        yield Scene(held, pids, client, run)


@contextmanager
def _forked(
    held: Leash, command: list[str], env: dict[str, str], _: str, timeout_ms: int | None
) -> Iterator[Scene]:
    with Client.start(Path(command[0]), env=env) as client:
        zygote = client.start_zygote()
        run = client.fork(zygote.id)
        script = held.directory / "becomes.py"
        script.write_text("import os, sys\nos.execv(sys.argv[1], sys.argv[1:])\n")
        args = [str(script), *command[1:]]
        client.send("call", id=run, args=args, notify=True, timeout_ms=timeout_ms)
        pids = cast_of(client, client.wait_for(run, "started"))
        held.wait_until_away()
        yield Scene(held, {**pids, "zygote": zygote.header["pid"]}, client, run)


@contextmanager
def _hosted(
    held: Leash, command: list[str], env: dict[str, str], manner: str, _: int | None
) -> Iterator[Scene]:
    host = [sys.executable, "-m", "tests.containment.host", manner, *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(host, cwd=ROOT, env=env, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        try:
            pids: dict[str, Any] = json.loads(process.stdout.readline())
            held.wait_until_away()
            yield Scene(held, pids)
        finally:
            process.kill()


@contextmanager
def _primitive(
    held: Leash, command: list[str], env: dict[str, str], loop: str, _: int | None
) -> Iterator[Scene]:
    python, *tool = command
    host = [python, "-m", "tests.containment.primitive_host", loop, *tool]
    path = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    with subprocess.Popen(host, cwd=ROOT, env={**env, "PYTHONPATH": path}) as process:
        try:
            held.wait_until_away()
            warden = children_of(process.pid)[0]
            serve = children_of(warden)[0]
            pids = {"client": process.pid, "warden": warden, "serve": serve, "keeper": children_of(serve)[0]}
            yield Scene(held, pids)
        finally:
            process.kill()


@contextmanager
def _exec(
    held: Leash, command: list[str], env: dict[str, str], _: str, timeout_ms: int | None
) -> Iterator[Scene]:
    binary, program, *arguments = command
    options = [f"--arg={argument}" for argument in arguments]
    if timeout_ms is not None:
        options.append(f"--timeout={timeout_ms / 1e3}")
    exec_command = [binary, "exec", "--cmd", program, *options]
    with subprocess.Popen(exec_command, env=env, stdout=subprocess.PIPE) as process:
        try:
            held.wait_until_away()
            keeper = children_of(process.pid)[0]
            yield Scene(held, {"exec": process.pid, "keeper": keeper}, process=process)
        finally:
            process.kill()


def cast_of(client: Client, started: Frame) -> dict[str, int]:
    """Who takes part in a run that has started."""
    status, tool = client.status(), int(started.header["pid"])
    return {"warden": status["warden"], "serve": status["pid"], "keeper": parent_of(tool)}


def put_away(scene: Scene) -> None:
    """A supervisor without its guards may not end by itself."""
    for handle in scene.handles.values():
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
