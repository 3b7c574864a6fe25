"""Processes that are started before their call is known, and wait for it.

A `Parked` process is confined and looked after like any other. It gets one call and ends. Its program reads
the call from `CALL_DESCRIPTOR`; interpreters of some languages get a program for that. The rules are in
docs/architecture/lilux.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from lilux._calls import Outcome
from lilux._dataclasses import dataclass
from lilux._policy import Enforced, Policy
from lilux._process import CallSpec, Halves, ProcessSpec, RuntimeSpec, request_of
from lilux._supervisor import Supervisor
from lilux._waiting import Waiting
from lilux.primitives.errors import ConfigurationError, SupervisorError, ToolExecutionError

__all__ = ["CALL_DESCRIPTOR", "NotParked", "ParkSpec", "Parked"]

CALL_DESCRIPTOR: Final = 20
"""Where a parked process reads its call."""

PARK_LIMIT_S: Final = 600.0
"""How long a process is parked unless something else is said."""

_BEGIN: Final = 'import sys; exec(compile(sys.argv[1], "<lilux>", "exec"), {"__name__": "lilux"})'

Language = Literal["python", "node"]

_FOR_THE_LOADER: Final = ("LD_", "GLIBC_", "MALLOC_")
_FOR_THE_LANGUAGE: Final[Mapping[Language, tuple[str, ...]]] = {
    "python": ("PYTHON",),
    "node": ("NODE_", "ICU_", "UV_", "OPENSSL_", "SSL_"),
}
"""Variables that begin so are read when an interpreter starts, and not again."""

_READ_LATER: Final = frozenset(
    ["PYTHONPATH", "PYTHONBREAKPOINT", "PYTHONASYNCIODEBUG", "PYTHONSTARTUP", "NODE_PATH"]
)
"""Of these, the ones that a waiting interpreter takes from its call."""

_FOR_THE_LOCALE: Final = frozenset(["LANG", "LC_ALL", "LC_CTYPE"])
"""Read at the start as well, unless UTF-8 is prescribed."""

R = TypeVar("R")


class NotParked(ToolExecutionError):  # noqa: N818 - its catcher starts the process for its call
    """Nothing is waiting, or no longer; no part of the call was started. `code` says why.

    It is one of the supervisor's for `spawn_failed` when it could not be started; `parked_gone` when it has
    ended before its call came; `parked_environment` when the call has variables that an interpreter reads
    when it starts.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkSpec:
    """The half of a process that is known before its call, and how it waits.

    It is started in `cwd` with exactly the environment of its runtime, and confined as `policy` says. With
    a `language`, the runtime is an interpreter of it with options only, and what it waits with is added.
    `limit` is how many seconds it may wait; then it is ended. If a call has to wait for it, it is `awaited`:
    what is forked from a zygote does not rehearse its call then.
    """

    runtime: RuntimeSpec
    cwd: str | os.PathLike[str] = os.sep
    policy: Policy | None = None
    result_fd: bool = False
    descriptors: Mapping[int, int] = field(default_factory=dict)
    language: Language | None = None
    limit: float = PARK_LIMIT_S
    awaited: bool = False

    def process(self) -> ProcessSpec:
        """The process that is started."""
        runtime = self.runtime
        args = [*runtime.args, *_waits_with(self.language)]
        call = CallSpec(
            cwd=self.cwd,
            timeout=None,
            policy=self.policy,
            result_fd=self.result_fd,
            descriptors=self.descriptors,
        )
        started = RuntimeSpec(
            command=runtime.command, args=args, env=runtime.env, search_path=runtime.search_path
        )
        return Halves(started, call).whole()

    def refuse(self, call: CallSpec) -> None:
        """Refuse a call that is not one for what was parked."""
        for name in ("policy", "result_fd", "descriptors"):
            if getattr(call, name) != getattr(self, name):
                raise ConfigurationError(f"expected the {name} that it was parked with, found another", name)
        if call.observe is not None:
            raise ConfigurationError("expected no observation of a process that was parked", "observe")
        if self.language is not None:
            self._refuse_environment(call.env, self.language)

    def _refuse_environment(self, added: Mapping[str, str], language: Language) -> None:
        started = self.runtime.env
        beginnings = (*_FOR_THE_LOADER, *_FOR_THE_LANGUAGE[language])
        has_locale = language == "python" and (started.get("PYTHONUTF8") == "1" or "-X" in self.runtime.args)
        for name, value in added.items():
            fixed = name.startswith(beginnings) and name not in _READ_LATER
            if (fixed or (name in _FOR_THE_LOCALE and not has_locale)) and started.get(name) != value:
                raise NotParked(
                    f"expected {name} as it was when the interpreter was started", code="parked_environment"
                )


class Parked(Generic[R]):
    """A process that waits for its one call."""

    def __init__(
        self,
        supervisor: Supervisor,
        waiting: Waiting,
        spec: ParkSpec,
        read: Callable[[Outcome, float | None], R],
    ) -> None:
        parked = waiting.parked
        if parked is None or not waiting.is_parked:
            raise not_started(waiting)
        self.pid: int = parked.pid
        self.enforced: Enforced | None = parked.enforced
        self._supervisor = supervisor
        self._waiting = waiting
        self._spec = spec
        self._read = read
        self._is_given_up = False

    @property
    def is_waiting(self) -> bool:
        """Whether it can still get its call."""
        return self._waiting.is_parked and not self._is_given_up

    async def run(self, call: CallSpec) -> R:
        """Give it its call, and wait for the end. NotParked if it is gone, or was started for other calls."""
        self._spec.refuse(call)
        request = request_of(Halves(self._spec.runtime, call).whole(env=call.env, args=call.args))
        if not self.is_waiting:
            raise _gone()
        outcome = await self._supervisor.call(
            self._waiting, request, call.input, on_output=call.on_output, on_started=call.on_started
        )
        if outcome.result.parked:
            raise _gone()
        return self._read(outcome, call.timeout)

    async def ended(self) -> None:
        """Wait until it has ended, called or not."""
        await self._waiting.done.wait()

    async def end(self) -> None:
        """End it, called or not, and wait until it is gone."""
        self._is_given_up = True
        if not self._waiting.done.is_set():
            await self._supervisor.discard(self._waiting)


def waiter(*words: str) -> list[str]:
    """The arguments of a Python interpreter that is to wait.

    What it does is passed as text: a confined interpreter may not see this package.
    """
    return ["-c", _BEGIN, _program("_waiter.py"), *words]


def _waits_with(language: Language | None) -> list[str]:
    if language == "node":
        return ["-e", _program("_waiter.cjs"), "call"]
    return waiter("call") if language == "python" else []


@cache
def _program(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def not_started(waiting: Waiting) -> NotParked:
    """Why something does not wait."""
    if isinstance(waiting.error, SupervisorError):
        return NotParked(waiting.error.message, code=waiting.error.code)
    failure = waiting.outcome().result.error
    if failure is None:
        return _gone()
    return NotParked(failure.message, code=failure.code)


def _gone() -> NotParked:
    return NotParked("the process that waited for this call has ended before", code="parked_gone")
