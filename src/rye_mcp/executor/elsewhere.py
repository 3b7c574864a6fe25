"""A decided call that runs on another machine: what the executor asks of an engine, and what comes of it.

The executor knows no keys and no wires: `rye_mcp.nodes` has both, and `app` puts the two together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from lilux._dataclasses import dataclass
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.configuration.builder import longest_run
from rye_mcp.executor.decider import DecidedCall
from rye_mcp.executor.job.jobs import Watch
from rye_mcp.executor.job.outcomes import Exit, Outcome
from rye_mcp.executor.logged_call import LoggedCall
from rye_mcp.executor.results import ExecutionResult, Node
from rye_mcp.executor.workspace import NEVER_SEALED, ProjectTree
from rye_mcp.notices import Notice

__all__ = [
    "ON_NODE",
    "Answer",
    "Engine",
    "Engines",
    "Place",
    "Placed",
    "Reach",
    "on_node",
    "retried",
    "run_elsewhere",
]


ON_NODE: Final = "on the node: "
"""How begins what a node says in words, so that nobody takes it for words of this machine."""


def on_node(notice: Notice) -> Notice:
    """The notice of a node, which says that it is one."""
    return Notice(notice.code, f"{ON_NODE}{notice.message}")


class Answer(Protocol):
    """What came of a run elsewhere."""

    @property
    def outcome(self) -> Outcome:
        """How it ended."""

    @property
    def run_id(self) -> str:
        """The run in the log of the node."""

    @property
    def receipt(self) -> str | None:
        """The digest of its receipt there."""

    @property
    def sealed(self) -> bool:
        """Whether nothing but what was verified could run there."""


class Engine(Protocol):
    """A worker that is there, to which one call can be sent."""

    @property
    def node(self) -> Node:
        """Who it is."""

    async def run(
        self, bundle: bytes, run_id: str, watch: Watch, *, limit_s: float, tree: ProjectTree | None
    ) -> Answer:
        """Send a call, with the files that it works on, and wait; RyeError `lost` if it may have run.

        `node_overdue` if it has not ended long after `limit_s`, the longest that its run may take.
        """


Reach = Callable[[Callable[[str], None]], AbstractAsyncContextManager[Engine]]
"""Finds the worker of an engine, or starts one, for one call; RyeError when nobody is there.

What it is given hears, in words, where the call waits, and where it then is.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The engine that a call runs on: its name, where it leads in words, and how to reach it."""

    engine: str
    leads_to: str
    reach: Reach


class Engines(Protocol):
    """The engines of this user."""

    async def fitting(self, decided: DecidedCall) -> Place | None:
        """The one that a call runs on, which is not asked yet; None where it runs here.

        RyeError `no_fitting_node` for a tool that runs elsewhere or not at all.
        """

    async def close(self) -> None:
        """End every worker that was started in this event loop."""


class Placed(Exception):  # noqa: N818 - nothing is wrong
    """Says that a call that was decided does not run here."""

    def __init__(self, decided: DecidedCall, place: Place) -> None:
        super().__init__(decided.chain.root.item_id)
        self.decided = decided
        self.place = place


def retried(lost: ExecutionResult) -> Notice:
    """The notice that a tool runs again because the result of its first run was lost."""
    return Notice("retried", f"the run {lost.run_id} was lost, and the tool may run again: {lost.error}")


async def run_elsewhere(
    placed: Placed,
    logged: LoggedCall,
    watch: Watch,
    *,
    noticed: tuple[Notice, ...],
    tree: ProjectTree | None,
    lock: Callable[[], object],
) -> ExecutionResult:
    """What comes of a call on an engine; RyeError when nobody is there, or for what the node refuses.

    `tree` has the files of the project that travel with it. What went well is locked by `lock`.
    """
    async with placed.place.reach(watch.on_placing or _silent) as engine:
        return await _run(placed.decided, engine, logged, watch, noticed, tree, lock)


async def _run(
    decided: DecidedCall,
    engine: Engine,
    logged: LoggedCall,
    watch: Watch,
    noticed: tuple[Notice, ...],
    tree: ProjectTree | None,
    lock: Callable[[], object],
) -> ExecutionResult:
    def begin() -> tuple[bytes, float, tuple[Notice, ...]]:
        limit_s = longest_run(decided.chain, decided.timeout)
        return decided.bundle().to_bytes(), limit_s, logged.began_elsewhere(decided, engine.node)

    bundle, limit_s, began = await off_loop(begin)
    begun = time.perf_counter()
    if watch.on_begun is not None:
        watch.on_begun(logged.run_id)
    try:
        answer = await engine.run(bundle, logged.run_id, watch, limit_s=limit_s, tree=tree)
    except RyeError as exc:
        if not exc.details.get("sent"):
            await off_loop(partial(logged.refused, exc), shielded=True)
            exc.receipt = logged.receipt
            raise
        outcome = _unknown(exc, (time.perf_counter() - begun) * 1000)
        node, sealed = engine.node, False
    except BaseException:
        await off_loop(logged.given_up, shielded=True)
        raise
    else:
        outcome, sealed = answer.outcome, answer.sealed
        node = replace(engine.node, run_id=answer.run_id, receipt=answer.receipt)

    def end() -> tuple[Notice, ...]:
        said = logged.ended_elsewhere(outcome, node, sealed=sealed)
        if outcome.success:
            lock()
        return said

    ended = await off_loop(end, shielded=True)
    said = frozenset(outcome.notices)
    own = (each for each in decided.notices if on_node(each) not in said)
    left_out = () if tree is None else tree.notices
    return ExecutionResult.of(
        outcome,
        item_id=decided.chain.root.item_id,
        run_id=logged.run_id,
        receipt=logged.receipt,
        chain=decided.pinned.as_data(),
        sealed=sealed,
        notices=(*own, *noticed, *left_out, *began, *ended),
        metadata={"why_not_sealed": NEVER_SEALED} if decided.works_on_files else {},
        lock=decided.pinned.lock.as_dict(),
        node=node,
    )


def _silent(_news: str) -> None:
    """Nobody listens."""


def _unknown(error: RyeError, duration_ms: float) -> Outcome:
    """What is known of a run whose node does not say what came of it."""
    until = error.details.get("may_run_until")
    return Outcome(
        success=False,
        data=None,
        exit=Exit("lost"),
        duration_ms=duration_ms,
        code=error.code,
        error=error.message,
        hint=error.hint,
        metadata={} if until is None else {"may_run_until": until},
    )
