"""The turn of one call: whether it runs in an interpreter that waited, and the word for why it does not.

turn = warmth.turn(decision)
turn.settle(process, lockfile)       # the whole call is prepared: does it fit what waited?
result = await turn.run(call)        # None: it runs cold, and `turn.why` says why
warmth.over(turn, template)          # the next call finds one that waits
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import (
    CallSpec,
    Halves,
    NotParked,
    SubprocessPrimitive,
    SubprocessResult,
)
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.bytecode import Background
from rye_mcp.executor.job.snapshot import Room, SnapshotStore
from rye_mcp.executor.warm.pool import BUSY, Kind, Pool, Seat, Slot, Template
from rye_mcp.executor.warm.recipe import Recipe, why_never
from rye_mcp.executor.warm.zygotes import Forked, forked, started
from rye_mcp.metadata import Warm

if TYPE_CHECKING:
    from rye_mcp.executor.decider import DecidedCall

__all__ = ["Confine", "Turn", "Warmth"]

_logger = logging.getLogger(__name__)

_PER_TOOL: Final = frozenset({"cache", "temp"})
"""Directories that each tool has of its own, so that its interpreters are its own, too."""

Confine = Callable[[Room], Halves]
"""The process of a call, confined to another private directory than that of the call."""


class Turn:
    """One call. `why` is None for one that runs warm."""

    def __init__(
        self, kind: Kind = None, warm: Warm | None = None, seat: Seat | None = None, why: str | None = None
    ) -> None:
        self.kind = kind
        self.warm = warm
        self.why = why
        self.is_renewed = False
        self.recipe: Recipe | None = None
        self._seat = seat
        self._given_up: Seat | None = None

    @property
    def room(self) -> Room | None:
        """The private directory that the interpreter was confined to."""
        seat = self._seat or self._given_up
        return None if seat is None or not isinstance(seat.room, Room) else seat.room

    def settle(self, process: Halves, lockfile: Path | None) -> None:
        """Give the interpreter up if it was not made of what this call is made of. Looks at files."""
        if self.warm is None:
            return
        never = why_never(process)
        if never is not None:
            self.refuse(never)
            return
        self.recipe = Recipe.of(process, self.warm, lockfile)
        if self._seat is not None and (why := self._seat.recipe.why_not(self.recipe)) is not None:
            self.is_renewed = True
            self._give_up(why)

    def refuse(self, why: str) -> None:
        """Run cold, as calls like this one always do: nothing waits for the next one either."""
        if self.warm is None:
            return
        self.warm = None
        self._give_up(why)

    async def run(self, call: CallSpec) -> SubprocessResult | None:
        """The outcome of the call in the interpreter that waited; None if it has to run cold."""
        seat, self._seat = self._seat, None
        if seat is None:
            return None
        try:
            result = await seat.parked.run(replace(call, env={**seat.missing, **call.env}))
        except NotParked as exc:
            self.why = "environment" if exc.code == "parked_environment" else "gone"
            return None
        if seat.slot is not None and result.kind != "exited":
            seat.slot.crashed = True
        return result

    async def close(self) -> None:
        """Give up the interpreter that was not called."""
        for seat in (self._seat, self._given_up):
            if seat is not None:
                await seat.parked.end()
        self._seat = self._given_up = None

    def _give_up(self, why: str) -> None:
        self.why = why
        if self._seat is not None:
            self._given_up, self._seat = self._seat, None


@dataclass(frozen=True, slots=True)
class _Template:
    """Parks interpreters for calls like one that was prepared."""

    primitive: SubprocessPrimitive
    snapshots: SnapshotStore
    warm: Warm
    lockfile: Path | None
    confine: Confine
    scratch: bool
    scripts: tuple[bytes, ...]

    @property
    def keep(self) -> int:
        return self.warm.keep

    @property
    def seconds(self) -> float:
        return self.warm.seconds

    async def seat(self, slots: list[Slot]) -> Seat:
        """One more seat; NotParked if there can't be one."""
        try:
            room = await off_loop(partial(self.snapshots.prepare, scratch=self.scratch))
        except RyeError as exc:
            raise NotParked(exc.message, code=exc.code) from exc
        try:
            process = await off_loop(partial(self.confine, room))
            recipe = await off_loop(partial(Recipe.of, process, self.warm, self.lockfile))
            found = await self._waits(process, recipe, slots)
        except BaseException as exc:
            await off_loop(room.remove, shielded=True)
            if isinstance(exc, RyeError):
                raise NotParked(exc.message, code=exc.code) from exc
            raise
        return Seat(found.parked, room, recipe, found.missing, found.slot)

    async def _waits(self, process: Halves, recipe: Recipe, slots: list[Slot]) -> Forked:
        """An interpreter that waits: forked where everything else allows it, started otherwise."""
        if process.call.policy is not None:  # what is forked has no cell, no broker and no walls of its own
            return await started(self.primitive, process, limit=self.warm.seconds)
        try:
            return await forked(
                self.primitive,
                process,
                recipe,
                slots,
                self.scripts,
                keep=self.warm.keep,
                limit=self.warm.seconds,
            )
        except NotParked as exc:
            if exc.code == BUSY:
                raise
            _logger.info("an interpreter is started, as none could be forked: %s: %s", exc.code, exc.message)
        return await started(self.primitive, process, limit=self.warm.seconds)


class Warmth:
    """The warm calls of one executor; `allowed` says whether the user and the project let any wait."""

    def __init__(self, snapshots: SnapshotStore, background: Background, allowed: Callable[[], bool]) -> None:
        self._snapshots = snapshots
        self._allowed = allowed
        self.pool = Pool(background)

    def turn(self, decision: DecidedCall) -> Turn:
        """The turn of a decided call."""
        elements = decision.chain.elements
        warm = elements[1].metadata.warm if len(elements) > 1 else None
        if warm is None:
            return Turn(why="not_offered")
        if not self._allowed():
            return Turn(why="off")
        kind = _kind(decision)
        taken = self.pool.take(kind)
        return Turn(kind, warm, taken.seat, taken.why)

    def over(
        self,
        turn: Turn,
        primitive: SubprocessPrimitive,
        confine: Confine,
        *,
        scratch: bool,
        lockfile: Path | None,
        scripts: tuple[bytes, ...],
    ) -> None:
        """The call has ended: let others wait that are made as it was."""
        if turn.warm is None or turn.recipe is None:
            return
        if turn.is_renewed:
            self.pool.renew(turn.kind)
        template: Template = _Template(
            primitive, self._snapshots, turn.warm, lockfile, confine, scratch, scripts
        )
        self.pool.used(turn.kind, template)

    async def close(self) -> None:
        """End everything that waits in this event loop."""
        await self.pool.close()


def _kind(decision: DecidedCall) -> Kind:
    """Return the kind of a call: one interpreter may wait for all calls of a kind."""
    verified, permissions = decision.verified, decision.permissions
    runtimes = tuple((item.file.item_id, item.digest) for item in verified.items[1:])
    metadata = verified.chain.root.metadata
    is_special = metadata.env_config is not None or bool(permissions.uses & _PER_TOOL)
    own = (verified.root.file.item_id, verified.root.digest) if is_special else None
    return runtimes, permissions, decision.permitted_env, own, str(verified.root.signer.kind)
