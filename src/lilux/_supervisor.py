"""The process supervisor, `lilux-proc`: found, started, kept, asked and closed here, and nowhere else.

One `lilux-proc serve` serves an event loop. The first call starts it, and so does the next one after it died.
A run that is cancelled ends its whole process tree first. The rules are in docs/architecture/lilux.md.

    outcome = await supervisor(find_lilux_proc()).run(RunRequest(command="/bin/true"))
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import structs

from lilux import _loops
from lilux import _protocol as protocol
from lilux._calls import OUTPUT_CREDIT, Answer, Call, Dialogue, E, OnBegun, OnOutput, OnStarted, Outcome, Run
from lilux._connection import LOOK_EVERY_S, Connection
from lilux._frames import PAYLOAD_LIMIT, to_json
from lilux._protocol import PROTOCOL, Hello
from lilux._waiting import Waiting
from lilux.primitives.errors import ConfigurationError, SupervisorError

__all__ = [
    "REINSTALL",
    "Supervisor",
    "check_greeting",
    "execute",
    "find_lilux_proc",
    "spawn",
    "stranger",
    "supervisor",
]

GREETING_LIMIT_S: Final = 10.0
"""How long a supervisor may take to say hello."""

CANCEL_LIMIT_S: Final = 15.0
"""How long a cancelled run may take to end: its grace, the supervisor's own limit of 5 s, and some more."""

ANSWER_LIMIT_S: Final = 15.0
"""How long after its time limit a run may take to end: grace and limit of the supervisor, and some more."""

CLOSE_LIMIT_S: Final = 2.0
"""How long closing waits for the supervisor to be gone."""

SPAWN_LIMIT_S: Final = 10.0
"""How long `lilux-proc spawn` may take to answer, and `exec` beyond the time limit of what it runs."""


def supervisor(path: str) -> Supervisor:
    """The supervisor that serves the running event loop with the binary at `path`."""
    loop = _loops.running()
    found = _supervisors.get((loop, path))
    if found is None:
        for other in tuple(_supervisors.values()):
            if other.is_over():
                other.close()
        found = _supervisors[loop, path] = Supervisor(path, loop)
    return found


class Supervisor:
    """One `lilux-proc serve` for one event loop, started when it is needed."""

    def __init__(
        self,
        path: str,
        loop: Hashable,
        *,
        version: str | None = None,
        greeting_limit_s: float = GREETING_LIMIT_S,
        cancel_limit_s: float = CANCEL_LIMIT_S,
        answer_limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        self._path = path
        self._key = (loop, path)
        self._loop = _loops.bind(loop)
        self._version = version
        self._greeting_limit_s = greeting_limit_s
        self._cancel_limit_s = cancel_limit_s
        self._answer_limit_s = answer_limit_s
        self._starting = anyio.Lock()
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._at_end: object = None

    async def run(
        self,
        request: protocol.RunRequest,
        input: bytes | None = None,
        *,
        on_output: OnOutput | None = None,
        on_started: OnStarted | None = None,
    ) -> Outcome:
        """Run a tool to its end. The request need not speak of `stdin`, `stream_credit` and `notify`."""
        call = Run(self._loop.flag(), input=input or b"", on_output=on_output, on_started=on_started)
        return await self._carry_out(call, _completed(request, input, on_output, on_started))

    async def converse(
        self,
        request: protocol.RunRequest,
        *,
        on_begun: OnBegun,
        on_output: OnOutput,
        on_started: OnStarted | None = None,
    ) -> Outcome:
        """Run a tool to its end, and talk with it meanwhile: `on_begun` gets what one does so by."""
        call = Dialogue(self._loop.flag(), on_output=on_output, on_started=on_started)
        notify = on_started is not None
        asked = structs.replace(
            request, stdin="pipe", stream_credit=OUTPUT_CREDIT, stream_whole=True, notify=notify
        )
        return await self._carry_out(call, asked, partial(on_begun, call))

    async def _carry_out(
        self, call: Run, request: protocol.RunRequest, then: Callable[[], None] | None = None
    ) -> Outcome:
        connection = await self._connected()
        call.due = self._due(request)
        connection.begin(call, request, call.first_input(), request.descriptors.values())
        await self._wait(call, call.done, then)
        return call.outcome()

    def _due(self, request: protocol.RunRequest) -> float | None:
        if request.timeout_ms is None:
            return None
        return time.monotonic() + request.timeout_ms / 1000 + self._answer_limit_s

    async def _wait(self, call: Run, flag: _loops.Flag, then: Callable[[], None] | None = None) -> None:
        """Wait for what becomes of a run, and end it if nobody waits any more."""
        try:
            call.send_input()
            if then is not None:
                then()
            await flag.wait()
        except GeneratorExit:  # the coroutine is thrown away, and cannot wait
            call.cancel()
            call.connection.forget(call)
            raise
        except BaseException:
            call.cancel()
            await _until_ended(call, self._cancel_limit_s)
            raise

    async def park(self, request: protocol.RunRequest) -> Waiting:
        """Start what is to wait for its call; on return it does, or has ended."""
        waiting = Waiting(self._loop.flag(), self._loop.flag())
        connection = await self._connected()
        connection.begin(waiting, request, descriptors=request.descriptors.values())
        await self._wait(waiting, waiting.begun)
        return waiting

    async def call(
        self,
        waiting: Waiting,
        request: protocol.RunRequest,
        input: bytes | None = None,
        *,
        on_output: OnOutput | None = None,
        on_started: OnStarted | None = None,
    ) -> Outcome:
        """Give what waits its call, which is the half of this request that was not known; to its end."""
        waiting.begin(input, on_output, on_started)
        waiting.due = self._due(request)
        asked = protocol.CallRequest(_completed(request, input, on_output, on_started))
        waiting.connection.send(asked, waiting.id, waiting.first_input(), at_once=True)
        waiting.connection.expect(waiting)
        await self._wait(waiting, waiting.done)
        return waiting.outcome()

    async def discard(self, waiting: Waiting) -> None:
        """End what waits, or runs."""
        waiting.cancel(0)
        await _until_ended(waiting, self._cancel_limit_s)

    async def ask(self, request: protocol.Request, kind: type[E]) -> E:
        """The answer to a request that has only one; SupervisorError with its code when it is refused."""
        connection = await self._connected()
        call = Answer(self._loop.flag())
        connection.begin(call, request)
        try:
            await call.done.wait()
        finally:
            connection.forget(call)
        return call.answer(kind)

    async def status(self) -> protocol.SupervisorStatus:
        """The processes of the supervisor: how many, and their ids."""
        return await self.ask(protocol.StatusRequest(), protocol.SupervisorStatus)

    async def finish(self) -> None:
        """Wait for what is under way, then close."""
        while self._connection is not None and (calls := self._connection.calls):
            for call in calls:
                if isinstance(call, Waiting) and call.is_parked:
                    call.cancel(0)
            await calls[0].done.wait()
        self.close()

    def close(self) -> None:
        """End every run and then the supervisor, and wait a moment until it is gone."""
        if _supervisors.get(self._key) is self:
            del _supervisors[self._key]
        if self._connection is not None:
            self._connection.close(SupervisorError("the event loop is ending", code="stopping"))
        self._part()
        _reap(CLOSE_LIMIT_S)

    def shut_down(self) -> None:
        """Let the supervisor end, without touching the event loop: it may belong to another thread."""
        if self._connection is not None:
            self._connection.shut_down()
        self._part()

    def abandon(self) -> None:
        """Forget the supervisor in the child of a fork: it belongs to the parent."""
        if self._connection is not None:
            self._connection.abandon()
        self._part()

    def is_over(self) -> bool:
        """True when the event loop will run nothing any more."""
        return self._loop.is_over()

    def _part(self) -> None:
        """The process ends by itself; somebody must only fetch its exit code."""
        if self._process is not None:
            _departing.append(self._process)
            self._process = None

    async def _connected(self) -> Connection:
        if _departing:
            _reap(0)
        connection = self._connection
        if connection is not None and connection.error is None:
            return connection
        async with self._starting:
            if self._connection is None or self._connection.error is not None:
                self._part()
                self._connection = await self._started()
            return self._connection

    async def _started(self) -> Connection:
        try:
            return await self._start()
        except OSError as exc:
            raise SupervisorError(f"cannot start {self._path}: {exc}", code="resource_exhausted") from exc
        except RuntimeError as exc:  # of trio, whose last tasks have ended
            raise SupervisorError(f"the event loop is ending: {exc}", code="stopping") from exc

    async def _start(self) -> Connection:
        if self._at_end is None:
            self._at_end = await self._loop.at_end(self.finish)
        connection, process = self._launch()
        try:
            with anyio.move_on_after(self._greeting_limit_s):
                await connection.greeted.wait()
            if connection.hello is None:
                found = connection.error or f"nothing within {self._greeting_limit_s:g} s"
                raise stranger(self._path, str(found))
            check_greeting(self._path, connection.hello, self._version)
        except BaseException:
            process.kill()
            connection.close(SupervisorError("it is not the expected supervisor", code="lost"))
            process.wait()
            raise
        self._process = process
        return connection

    def _launch(self) -> tuple[Connection, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            process = self._popen(theirs)
            undo.callback(process.wait)
            undo.callback(process.kill)
            look_every_s = min(LOOK_EVERY_S, self._answer_limit_s)
            connection = Connection(ours, self._loop, partial(_end, process), look_every_s=look_every_s)
            undo.pop_all()
        return connection, process

    def _popen(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        try:
            command, end = [self._path, "serve"], theirs.fileno()
            return subprocess.Popen(command, stdin=end, stdout=end, cwd="/", start_new_session=True)  # noqa: S603
        except OSError as exc:
            if exc.errno in _EXHAUSTED:
                raise
            raise ConfigurationError(f"cannot start {self._path}: {exc}; {REINSTALL}") from exc


def _completed(
    request: protocol.RunRequest,
    input: bytes | None,
    on_output: OnOutput | None,
    on_started: OnStarted | None,
) -> protocol.RunRequest:
    """The request, speaking of what follows it and what is wanted back."""
    if input is None and on_output is None and on_started is None:
        return request
    return structs.replace(
        request,
        stdin=None if input is None else "data" if len(input) <= PAYLOAD_LIMIT else "pipe",
        stream_credit=None if on_output is None else OUTPUT_CREDIT,
        notify=on_started is not None,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a supervisor that hangs. Its warden kills the others, and is woken if somebody has stopped it."""
    process.terminate()
    process.send_signal(signal.SIGCONT)


async def _until_ended(call: Call, limit_s: float) -> None:
    """Wait until a cancelled run has ended, whatever else is cancelled meanwhile."""
    cancelled = anyio.get_cancelled_exc_class()
    with anyio.move_on_after(limit_s, shield=True) as limit:
        while not call.done.is_set():
            try:
                await call.done.wait()
            except cancelled:
                if limit.cancel_called:
                    raise
    if not call.done.is_set():
        error = SupervisorError(f"a cancelled run has not ended within {limit_s:g} s", code="lost")
        call.connection.give_up(error)


async def spawn(path: str, request: protocol.RunRequest, log: str | None) -> dict[str, Any]:
    """Start a process that outlives this one. The request travels on standard input, out of sight of `ps`."""
    named = {name: getattr(request, name) for name in ("command", "args", "cwd", "env", "search_path")}
    try:
        command = [path, "spawn", "--request", "-"]
        with anyio.fail_after(SPAWN_LIMIT_S, shield=True):
            ran = await anyio.run_process(command, input=to_json({**named, "log": log}), check=False)
        answer = json.loads(ran.stdout)
        if answer.keys() >= {"success", "pid", "error"}:
            return dict(answer)
        found = f"exit code {ran.returncode}, {ran.stderr.decode(errors='replace')[-500:]!r}"
    except TimeoutError:
        found = f"nothing within {SPAWN_LIMIT_S:g} s"
    except ExceptionGroup as group:
        if group.split(anyio.BrokenResourceError)[1] is not None:
            raise
        found = "its end, before it had read the request"
    except (OSError, ValueError, AttributeError) as exc:
        found = str(exc)
    raise SupervisorError(f"expected an answer of {path} spawn, found: {found}", code="spawn_failed")


def execute(path: str, request: protocol.RunRequest) -> dict[str, Any]:
    """Run a tool to its end and return the answer of `lilux-proc exec`. Blocks, so not for loops."""
    asked = {name: value for name, value in request.header(0).items() if name not in {"op", "id"}}
    limit = None if request.timeout_ms is None else request.timeout_ms / 1000 + SPAWN_LIMIT_S
    try:
        command = [path, "exec", "--request", "-"]
        ran = subprocess.run(command, input=to_json(asked), capture_output=True, timeout=limit, check=False)  # noqa: S603
        answer = json.loads(ran.stdout or b"{}")
        if answer.keys() >= {"success", "kind", "stdout"}:
            return dict(answer)
        found = f"exit code {ran.returncode}, {ran.stderr.decode(errors='replace')[-500:]!r}"
    except subprocess.TimeoutExpired:
        found = f"nothing within {limit:g} s"
    except (OSError, ValueError, AttributeError) as exc:
        found = str(exc)
    raise SupervisorError(f"expected an answer of {path} exec, found: {found}", code="spawn_failed")


_EXHAUSTED: Final = frozenset([errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])

_supervisors: dict[tuple[Hashable, str], Supervisor] = {}
_departing: list[subprocess.Popen[bytes]] = []
"""Supervisors that are ending, until their exit code was fetched."""
_forgotten: list[object] = []
"""Kept in the child of a fork so that no finaliser touches what belongs to the parent."""


def _reap(limit_s: float) -> None:
    """Fetch the exit codes of supervisors that have ended, waiting so long for the others."""
    deadline = time.monotonic() + limit_s
    for process in _departing[:]:
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):  # another thread was quicker
            _wait_for_end(process, deadline - time.monotonic())
            process.wait(max(0.0, deadline - time.monotonic()))
            _departing.remove(process)


def _wait_for_end(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """Wait for the kernel to report the end: `Popen.wait` looks again and again, up to 50 ms too late."""
    if process.returncode is not None or limit_s <= 0:
        return
    with contextlib.suppress(ProcessLookupError):  # another thread has fetched its exit code
        descriptor = os.pidfd_open(process.pid)
        try:
            ends = select.poll()
            ends.register(descriptor, select.POLLIN)
            ends.poll(limit_s * 1000)
        finally:
            os.close(descriptor)


def _close_all() -> None:
    for left in tuple(_supervisors.values()):
        left.shut_down()
    _reap(CLOSE_LIMIT_S)


def _forget_all() -> None:
    for inherited in tuple(_supervisors.values()):
        inherited.abandon()
        _forgotten.append(inherited)
    for process in _departing:
        process.returncode = 0  # it is no child of this process, to be waited for or warned about
    _supervisors.clear()
    _departing.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)


# --- the program ---
# Find `lilux-proc`, and check that it is the one that belongs to this package.
#
# It is looked for beside the running interpreter first, then on PATH: a graphical client starts the server
# with a bare PATH, and another version on PATH must not win. Every look is a new one. What is not ours is a
# ConfigurationError that says where it stands, what was expected and found, and what to do.


REINSTALL: Final = "reinstall rye-mcp in this environment (`pip install --force-reinstall rye-mcp`)"


def find_lilux_proc() -> str:
    """The `lilux-proc` of this environment, else the one on PATH."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("lilux-proc", path=scripts) or shutil.which("lilux-proc")
    if not found:
        raise ConfigurationError(f"lilux-proc binary not found on PATH or in {scripts}: {REINSTALL}")
    return str(Path(found).absolute())


def check_greeting(path: str, hello: Hello, version: str | None = None) -> None:
    """The supervisor speaks our protocol and has our version (or this one)."""
    version = version or _own_version() or hello.version
    if (hello.protocol, hello.version) != (PROTOCOL, version):
        raise ConfigurationError(
            f"expected lilux-proc {version} (protocol {PROTOCOL}) at {path}, "
            f"found {hello.version} (protocol {hello.protocol}); {REINSTALL}"
        )


def stranger(path: str, found: str) -> ConfigurationError:
    """The error for a program that did not greet at all."""
    return ConfigurationError(f"expected a greeting of {path}, found: {found}; {REINSTALL}")


def _own_version() -> str | None:
    """The version that this package was installed as; None when it runs from its sources."""
    from importlib import metadata  # slow to import, and not needed before the first run

    try:
        return metadata.version("rye-mcp")
    except metadata.PackageNotFoundError:
        return None
