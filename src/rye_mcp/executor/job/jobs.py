"""The work of a primitive, fully resolved, and how its answer becomes an outcome.

Rules:

- A job is made of verified configuration and data, and holds everything: nothing is looked up when it runs.
- `shown` tells what would run: the command, where, for how long. It holds no value of a variable.
- A supervisor that fails is an outcome too (`lost`): nobody knows how far the tool got.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from lilux._dataclasses import dataclass
from lilux.primitives.errors import SupervisorError, ToolExecutionError
from lilux.primitives.subprocess import (
    CallSpec,
    Halves,
    OnOutput,
    OnStarted,
    ProcessSpec,
    Spool,
    SubprocessPrimitive,
    SubprocessResult,
)
from rye_mcp.apart import apart_if_large, off_loop
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.outcomes import Exit, Outcome, Runtime, read_http, read_lost, read_process
from rye_mcp.executor.job.planted import Missing
from rye_mcp.executor.job.starting import install_hint
from rye_mcp.executor.tree import CALL_DESCRIPTOR, OnCall, OpenInside
from rye_mcp.permissions import DEFAULT_PORT, Permissions
from rye_mcp.permissions.planning import Facts
from rye_mcp.runs.ids import StreamName

if TYPE_CHECKING:
    from lilux.primitives.http_client import HttpClientPrimitive, HttpSpec
    from rye_mcp.executor.warm.turns import Turn
    from rye_mcp.permissions.denials import Denial

__all__ = ["HttpJob", "Job", "Observer", "OtherJob", "ProcessJob", "Watch", "address_of"]

Show = Callable[[str], str]

_UNCONFINED: Final = "it declares no permissions, or the policy lifts them"
_PORTS: Final = {"http": 80}
_HIDDEN: Final = "the program is there, but the tool may not see it: name its place in permissions.read"


class Observer(Protocol):
    """Learns what a call needs. What it looks at is not confined."""

    def prepared(self, spec: ProcessSpec) -> ProcessSpec:
        """The program as it is to be run."""
        ...

    def saw(self, result: SubprocessResult, show: Show) -> None:
        """How it ended, and what was seen."""
        ...

    def requested(self, host: str, port: int) -> None:
        """This process asked a host."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """Callbacks of a watcher, for the id of the run when it begins, its output as it comes, and its pid.

    `on_placing` hears in words where a call waits that runs on another machine, and where it then is.

    An `observer`, which only a person at a terminal has, learns what it needs. `inside` opens the descriptor
    of a program that calls, and `on_call` is told of its calls.
    """

    on_output: OnOutput | None = None
    on_started: OnStarted | None = None
    on_begun: Callable[[str], None] | None = None
    on_placing: Callable[[str], None] | None = None
    observer: Observer | None = None
    inside: OpenInside | None = None
    on_call: OnCall | None = None
    quiet: float = 0.0
    """For so many seconds nobody needs to hear of output and pid."""


class Job(Protocol):
    """A piece of work for a primitive."""

    def shown(self) -> dict[str, Any]:
        """Describe the work as data."""
        ...

    async def run(self, watch: Watch, show: Show, spool: Spool | None) -> Outcome:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessJob:
    """A program to run. `direct` is for a call of the primitive itself, which gets its words unchanged.

    `missing` are names that it must not make. Of one that is called `with_flags`, all of standard output is
    the result. `turn` is an interpreter that waited for the call, or the reason why none did.
    """

    primitive: SubprocessPrimitive
    process: Halves
    permissions: Permissions
    where: Facts | None = None
    missing: Missing | None = None
    direct: bool = False
    with_flags: bool = False
    turn: Turn | None = None
    asks_at: int | None = None
    """The open descriptor through which it asks for calls; None for what may not call."""
    commands: Path | None = None
    """The directory with `rye`, the command by which it asks."""

    def shown(self) -> dict[str, Any]:
        """The command with its arguments, the names of its variables, where and for how long it runs."""
        spec = self.process.whole()
        return {
            "command": [spec.command, *spec.args],
            "environment": sorted(spec.env),
            "cwd": None if spec.cwd is None else str(spec.cwd),
            "timeout": spec.timeout,
        }

    async def run(self, watch: Watch, show: Show, spool: Spool | None) -> Outcome:
        """Run it to its end."""
        call = replace(
            self.process.call,
            spool=spool,
            digests=True,
            on_output=_shown_live(watch.on_output, show),
            on_started=watch.on_started,
            quiet=watch.quiet,
        )
        spec = Halves(self.process.runtime, call).whole(**self._asking())
        if watch.observer is not None:
            spec = watch.observer.prepared(spec)
        begun = time.perf_counter()
        try:
            result = await self._run_warm(call, watch)
            runtime = Runtime(None if self.turn is None else self.turn.why, is_warm=result is not None)
            if result is None:
                result = await self.primitive.run(spec)
        except SupervisorError as exc:
            return read_lost(exc, (time.perf_counter() - begun) * 1000)
        if watch.observer is not None:
            watch.observer.saw(result, show)
        read = partial(read_process, result, timeout=spec.timeout, show=show, last_line=not self.with_flags)
        outcome = await apart_if_large((result.stdout, result.result), read)
        denied = await self._denied(result, failed=not outcome.success)
        outcome = replace(outcome, enforced=self._enforced(result), denied=denied, runtime=runtime)
        if result.error is not None and result.error.code == "command_not_found":
            outcome = replace(outcome, hint=install_hint(spec.command))
        if result.error is not None and result.error.code == "command_hidden":
            outcome = replace(outcome, hint=_HIDDEN)
        return replace(outcome, data=_plain_data(result)) if self.direct else outcome

    async def _run_warm(self, call: CallSpec, watch: Watch) -> SubprocessResult | None:
        """The outcome in an interpreter that waited; None if none was waiting for it."""
        if self.turn is None:
            return None
        if self.asks_at is not None or watch.observer is not None:
            self.turn.refuse("watched" if self.asks_at is None else "descriptors")
        return await self.turn.run(call)

    def _asking(self) -> dict[str, Any]:
        """Return the additional facts for a program that asks for calls."""
        if self.asks_at is None:
            return {}
        env = {**self.process.env, "RYE_CALL_FD": str(CALL_DESCRIPTOR)}
        if self.commands is not None:
            env["PATH"] = f"{self.commands}{os.pathsep}{env.get('PATH', os.defpath)}"
        return {"env": env, "descriptors": {CALL_DESCRIPTOR: self.asks_at}}

    async def _denied(self, result: SubprocessResult, *, failed: bool) -> Denial | None:
        """Return the access that a confined program was denied, as far as the evidence shows."""
        refused = () if result.network is None else [name for name, _ in result.network.refused]
        is_confined = result.enforced is not None and result.enforced.level != "none"
        if self.where is None or not is_confined or not (refused or failed):
            return None
        from rye_mcp.permissions.denials import suspect

        stderr = result.stderr if failed else ""
        return await off_loop(
            partial(suspect, refused, stderr, self.permissions, self.where, os.path.lexists)
        )

    def _enforced(self, result: SubprocessResult) -> Enforcement | None:
        """Return the confinement of the program; None for one that never ran."""
        if result.enforced is not None:
            return Enforcement.of(result.enforced, self.permissions)
        return (
            Enforcement.none(_UNCONFINED)
            if result.error is None and self.process.call.policy is None
            else None
        )


@dataclass(frozen=True, slots=True)
class HttpJob:
    """A request to make."""

    primitive: HttpClientPrimitive
    spec: HttpSpec

    def shown(self) -> dict[str, Any]:
        """The method and the host; what is in a URL may be secret."""
        spec = self.spec
        return {
            "command": [spec.method, f"{spec.url.origin.scheme}://{spec.url.netloc}"],
            "environment": [],
            "cwd": None,
            "timeout": spec.timeout,
        }

    async def run(self, watch: Watch, show: Show, spool: Spool | None) -> Outcome:
        """Make it."""
        if watch.observer is not None:
            origin = self.spec.url.origin
            watch.observer.requested(origin.host, origin.port or (80 if origin.scheme == "http" else 443))
        outcome = read_http(await self.primitive.send(self.spec))
        net = (address_of(self.spec),)
        return replace(outcome, enforced=Enforcement.in_server("any" if self.spec.follow_redirects else net))


@dataclass(frozen=True, slots=True)
class OtherJob:
    """The work of a primitive of another package with a configuration."""

    primitive: Any
    config: Mapping[str, Any] = field(repr=False)

    def shown(self) -> dict[str, Any]:
        """The names of its configuration; nobody here knows which values may be told."""
        return {
            "command": sorted(self.config),
            "environment": [],
            "cwd": None,
            "timeout": self.config.get("timeout"),
        }

    async def run(self, watch: Watch, show: Show, spool: Spool | None) -> Outcome:
        """Hand it over, and read what comes back: `success`, `error`, and everything as data."""
        begun = time.perf_counter()
        error: str | None = None
        data: Any = None
        try:
            data = await self.primitive.execute(self.config)
        except ToolExecutionError as exc:
            error = exc.message
        except Exception as exc:  # noqa: BLE001 - nobody knows what a class of another package raises
            error = f"expected a result of the primitive, found {type(exc).__name__}: {exc}"
        else:
            if getattr(data, "success", True) is False:
                error = str(getattr(data, "error", None) or "the primitive says that it failed")
        took = (time.perf_counter() - begun) * 1000
        failed = error is not None
        return Outcome(
            not failed,
            data,
            Exit("primitive"),
            took,
            code="tool_failed" if failed else None,
            error=error,
            metadata={"data_from": "body"},
        )


def address_of(spec: HttpSpec) -> str:
    """The host and the port that a request goes to."""
    origin = spec.url.origin
    return f"{origin.host}:{origin.port or _PORTS.get(origin.scheme, DEFAULT_PORT)}"


def _shown_live(on_output: OnOutput | None, show: Show) -> OnOutput | None:
    """Show a watcher the same paths as in the result; a path in two pieces stays as it is."""
    if on_output is None:
        return None

    def shown(stream: StreamName, data: bytes, offset: int) -> None:
        text = data.decode("utf-8", "surrogateescape")
        on_output(stream, show(text).encode("utf-8", "surrogateescape"), offset)

    return shown


def _plain_data(result: SubprocessResult) -> dict[str, Any]:
    """Return the result of a program as the primitive itself reports it."""
    return {"stdout": result.stdout, "stderr": result.stderr, "returncode": result.return_code}
