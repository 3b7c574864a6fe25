"""Run, start, end and watch processes. Everything goes through `lilux-proc`; there is no other way in.

What a program did is a result, also when it failed, ran out of time or could not be started. What the caller
did wrong is a ConfigurationError, before anything is started. Only a supervisor that itself fails is a
SupervisorError.

| condition | return code | standard error |
| --- | --- | --- |
| no command | -1 | `No command specified` |
| it could not be started | -1 | `Failed to spawn: {error}` |
| it ran out of time | -1 | what it had printed, then `Command timed out after {timeout} seconds` |
| signal N | -N | what it had printed |

Cancelling the awaiting task ends the program and everything that it started, before the cancellation goes on.

    primitive = SubprocessPrimitive()
    result = await primitive.execute({"command": "echo", "args": ["Hello, {name}"]}, {"name": "World"})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, Final, Literal

from msgspec import structs

from lilux import _process, _supervisor
from lilux._calls import STREAMS, Dialogue, OnBegun, OnOutput, OnStarted, Outcome
from lilux._dataclasses import dataclass
from lilux._parking import CALL_DESCRIPTOR, NotParked, Parked, ParkSpec
from lilux._policy import Bind, Enforced, Facts, Groups, Hosts, Limits, Policy, Ports
from lilux._process import CONFIG_KEYS, CallSpec, Halves, ProcessSpec, RuntimeSpec, render
from lilux._protocol import Killed, KillRequest, Probed, ProbeRequest, ProcessStatus, Spool, StatusRequest
from lilux._results import Cleanup, Fact, Failure, HostTraffic, Network, Observed, StreamCounts, Usage
from lilux._zygote import Zygote, ZygoteFacts, ZygoteSpec, zygote_request
from lilux.primitives.errors import ConfigurationError, SupervisorError

__all__ = [
    "CALL_DESCRIPTOR",
    "CONFIG_KEYS",
    "Bind",
    "CallSpec",
    "Cleanup",
    "Dialogue",
    "Enforced",
    "Fact",
    "Facts",
    "Failure",
    "Groups",
    "Halves",
    "HostTraffic",
    "Hosts",
    "KillResult",
    "Limits",
    "Network",
    "NotParked",
    "Observed",
    "OnBegun",
    "OnOutput",
    "OnStarted",
    "ParkSpec",
    "Parked",
    "Policy",
    "Ports",
    "ProcessSpec",
    "RuntimeSpec",
    "SpawnResult",
    "Spool",
    "StatusResult",
    "StreamCounts",
    "SubprocessPrimitive",
    "SubprocessResult",
    "Usage",
    "Zygote",
    "ZygoteFacts",
    "ZygoteSpec",
    "execute",
    "render",
]

REFUSALS: Final = frozenset(["no_such_process", "not_permitted", "invalid_pid", "invalid_request"])
"""Answers of the supervisor about one process, as opposed to failures of its own."""


@dataclass(frozen=True, slots=True)
class SubprocessResult:
    """How a program ended.

    `success` is true for return code 0. `kind` is `exited`, `signaled`, `timeout`, `cancelled` (somebody
    ended it through the supervisor) or `spawn_failed`, and then `error` says why. The texts are decoded as
    UTF-8; `encoding` is `lossy` when something was not. `truncated` says that bytes were left out, `streams`
    how many of each. `result` is what was written to descriptor 3, when that was asked for. `enforced` is
    what was enforced of the policy; None without one. `network` is what it did at the door; None without
    hosts that it may reach. `observed` is what it named, when that was asked for.
    """

    success: bool
    stdout: str
    stderr: str
    return_code: int
    duration_ms: float
    kind: str = "exited"
    signal: int | None = None
    pid: int | None = None
    truncated: bool = False
    encoding: Literal["utf-8", "lossy"] = "utf-8"
    result: str | None = None
    streams: Mapping[str, StreamCounts] = field(default_factory=dict)
    usage: Usage | None = None
    cleanup: Cleanup | None = None
    error: Failure | None = None
    enforced: Enforced | None = None
    network: Network | None = None
    observed: Observed | None = None


@dataclass(frozen=True, slots=True)
class SpawnResult:
    """Whether a process was started that outlives its starter."""

    success: bool
    pid: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KillResult:
    """How a process was ended: `terminated`, `killed` or `already_dead`."""

    success: bool
    pid: int = 0
    method: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StatusResult:
    """Whether a process is there; one that cannot be is not alive, and `error` says why."""

    pid: int
    alive: bool
    error: str | None = None


class SubprocessPrimitive:
    """All process operations. Its instances are cheap; those of an event loop share one supervisor."""

    def __init__(self) -> None:
        self._lilux_proc = _supervisor.find_lilux_proc()

    @property
    def supervisor_file(self) -> str:
        """Where the program of the supervisor is, behind every link."""
        return os.path.realpath(self._lilux_proc)

    async def execute(
        self, config: Mapping[str, Any], params: Mapping[str, Any] | None = None
    ) -> SubprocessResult:
        """Fill the templates of a configuration and run it."""
        return await self.run(render(config, params))

    async def run(self, spec: ProcessSpec) -> SubprocessResult:
        """Run exactly this, to its end."""
        request = _process.request_of(spec)
        if not spec.command.strip():
            return _not_started(Failure("no_command", "configuration", None, "No command specified"))
        supervisor = _supervisor.supervisor(self._lilux_proc)
        try:
            outcome = await supervisor.run(
                request, spec.input, on_output=spec.on_output, on_started=spec.on_started
            )
        except SupervisorError as exc:
            if exc.code != "frame_too_large":
                raise
            failure = Failure("arguments_too_large", "request", None, exc.message)
            return _not_started(failure, f"Failed to spawn: {exc.message}")
        return _result(outcome, spec.timeout)

    async def converse(self, spec: ProcessSpec, on_begun: OnBegun) -> SubprocessResult:
        """Run this to its end, and talk with it meanwhile: `on_begun` gets the `Dialogue` to do so by.

        `on_output` of the spec gets every byte; nothing is left out: the program waits for the listener.
        """
        if spec.on_output is None or spec.input is not None:
            raise ConfigurationError("expected on_output and no input, found otherwise", field="on_output")
        request = _process.request_of(spec)
        supervisor = _supervisor.supervisor(self._lilux_proc)
        outcome = await supervisor.converse(
            request, on_begun=on_begun, on_output=spec.on_output, on_started=spec.on_started
        )
        return _result(outcome, spec.timeout)

    async def park(self, spec: ParkSpec) -> Parked[SubprocessResult]:
        """Start the known half of a process, which waits for its call. NotParked if it cannot be started."""
        limit = _process.milliseconds("limit", spec.limit)
        request = structs.replace(_process.request_of(spec.process()), park_limit_ms=limit)
        supervisor = _supervisor.supervisor(self._lilux_proc)
        waiting = await supervisor.park(request)
        return Parked(supervisor, waiting, spec, _result)

    async def zygote(self, spec: ZygoteSpec) -> Zygote[SubprocessResult]:
        """Prepare a Python interpreter that others are forked from. NotParked if that does not work here."""
        request = zygote_request(spec)
        supervisor = _supervisor.supervisor(self._lilux_proc)
        return Zygote(supervisor, await supervisor.park(request), spec, _result)

    async def spawn(
        self,
        cmd: str,
        args: Sequence[str] = (),
        log_path: str | os.PathLike[str] | None = None,
        envs: Mapping[str, str] | None = None,
    ) -> SpawnResult:
        """Start a process that outlives this one; `envs` add to its environment, its output goes to a log."""
        env = _process.added_to_inherited("envs", envs)
        return await self.start(ProcessSpec(command=cmd, args=args, env=env), log_path)

    async def start(self, spec: ProcessSpec, log_path: str | os.PathLike[str] | None = None) -> SpawnResult:
        """Start exactly this, to outlive this process: its command, arguments, directory and environment."""
        log = _process.absolute_path("log_path", log_path)
        if spec.descriptors:
            raise ConfigurationError(
                "expected no descriptors for a process that outlives this one", field="descriptors"
            )
        if spec.policy is not None:
            raise ConfigurationError(
                "expected no policy for a process that outlives this one: nobody would enforce it",
                field="policy",
            )
        request = _process.request_of(spec)
        if not spec.command.strip():
            return SpawnResult(success=False, error="No command specified")
        answer = await _supervisor.spawn(self._lilux_proc, request, log)
        error = answer["error"]
        return SpawnResult(answer["success"], answer["pid"], error and f"Failed to spawn: {error['message']}")

    async def kill(self, pid: int, grace: float = 3.0) -> KillResult:
        """SIGTERM, `grace` seconds, SIGKILL. The whole group when `pid` leads one."""
        request = KillRequest(
            pid=_process.process_id(pid), grace_ms=_process.milliseconds("grace", grace, zero=True)
        )
        try:
            killed = await _supervisor.supervisor(self._lilux_proc).ask(request, Killed)
        except SupervisorError as exc:
            return KillResult(success=False, pid=pid, error=_refusal(exc))
        return KillResult(success=True, pid=pid, method=killed.method)

    async def status(self, pid: int) -> StatusResult:
        """Whether a process is alive. One that has ended and waits to be fetched is not."""
        request = StatusRequest(pid=_process.process_id(pid))
        try:
            status = await _supervisor.supervisor(self._lilux_proc).ask(request, ProcessStatus)
        except SupervisorError as exc:
            return StatusResult(pid, alive=False, error=_refusal(exc))
        return StatusResult(pid, alive=status.alive)

    async def probe(self) -> Facts:
        """Return which parts of a policy this machine can enforce. Asked once for each supervisor."""
        probed = await _supervisor.supervisor(self._lilux_proc).ask(ProbeRequest(), Probed)
        return probed.facts


async def execute(config: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> SubprocessResult:
    """Fill the templates of a configuration and run it, with an instance that is made when it is needed."""
    return await _shared().execute(config, params)


@cache
def _shared() -> SubprocessPrimitive:
    return SubprocessPrimitive()


def _refusal(exc: SupervisorError) -> str:
    if exc.code not in REFUSALS:
        raise exc
    return exc.message


def _not_started(failure: Failure, stderr: str | None = None) -> SubprocessResult:
    return SubprocessResult(False, "", stderr or failure.message, -1, 0.0, kind="spawn_failed", error=failure)


def _result(outcome: Outcome, timeout: float | None) -> SubprocessResult:
    result, texts, lossy = outcome.result, {}, False
    streams: dict[str, StreamCounts] = {}
    for name in STREAMS:
        counts: StreamCounts | None = getattr(result, name)
        if counts is not None:
            streams[name] = counts
            texts[name], bad = _decode(outcome.streams[name], counts)
            lossy = lossy or bad
    return SubprocessResult(
        success=result.kind == "exited" and result.return_code == 0,
        stdout=texts["stdout"],
        stderr=_closing_words(texts["stderr"], outcome, timeout),
        return_code=result.return_code,
        duration_ms=result.duration_ms,
        kind=result.kind,
        signal=result.signal,
        pid=result.pid,
        truncated=result.truncated,
        encoding="lossy" if lossy else "utf-8",
        result=texts.get("result"),
        streams=streams,
        usage=result.usage,
        cleanup=result.cleanup,
        error=result.error,
        enforced=result.enforced,
        network=result.network,
        observed=result.observed,
    )


def _closing_words(stderr: str, outcome: Outcome, timeout: float | None) -> str:
    match outcome.result.kind, outcome.result.error:
        case "timeout", _:
            words = f"Command timed out after {timeout} seconds"
        case "spawn_failed", Failure(message=message):
            words = f"Failed to spawn: {message}"
        case _:
            return stderr
    between = "\n" if stderr and not stderr.endswith("\n") else ""
    return f"{stderr}{between}{words}"


def _decode(data: bytes, counts: StreamCounts) -> tuple[str, bool]:
    """The text of a stream, with a mark where bytes were left out; and whether some were no UTF-8."""
    if not counts.omitted:
        return _decode_piece(data)
    head, bad_head = _decode_piece(data[: counts.head])
    tail, bad_tail = _decode_piece(data[counts.head :])
    return f"{head}{counts.mark}{tail}", bad_head or bad_tail


def _decode_piece(data: bytes) -> tuple[str, bool]:
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True
