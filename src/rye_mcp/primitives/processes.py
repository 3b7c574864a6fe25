"""Processes that outlive the call that started them, of this project alone: start, look, read, end.

What is started is a run of the supervisor under a host of its own (`_process_host`), with the environment
that every tool gets, and is ended with its whole tree. An id of another project is not found. At most
`MAX_RUNNING` run at once. What configuration and arguments mean is in docs/architecture/bridge.md.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import anyio
from anyio import to_thread

from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import (
    CallSpec,
    Enforced,
    Halves,
    ProcessSpec,
    RuntimeSpec,
    SubprocessPrimitive,
)
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.variables import is_private, is_withheld
from rye_mcp.executor.job.confinement import Bounds
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.in_process import InProcessCall
from rye_mcp.executor.job.outcomes import Outcome
from rye_mcp.executor.job.primitives import Surroundings
from rye_mcp.executor.job.starting import Starting
from rye_mcp.primitives._process_files import (
    FOR_PROCESS,
    GRACE,
    MAX_BYTES,
    PROCESS,
    ProcessRecord,
    ProcessStore,
    read_log,
    size_of_log,
    whole_characters,
    write,
)
from rye_mcp.primitives._work import WorkJob, success
from rye_mcp.runs.hosts import Host

__all__ = ["MAX_RUNNING", "ProcessesPrimitive"]

MAX_RUNNING: Final = 16
"""How many processes of a project may run at once."""

_UNCONFINED: Final = "the policy lifts it"
_START_LIMIT_S: Final = 20.0
_GRACE_S: Final = 5.0
_END_LIMIT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.01
_LENGTH: Final = 32 << 10
_SHOWN_ARGUMENTS: Final = 50
_SHOWN_CHARACTERS: Final = 500

Action = Callable[["ProcessesPrimitive", InProcessCall, ProcessStore], Awaitable[Outcome]]


class ProcessesPrimitive:
    """The processes of one project."""

    confines = True

    def __init__(
        self, state: Path, project: Path | None, starting: Starting, environment: Mapping[str, str]
    ) -> None:
        self._state, self._project, self._starting = state, project, starting
        self._own = environment
        self._subprocess = SubprocessPrimitive()

    @classmethod
    def open_in(cls, surroundings: Surroundings) -> Self:
        """Those of the executor's project."""
        starting = Starting(surroundings.trust.directories)
        return cls(surroundings.state, surroundings.project, starting, surroundings.environment)

    def job(self, call: InProcessCall) -> WorkJob:
        """Return the work of the tool's configuration, with the arguments of the call."""
        name = call.config.get("action")
        action = ACTIONS.get(name) if isinstance(name, str) else None
        if action is None:
            what = f"expected one of {', '.join(ACTIONS)} as action, found {name!r:.60}"
            raise RyeError("invalid_item", what, where=call.tool.path, item_id=call.tool.item_id)
        if self._project is None:
            raise RyeError("no_project", "expected a project for its processes, found none")
        store = ProcessStore(self._state, Path(os.path.realpath(self._project)))
        title = (str(name), *_command_of(call.arguments)) if name == "spawn" else (str(name),)
        return WorkJob(title, partial(action, self, call, store), call.timeout)

    # --- actions ---

    async def spawn(self, call: InProcessCall, store: ProcessStore) -> Outcome:
        """Start a process, and wait until it runs."""
        cwd = self._directory(call.arguments.get("cwd", "."))
        running = [record for record in store.list() if record.state == "running"]
        if len(running) >= MAX_RUNNING:
            what = f"expected at most {MAX_RUNNING} processes of a project, found {len(running)}"
            raise ToolExecutionError(f"{what}: end some of them")
        command, *args = _command_of(call.arguments)
        asked = {"name": call.arguments.get("name"), "command": command, "args": args, "cwd": str(cwd)}
        process = Halves(RuntimeSpec(command=command, env=call.environment), CallSpec(cwd=str(cwd)))
        process = await self._starting.process(process, direct=True, keep_cwd=True)
        if call.bounds is not None:
            process = (await call.bounds.around(process)).process
        policy = process.call.policy
        asked |= {
            "program": process.runtime.command,
            "search_path": process.runtime.search_path,
            "policy": None if policy is None else policy.header(),
            "tree": call.tree,
        }
        if (size := len(json.dumps(asked))) > MAX_BYTES:
            what = f"expected a command of at most {MAX_BYTES} bytes, found {size} with its arguments"
            raise ToolExecutionError(what)
        store.forget_old()
        process_id, directory = store.new()
        write(directory / PROCESS, asked)
        host = await self._start_host(directory, process.env)
        record = await _begun(store, process_id, host)
        return replace(success(_shown(record)), enforced=_enforcement(record, call.bounds))

    async def status(self, call: InProcessCall, store: ProcessStore) -> Outcome:
        """One process, or all of them."""
        process_id = call.arguments.get("id")
        records = store.list() if process_id is None else [_reached(call, store, process_id)]
        records = [each for each in records if _is_reached(call, each)]
        return success({"processes": [_shown(record) for record in records]})

    async def logs(self, call: InProcessCall, store: ProcessStore) -> Outcome:
        """A piece of what a process has printed."""
        record = _reached(call, store, call.arguments["id"])
        length = call.arguments.get("length", _LENGTH)
        offset = call.arguments.get("offset", -length)
        state = record.state  # before its log: what it printed before it ended is there then
        piece = await to_thread.run_sync(read_log, record.directory, offset, length)
        piece = whole_characters(piece, offset, is_over=state != "running")
        found = {
            "id": record.process_id,
            "state": state,
            "offset": piece.offset,
            "text": piece.data.decode("utf-8", "replace"),
            "next_offset": piece.offset + len(piece.data),
            "total": piece.total,
        }
        return success(found)

    async def kill(self, call: InProcessCall, store: ProcessStore) -> Outcome:
        """End a process with everything that it started."""
        record = _reached(call, store, call.arguments["id"])
        grace = float(call.arguments.get("grace", _GRACE_S))
        host = record.host
        if host is not None and record.state == "running":
            write(record.directory / GRACE, {"seconds": grace})
            with host.handle() as handle:
                if handle is not None:
                    await to_thread.run_sync(_end, handle, grace + _END_LIMIT_S)
        return success(_shown(store.get(record.process_id)))

    # --- parts ---

    async def _start_host(self, directory: Path, environment: Mapping[str, str]) -> Host | None:
        program = ["-I", "-m", "rye_mcp.primitives._process_host", str(directory)]
        # Nothing confines the host, so what the tool says about loaders and libraries is not for it.
        own = {name: text for name, text in self._own.items() if not (is_withheld(name) or is_private(name))}
        theirs = {f"{FOR_PROCESS}{name}": text for name, text in environment.items()}
        spec = ProcessSpec(command=sys.executable, args=program, cwd=os.sep, env={**own, **theirs})
        spawned = await self._subprocess.start(spec, directory / "host.log")
        if not spawned.success or spawned.pid is None:
            raise ToolExecutionError(
                spawned.error or "expected the host of a process to start, found nothing"
            )
        return Host.of(spawned.pid)

    def _directory(self, cwd: str) -> Path:
        root = Path(os.path.realpath(self._project or "."))
        found = Path(os.path.realpath(root / cwd))
        if found.is_relative_to(root) and found.is_dir():
            return found
        raise ToolExecutionError(f"expected a directory in the project as cwd, found {cwd}")


ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "spawn": ProcessesPrimitive.spawn,
        "status": ProcessesPrimitive.status,
        "logs": ProcessesPrimitive.logs,
        "kill": ProcessesPrimitive.kill,
    }
)
"""Values of `action`."""


def _is_reached(call: InProcessCall, record: ProcessRecord) -> bool:
    """Whether a call reaches a process: from a program, only those that the same program had started."""
    return call.tree is None or record.asked.get("tree") == call.tree


def _reached(call: InProcessCall, store: ProcessStore, process_id: str) -> ProcessRecord:
    """One process; RyeError `run_not_found` for one that the call doesn't reach, as for none."""
    record = store.get(process_id)
    if not _is_reached(call, record):
        what = f"expected the id of a process that this program has started, found {process_id}"
        raise RyeError("run_not_found", what, hint="call rye/process/status", run_id=process_id)
    return record


async def _begun(store: ProcessStore, process_id: str, host: Host | None) -> ProcessRecord:
    """The record of a process, once it runs or has ended."""
    with anyio.move_on_after(_START_LIMIT_S):
        while _is_alive(host):
            record = store.get(process_id)
            if record.started is not None or record.ended is not None:
                break
            await anyio.sleep(_LOOK_EVERY_S)
    record = store.get(process_id)
    if record.started is None:
        why = (record.ended or {}).get("error", f"nothing within {_START_LIMIT_S:g} s")
        command = record.asked["command"]
        what = f"expected {command} to start, found: {why}"
        if len(command.split()) > 1:  # a line, as one types it
            raise RyeError("tool_failed", what, hint="for a line of a shell: command sh, args ['-c', LINE]")
        raise ToolExecutionError(what)
    return record


def _enforcement(record: ProcessRecord, bounds: Bounds | None) -> Enforcement:
    """Return the confinement of a process, as its launch confirmed it."""
    said = (record.started or {}).get("enforced")
    if said is None or bounds is None:
        return Enforcement.none(_UNCONFINED)
    return Enforcement.of(Enforced(**said), bounds.rights.permissions)


def _is_alive(host: Host | None) -> bool:
    if host is None:
        return False
    with host.handle() as handle:
        return handle is not None


def _end(handle: int, limit: float) -> None:
    """SIGTERM, and SIGKILL when that was not enough: then the supervisor ends what is left."""
    for number, seconds in ((signal.SIGTERM, limit), (signal.SIGKILL, _END_LIMIT_S)):
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if poll.poll(seconds * 1000):
            return


def _command_of(arguments: Mapping[str, Any]) -> list[str]:
    return [arguments["command"], *arguments.get("args", ())]


def _brief(command: list[str]) -> list[str]:
    """A command as it is shown: to be recognised, and not to be run again."""
    shown = [
        text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        for text in command[:_SHOWN_ARGUMENTS]
    ]
    more = len(command) - len(shown)
    return [*shown, f"… {more} more"] if more else shown


def _shown(record: ProcessRecord) -> dict[str, Any]:
    asked, started, ended = record.asked, record.started or {}, record.ended or {}
    shown = {
        "id": record.process_id,
        "name": asked.get("name"),
        "command": _brief([asked["command"], *asked["args"]]),
        "cwd": asked["cwd"],
        "state": record.state,
        "pid": started.get("pid"),
        "started": started.get("at"),
        "printed": size_of_log(record.directory),
    }
    if ended:
        shown |= {
            name: ended.get(name) for name in ("kind", "return_code", "signal", "error") if name in ended
        }
        shown["ended"] = ended.get("at")
    return shown
