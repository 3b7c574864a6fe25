"""The turn of one call: whether it runs in an interpreter that waited, and the word for why it does not.

turn = warmth.turn(decision)
turn.settle(process, lockfile)       # the whole call is prepared: does it fit what waited?
result = await turn.run(call)        # None: it runs cold, and `turn.why` says why
warmth.over(turn, template)          # the next call finds one that waits
"""

from __future__ import annotations

import time
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
    ParkSpec,
    SubprocessPrimitive,
    SubprocessResult,
    ZygoteSpec,
)
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.bytecode import Background
from rye_mcp.executor.job.snapshot import Room, SnapshotStore
from rye_mcp.executor.warm.pool import Kind, Pool, Seat, Template
from rye_mcp.executor.warm.recipe import Lockfiles, Recipe, Slot, at_start, why_never
from rye_mcp.metadata import Warm

if TYPE_CHECKING:
    from rye_mcp.executor.decider import DecidedCall

__all__ = ["Confine", "Turn", "Warmth"]

_PER_TOOL: Final = frozenset({"cache", "temp"})
"""Directories that each tool has of its own, so that its interpreters are its own, too."""

Confine = Callable[[Room | None], Halves]
"""The process of a call, confined to another private directory than that of the call, or to none."""

PARK_S: Final = 60.0
"""How long something waits that was forked for a call that is there."""

_FORKED_FOR: Final = frozenset({"none_waiting", "memory"})
"""The words for why no interpreter waited for which one is forked for the call, if that can be."""


class Turn:
    """One call. `why` is None for one that runs warm."""

    def __init__(
        self,
        kind: Kind = None,
        warm: Warm | None = None,
        seat: Seat | None = None,
        why: str | None = None,
        pool: Pool | None = None,
        lockfiles: Lockfiles | None = None,
    ) -> None:
        self.kind = kind
        self.warm = warm
        self.why = why
        self.is_renewed = False
        self.recipe: Recipe | None = None
        self.process: Halves | None = None
        self._pool = pool
        self._lockfiles = lockfiles or Lockfiles()
        self._seat = seat
        self._given_up: Seat | None = None
        self._is_cold = False

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
        self.process, self.recipe = process, Recipe.of(process, self.warm)
        why = "lockfile" if self._lockfiles.has_changed(lockfile) else None
        if self._seat is not None:
            why = self._seat.recipe.why_not(self.recipe) or why
        if why is not None:
            self.is_renewed = True
            self._give_up(why)

    def refuse(self, why: str) -> None:
        """Run cold, as calls like this one always do: nothing waits for the next one either."""
        if self.warm is None:
            return
        self.warm = None
        self._give_up(why)

    async def run(self, call: CallSpec) -> SubprocessResult | None:
        """The outcome of the call in an interpreter that waited; None if it has to run cold."""
        if self._seat is None and self.why in _FORKED_FOR:
            self._seat = await self._forked()
        seat = self._seat
        if seat is None:
            self._goes_cold()
            return None
        slot = seat.slot
        if slot is not None:
            slot.busy_since = slot.busy_since or time.monotonic()
        try:
            result = await seat.parked.run(replace(call, env={**seat.missing, **call.env}))
        except NotParked as exc:
            self.why = "environment" if exc.code == "parked_environment" else "gone"
            self._goes_cold()
            return None
        except BaseException:
            self._spoil(slot)
            raise
        if result.kind != "exited":
            self._spoil(slot)
        self._seat = None
        self._return(slot)
        return result

    async def close(self) -> None:
        """Give up the interpreter that was not called."""
        for seat in (self._seat, self._given_up):
            if seat is not None:
                await seat.parked.end()
                self._return(seat.slot)
        self._seat = self._given_up = None
        if self._is_cold and self._pool is not None:
            self._is_cold = False
            self._pool.goes_cold(self.kind, -1)

    async def _forked(self) -> Seat | None:
        """What is forked for this call alone, as nothing waited; None if that can't be now."""
        pool, recipe, process = self._pool, self.recipe, self.process
        if pool is None or recipe is None or process is None:
            return None
        found = await pool.free(self.kind)
        if found is None:
            return None
        why = found.recipe.why_not(recipe, apart_from_paths=True)
        if why is not None:
            self.is_renewed, self.why = True, why
        if isinstance(found, Seat):
            self._seat = found
            if why is not None:
                self._give_up(why)
            else:
                self.why = None
            return self._seat
        if why is not None:
            self._return(found)
            return None
        found.busy_since = time.monotonic()
        try:
            seat = await forked(found, process, awaited=True)
        except BaseException as exc:
            self._spoil(found)
            self._return(found)
            if isinstance(exc, NotParked):
                self.why = "gone"
                return None
            raise
        self.why = None
        return seat

    def _goes_cold(self) -> None:
        if self._pool is not None and self.recipe is not None and not self._is_cold:
            self._is_cold = True
            self._pool.goes_cold(self.kind, 1)

    def _give_up(self, why: str) -> None:
        self.why = why
        if self._seat is not None:
            self._given_up, self._seat = self._seat, None

    def _spoil(self, slot: Slot | None) -> None:
        if slot is not None:
            slot.is_spoilt = True

    def _return(self, slot: Slot | None) -> None:
        if slot is not None and self._pool is not None:
            self._pool.returned(self.kind, slot)


async def forked(
    slot: Slot,
    process: Halves,
    *,
    room: Room | None = None,
    limit: float = PARK_S,
    awaited: bool = False,
) -> Seat:
    """What waits for a call, or is awaited by one, forked from this zygote; NotParked when that can't be."""
    call = process.call
    recipe = slot.recipe.parked(call.policy)  # before what it says is mounted
    parked = await slot.zygote.park(
        policy=call.policy, result_fd=call.result_fd, limit=limit, awaited=awaited
    )
    return Seat(parked, recipe, room, process.runtime.env, slot)


@dataclass(frozen=True, slots=True)
class _Template:
    """Parks interpreters for calls like one that was prepared."""

    primitive: SubprocessPrimitive
    snapshots: SnapshotStore
    warm: Warm
    process: Halves
    confine: Confine
    scratch: bool
    scripts: tuple[bytes, ...]

    @property
    def keep(self) -> int:
        return self.warm.keep

    @property
    def seconds(self) -> float:
        return self.warm.seconds

    @property
    def forks(self) -> bool:
        """Not in walls: what is forked there could have no private directory of its own."""
        return self.warm.prepare == "python" and not self.scratch

    async def zygote(self) -> Slot:
        def made() -> tuple[Halves, Recipe]:
            process = self.process if self._is_free else self.confine(None)
            return process, Recipe.of(process, self.warm)

        try:
            process, recipe = await off_loop(made)
        except RyeError as exc:
            raise NotParked(exc.message, code=exc.code) from exc
        spec = ZygoteSpec(
            runtime=at_start(process.runtime),
            preload=self.warm.preload,
            scripts=self.scripts,
            policy=process.call.policy,
        )
        return Slot(await self.primitive.zygote(spec), recipe)

    async def seat(self, slot: Slot | None) -> Seat:
        if slot is not None and self._is_free:
            return await forked(slot, self.process, limit=self.warm.seconds)
        if self._is_free:
            return await self._started(None, self.process)
        try:
            room, process = await off_loop(self._room)
        except RyeError as exc:
            raise NotParked(exc.message, code=exc.code) from exc
        try:
            if slot is not None:
                return await forked(slot, process, room=room, limit=self.warm.seconds)
            return await self._started(room, process)
        except BaseException:
            await off_loop(room.remove, shielded=True)
            raise

    @property
    def _is_free(self) -> bool:
        """Whether nothing confines the calls."""
        return self.process.call.policy is None

    def _room(self) -> tuple[Room, Halves]:
        """A private directory, and the process confined to it."""
        room = self.snapshots.prepare(scratch=self.scratch)
        try:
            return room, self.confine(room)
        except BaseException:
            room.remove()
            raise

    async def _started(self, room: Room | None, process: Halves) -> Seat:
        recipe = await off_loop(partial(Recipe.of, process, self.warm))
        spec = ParkSpec(
            runtime=process.runtime,
            policy=process.call.policy,
            result_fd=process.call.result_fd,
            language=self.warm.prepare,
            limit=self.warm.seconds,
        )
        return Seat(await self.primitive.park(spec), recipe, room)


class Warmth:
    """The warm calls of one executor; `why_cold` says why none may wait, if none may."""

    def __init__(
        self, snapshots: SnapshotStore, background: Background, why_cold: Callable[[], str | None]
    ) -> None:
        self._snapshots = snapshots
        self._why_cold = why_cold
        self._lockfiles = Lockfiles()
        self.pool = Pool(background)

    def turn(self, decision: DecidedCall) -> Turn:
        """The turn of a decided call."""
        elements = decision.chain.elements
        warm = elements[1].metadata.warm if len(elements) > 1 else None
        if warm is None:
            return Turn(why="not_offered")
        if (why := self._why_cold()) is not None:
            return Turn(why=why)
        kind = _kind(decision)
        taken = self.pool.take(kind)
        return Turn(kind, warm, taken.seat, taken.why, self.pool, self._lockfiles)

    def over(
        self,
        turn: Turn,
        primitive: SubprocessPrimitive,
        confine: Confine,
        *,
        scratch: bool,
        scripts: tuple[bytes, ...],
    ) -> None:
        """The call has ended: let others wait that are made as it was."""
        if turn.warm is None or turn.process is None:
            return
        if turn.is_renewed:
            self.pool.renew(turn.kind)
        template: Template = _Template(
            primitive, self._snapshots, turn.warm, turn.process, confine, scratch, scripts
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
