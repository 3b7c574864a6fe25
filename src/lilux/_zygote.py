"""Python interpreters that are forked from a prepared one, a zygote, instead of being started.

A zygote is a run that waits to be forked. It looks after nothing: what is forked from it, one at a time, is a
child of its keeper. The rules are in docs/architecture/lilux.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from msgspec import structs

from lilux._calls import Outcome
from lilux._dataclasses import dataclass
from lilux._parking import PARK_LIMIT_S, NotParked, Parked, ParkSpec, R, not_started, waiter
from lilux._policy import Enforced, Policy
from lilux._process import CallSpec, Halves, ProcessSpec, RuntimeSpec, milliseconds, request_of
from lilux._protocol import Parked as ParkedEvent
from lilux._protocol import RunRequest
from lilux._supervisor import Supervisor
from lilux._waiting import Waiting

__all__ = ["Zygote", "ZygoteFacts", "ZygoteSpec"]

ZYGOTE_LIMIT_S = 3600.0
"""How long a zygote lives at most."""

SLOW_FORK_MS = 20.0
"""After a fork that took longer, it is measured how long the zygote has had a processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteSpec:
    """A Python interpreter with options only, and what it has ready for those that are forked from it.

    `preload` are modules that it imports; they do so under `policy`, which everything that is forked shares.
    `scripts` are sources whose code it has ready: a call that runs a file of these bytes need not compile it.
    It holds nothing of a call, so its environment should be empty, but for what interpreters are set up with.
    """

    runtime: RuntimeSpec
    preload: Sequence[str] = ()
    scripts: Sequence[bytes] = ()
    policy: Policy | None = None
    limit: float = ZYGOTE_LIMIT_S

    def process(self) -> ProcessSpec:
        """The process that is started."""
        ready = {"preload": list(self.preload), "scripts": [each.decode() for each in self.scripts]}
        runtime = self.runtime
        args = [*runtime.args, *waiter("zygote", json.dumps(ready))]
        call = CallSpec(cwd="/", timeout=None, policy=self.policy)
        started = RuntimeSpec(
            command=runtime.command, args=args, env=runtime.env, search_path=runtime.search_path
        )
        return Halves(started, call).whole()


@dataclass(frozen=True, slots=True)
class ZygoteFacts:
    """How a zygote is doing, for deciding when to replace it.

    `memory_kb` is what it took when it was last measured (proportional set size), which is every 64 forks.
    `last_fork_ms` is how long the last fork took until it was parked. On a busy machine, that says little of
    the zygote; `processor_ms`, how long it has had a processor since it was ready, does. It is measured after
    a fork that took longer than `SLOW_FORK_MS`.
    """

    pid: int
    started_at: float
    forks: int
    memory_kb: int
    memory_at_start_kb: int
    last_fork_ms: float | None
    processor_ms: float = 0.0


class Zygote(Generic[R]):
    """A prepared interpreter, from which one process after the other is forked."""

    def __init__(
        self,
        supervisor: Supervisor,
        waiting: Waiting,
        spec: ZygoteSpec,
        read: Callable[[Outcome, float | None], R],
    ) -> None:
        parked = waiting.parked
        if parked is None or not waiting.is_parked:
            raise _not_ready(waiting)
        self.enforced: Enforced | None = parked.enforced
        memory = parked.memory_kb or 0
        self._facts = ZygoteFacts(parked.pid, time.monotonic(), 0, memory, memory, None)
        self._had_at_start = _processor_ms(parked.pid)
        self._supervisor = supervisor
        self._waiting = waiting
        self._spec = spec
        self._read = read
        self._forked: Parked[R] | None = None

    @property
    def facts(self) -> ZygoteFacts:
        """How it is doing."""
        return self._facts

    @property
    def is_alive(self) -> bool:
        """Whether it can be forked, now or when what was forked before has ended."""
        return not self._waiting.done.is_set()

    async def park(
        self,
        *,
        policy: Policy | None = None,
        result_fd: bool = False,
        descriptors: Mapping[int, int] | None = None,
        limit: float = PARK_LIMIT_S,
        awaited: bool = False,
    ) -> Parked[R]:
        """Fork what waits for a call. NotParked `zygote_busy` until what was forked before has ended.

        In a cell it gets one of its own; its policy may differ from that of the zygote in what it sees.
        """
        if not self.is_alive:
            raise NotParked("the zygote has ended", code="zygote_lost")
        spec = ParkSpec(
            runtime=self._spec.runtime,
            policy=policy,
            result_fd=result_fd,
            descriptors=descriptors or {},
            language="python",
            limit=limit,
            awaited=awaited,
        )
        begun = time.monotonic()
        waiting = await self._supervisor.park(self._request(spec))
        self._forked = Parked(self._supervisor, waiting, spec, self._read)
        self._count(waiting.parked, (time.monotonic() - begun) * 1000)
        return self._forked

    async def close(self) -> None:
        """End it. What waits for a call is ended with it, what has one comes to its own end before."""
        forked = self._forked
        if forked is not None and forked.is_waiting:
            await forked.end()
        elif forked is not None:
            await forked.ended()
        if self.is_alive:
            await self._supervisor.discard(self._waiting)

    def _count(self, parked: ParkedEvent | None, took_ms: float) -> None:
        """One more fork."""
        facts = self._facts
        had_ms = facts.processor_ms
        if took_ms > SLOW_FORK_MS:
            had_ms = max(0.0, _processor_ms(facts.pid) - self._had_at_start)
        memory_kb = (parked and parked.memory_kb) or facts.memory_kb
        self._facts = replace(
            facts, forks=facts.forks + 1, memory_kb=memory_kb, last_fork_ms=took_ms, processor_ms=had_ms
        )

    def _request(self, spec: ParkSpec) -> RunRequest:
        call = CallSpec(
            timeout=None, policy=spec.policy, result_fd=spec.result_fd, descriptors=spec.descriptors, cwd="/"
        )
        request = request_of(Halves(RuntimeSpec(command="python"), call).whole())
        limit = milliseconds("limit", spec.limit)
        return structs.replace(
            request, park_limit_ms=limit, park_awaited=spec.awaited, zygote=self._waiting.id
        )


def zygote_request(spec: ZygoteSpec) -> RunRequest:
    """Return the request that asks the supervisor to start one."""
    limit = milliseconds("limit", spec.limit)
    return structs.replace(request_of(spec.process()), park_limit_ms=limit, prepare=True)


def _processor_ms(pid: int) -> float:
    """How long a process has had a processor so far; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123 - in each fork
            return int(file.read().split()[0]) / 1e6
    except (OSError, ValueError, IndexError):
        return 0.0


def _not_ready(waiting: Waiting) -> NotParked:
    """Why there is no zygote, with what it has said about that itself."""
    reason = not_started(waiting)
    if waiting.error is not None or reason.code != "parked_gone":
        return reason
    said = waiting.outcome().streams["stderr"].decode(errors="replace").strip()
    return NotParked(f"expected a zygote, found its end: {said[-2000:]}", code="zygote_failed")
