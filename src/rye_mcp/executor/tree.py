"""The calls that a run makes, as a tree: which run asks, what it may call, and what all of them share.

A `Program` is a run whose signed file names tools in `permissions.calls`. It counts its own calls and those
of all programs below it, so that no program gets more by calling another one. The rules are in
docs/architecture/inside.md.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.lock.agreement import mark_of
from rye_mcp.permissions import Permissions, allows_call, sentence

if TYPE_CHECKING:
    from rye_mcp.executor.caller import Caller
    from rye_mcp.executor.decider import DecidedCall

__all__ = [
    "CALL_COMMAND",
    "CALL_DESCRIPTOR",
    "DEFAULT_CALLS",
    "MAX_AT_ONCE",
    "MAX_CALL_DEPTH",
    "MAX_OUTPUT_BYTES",
    "InnerCall",
    "OnCall",
    "OpenInside",
    "Program",
    "ProgramInterrupted",
    "require_within_approval",
]

CALL_DESCRIPTOR: Final = 5
"""Where a program asks for calls; the value of `RYE_CALL_FD`."""

CALL_COMMAND: Final = "rye"
"""The command by which a program in any language asks: `rye call ID --name value`."""

MAX_CALL_DEPTH: Final = 8
"""How many programs may be above a call."""

DEFAULT_CALLS: Final = 50
"""How many calls a program may make that does not say it in `limits`."""

MAX_AT_ONCE: Final = 128
"""How many calls of one tree may be unfinished at a time."""

MAX_OUTPUT_BYTES: Final = 64 << 20
"""How long all answers to one tree of calls may be together: 64 MiB."""


class ProgramInterrupted(Exception):  # noqa: N818 - nothing is wrong
    """Ends a program and all above it: what it called has to wait for an answer from outside."""


@dataclass(frozen=True, slots=True)
class InnerCall:
    """One call of a program: its key, which no other call of a tree has, and how often it was made before."""

    key: str
    times: int


class _Shared:
    """The state that all programs of one tree share."""

    def __init__(self) -> None:
        self.unfinished = 0
        self.answered_bytes = 0


class Program:
    """A run that may call. `above` is the program that called it, None for the outermost one."""

    def __init__(
        self,
        *,
        run_id: str,
        item_id: str,
        calls: frozenset[str],
        limit: int,
        approval: Permissions,
        caller: Caller,
        deadline: float | None,
        identity: Callable[[], str],
    ) -> None:
        above = caller.program
        self.run_id = run_id
        self.item_id = item_id
        self.calls = calls
        self.caller = caller
        self.above = above
        self.approval: Permissions = approval if above is None else above.approval.meet(approval)
        deadlines = [
            each for each in (deadline, None if above is None else above.deadline) if each is not None
        ]
        self.deadline: float | None = min(deadlines, default=None)
        self.depth: int = 1 if above is None else above.depth + 1
        self.made = 0
        self._limit = limit
        self._begun = 0
        self._identity = identity
        self._made_before: Counter[str] = Counter()
        self._under_way = 0
        self._stopped = 0
        self._went_on: anyio.Event | None = None
        self._shared: _Shared = _Shared() if above is None else above._shared

    @classmethod
    def of(
        cls, decided: DecidedCall, run_id: str, timeout: float | None, *, project: Path | None = None
    ) -> Program:
        """The program of a run that is about to begin in a project."""
        limits = decided.chain.root.metadata.limits or {}
        return cls(
            run_id=run_id,
            item_id=decided.chain.root.item_id,
            calls=decided.calls,
            limit=limits.get("calls", DEFAULT_CALLS),
            approval=decided.approval,
            caller=decided.caller,
            deadline=None if timeout is None else time.monotonic() + timeout,
            identity=partial(_identity_of, decided, project),
        )

    @cached_property
    def key(self) -> str:
        """What this run is: its bytes, permissions, parameters and project, and the call that began it."""
        return _digest(self._identity(), self.caller.call)

    def call_of(self, item_id: str, parameters: Mapping[str, Any]) -> InnerCall:
        """One call that this program makes now."""
        same = _digest(self.key, item_id, parameters)
        times, self._made_before[same] = self._made_before[same], self._made_before[same] + 1
        return InnerCall(_digest(same, times), times)

    @property
    def outermost(self) -> Program:
        """The program that was called from outside."""
        return list(self._upward())[-1]

    def begun_one(self) -> int:
        """One call more has begun; which one it is, among all of this program and of those below it."""
        self._begun += 1
        return self._begun

    @property
    def path(self) -> tuple[str, ...]:
        """The programs from the outermost one to this one."""
        return tuple(each.item_id for each in reversed([*self._upward()]))

    def count(self, what: str) -> None:
        """One call more, of this program and of all above it; RyeError when that is too many."""
        for each in self._upward():
            if each.made >= each._limit:
                found = f"expected at most {each._limit} calls by {each.item_id}, found one more: {what}"
                hint = f"call less, or a person writes limits: {{calls: N}} into {each.item_id} and signs it"
                raise RyeError("too_many_calls", found, item_id=each.item_id, hint=hint)
        for each in self._upward():
            each.made += 1

    def begin(self, what: str) -> None:
        """A call is under way; RyeError when there are too many at once. `end` ends it."""
        if self._shared.unfinished >= MAX_AT_ONCE:
            found = f"expected at most {MAX_AT_ONCE} unfinished calls, found one more: {what}"
            raise RyeError("too_many_calls_at_once", found, item_id=self.item_id)
        self._shared.unfinished += 1
        self._under_way += 1

    def end(self) -> None:
        """A call has ended."""
        self._shared.unfinished -= 1
        self._under_way -= 1
        self._tell()

    async def hold(self) -> None:
        """Wait for ever, once a person has to be asked: the program is ended then."""
        if self._stopped:
            await anyio.sleep_forever()

    async def stop(self) -> None:
        """A person has to be asked about a call: no other one begins, and those under way end first."""
        self._stopped += 1
        self._tell()
        while self._under_way > self._stopped:
            self._went_on = self._went_on or anyio.Event()
            await self._went_on.wait()

    def _tell(self) -> None:
        """Let calls that wait for the others look again."""
        if self._went_on is not None:
            self._went_on.set()
            self._went_on = None

    def answer(self, size: int) -> None:
        """Count the bytes of an answer; RyeError if all answers together would be too long."""
        if self._shared.answered_bytes + size > MAX_OUTPUT_BYTES:
            found = f"expected at most {MAX_OUTPUT_BYTES} bytes in all answers, found more"
            raise RyeError("answers_too_long", found, item_id=self.item_id)
        self._shared.answered_bytes += size

    def require_callable(self, item_id: str) -> None:
        """RyeError when its signed file does not name this tool, or too many programs are above."""
        if not allows_call(self.calls, item_id):
            named = ", ".join(sorted(self.calls))
            found = f"({named}), found {item_id!r:.200}"
            what = f"expected {self.item_id} to call what its signed file names {found}"
            hint = f"a person writes it into permissions.calls of {self.item_id}, and signs it"
            raise RyeError("call_not_allowed", what, hint=hint, item_id=self.item_id, called=item_id)
        if self.depth > MAX_CALL_DEPTH:
            way = " → ".join((*self.path, item_id))
            what = f"expected at most {MAX_CALL_DEPTH} programs above a call, found more: {way}"
            raise RyeError("calls_too_deep", what, item_id=self.item_id)

    def time_left(self, asked: float | None) -> float | None:
        """The seconds left for a call; RyeError when the time is over."""
        if self.deadline is None:
            return asked
        left = self.deadline - time.monotonic()
        if left <= 0:
            what = f"expected a call before the time of {self.path[0]} is over, found one after it"
            raise RyeError("timeout", what, item_id=self.item_id)
        return left if asked is None else min(asked, left)

    def _upward(self) -> Iterator[Program]:
        each: Program | None = self
        while each is not None:
            yield each
            each = each.above


def _identity_of(decided: DecidedCall, project: Path | None) -> str:
    return _digest(mark_of(decided.valid, decided.permissions), decided.parameters.values, str(project))


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=dict).encode()).hexdigest()


def require_within_approval(decided: DecidedCall) -> None:
    """RyeError `call_not_allowed` when a run calls a tool that may do more than was agreed to for the run."""
    program = decided.caller.program
    if program is None or program.approval.unconfined:
        return
    beyond = decided.asked_for.beyond(program.approval)
    if beyond == Permissions():
        return
    item_id = decided.chain.root.item_id
    what = (
        f"expected {program.path[0]} to call tools that do no more than was agreed for it "
        f"({sentence(program.approval)}), found {item_id}, which {sentence(beyond)}"
    )
    hint = f"a person who has read {program.item_id} signs it: rye sign {program.item_id}"
    raise RyeError("call_not_allowed", what, hint=hint, item_id=program.item_id, called=item_id)


OnCall = Callable[[int, int, str], None]
"""Called when a call begins, with its number, the number of calls so far, and its tool."""

OpenInside = Callable[[Program, OnCall | None], AbstractAsyncContextManager[int]]
"""Opens the descriptor through which a program asks for calls, as long as the program runs."""
