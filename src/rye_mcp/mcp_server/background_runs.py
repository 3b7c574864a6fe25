"""Runs that nobody waits for: one call begins a run, others follow or end it by its id.

A run belongs to the server that began it, and ends with the first transport that is open. The call that
begins a run hears of a refusal at once, and gets the run id when the tool really runs. Ids cannot be guessed.
Workers with one key follow and end the runs of each other (`RunBoard`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from lilux._dataclasses import dataclass
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.logs import facts_of

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from rye_mcp.executor.primitive_executor import Watch
    from rye_mcp.runs.board import BoardRow, RunBoard

__all__ = ["MAX_KEPT", "MAX_RUNNING", "BackgroundRuns"]

MAX_RUNNING: Final = 64
"""How many runs may go on that nobody waits for."""

MAX_KEPT: Final = 256
"""Of how many runs the answer is kept."""

LOOK_EVERY_S: Final = 0.2
"""How often a run is written down for other workers, which then may be so late."""

TAIL_BYTES: Final = 4096
"""How much of the end of each stream is shown while a tool runs."""

_log = logging.getLogger(__name__)

Work = Callable[["Watch"], Awaitable[Mapping[str, Any]]]


@dataclass(slots=True)
class _Run:
    """One run. `answer` is there when it is over."""

    item_id: str
    run_id: str | None = None
    begun: float = field(default_factory=time.monotonic)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_known: anyio.Event = field(default_factory=anyio.Event)
    is_over: anyio.Event = field(default_factory=anyio.Event)
    answer: Mapping[str, Any] | None = None
    refusal: Exception | None = None
    is_shown: anyio.Event = field(default_factory=anyio.Event)
    """Other workers can follow it, as far as there are any."""
    tails: dict[str, bytes] = field(default_factory=dict)

    def on_begun(self, run_id: str) -> None:
        """It runs."""
        self.run_id = run_id
        self.is_known.set()

    def on_output(self, stream: str, data: bytes, skipped: int) -> None:
        """It has written something."""
        self.tails[stream] = (self.tails.get(stream, b"") + data)[-TAIL_BYTES:]

    def as_dict(self) -> dict[str, Any]:
        """Return the state of a run in progress as data."""
        answer: dict[str, Any] = {"status": "running", "item_id": self.item_id, "run_id": self.run_id}
        answer["duration_ms"] = round((time.monotonic() - self.begun) * 1000, 3)
        for stream in ("stdout", "stderr"):
            if self.tails.get(stream):
                answer[stream] = self.tails[stream].decode("utf-8", "replace")
        return answer


def _plain(run_id: str) -> str:
    """An id; a caller may give the handle of the output instead."""
    from rye_mcp.runs.ids import parse_handle

    return parse_handle(run_id)[0]


async def _written(board: RunBoard, run_id: str, answer: Mapping[str, Any], *, is_over: bool) -> None:
    """Write for the other workers; if that fails, only this one can be asked about the run."""
    from rye_mcp.mcp_server.answers import exact

    def write() -> None:
        board.write(run_id, exact(answer), is_over=is_over)  # as text that a file has room for

    try:
        await off_loop(write, shielded=True)
    except (OSError, RyeError) as exc:
        _log.warning("other workers can't see a run: %s", exc)
    except Exception:  # noqa: BLE001 - it must not end the server
        _log.exception("a run could not be written for other workers")


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except RyeError as exc:
        _log.warning("work beside the calls was refused: %s", exc.code)
    except Exception:  # noqa: BLE001 - it must not end the server
        _log.exception("work beside the calls has failed")


class BackgroundRuns:
    """The runs of one server; other workers find them on the `board`, if there is one."""

    def __init__(self, board: RunBoard | None = None) -> None:
        self._board = board
        self._groups: list[TaskGroup] = []
        self._runs: dict[str, _Run] = {}
        self._running = 0

    @asynccontextmanager
    async def group(self) -> AsyncIterator[None]:
        """The time in which runs can be begun; when it is over, so are they."""
        async with anyio.create_task_group() as group:
            self._groups.append(group)
            try:
                yield
            finally:
                self._groups.remove(group)
                group.cancel_scope.cancel()

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something that nobody waits for, as long as there is somebody to do it for."""
        if self._groups:
            self._groups[0].start_soon(_quietly, work)

    async def start(self, item_id: str, work: Work) -> Mapping[str, Any]:
        """Begin a run, and tell its id; what refuses it is raised."""
        if not self._groups or self._running >= MAX_RUNNING:
            what = f"expected at most {MAX_RUNNING} runs that nobody waits for, found {self._running}"
            raise RyeError("too_many_runs", what)
        self._running += 1  # before anything is awaited: others are counted meanwhile
        run = _Run(item_id)
        self._groups[0].start_soon(self._run, run, work)
        try:
            await run.is_known.wait()
            if self._board is not None:
                await run.is_shown.wait()
        except anyio.get_cancelled_exc_class():
            run.scope.cancel()
            raise
        if run.run_id is None:
            raise run.refusal or RyeError("cancelled", "expected the run to begin, found that it was ended")
        self._runs[run.run_id] = run
        self._forget()
        return run.as_dict()

    def status(self, run_id: str) -> Mapping[str, Any]:
        """How far a run is, or its answer; of another worker's run, from the disk."""
        run = self._own(run_id)
        if run is None:
            return self._elsewhere(run_id).answer
        return run.as_dict() if run.answer is None else run.answer

    async def cancel(self, run_id: str) -> Mapping[str, Any]:
        """End a run, and wait until all of it is gone; one that is over stays as it is."""
        run = self._own(run_id)
        if run is None:
            return await self._cancel_elsewhere(run_id)
        run.scope.cancel()
        await run.is_over.wait()
        return self.status(run_id)

    def _own(self, run_id: str) -> _Run | None:
        return self._runs.get(_plain(run_id))

    def _elsewhere(self, run_id: str) -> BoardRow:
        """A run of another worker; RyeError `run_not_found`, or `lost` if that worker has ended before it."""
        row = None if self._board is None else self._board.read(_plain(run_id))
        if row is None:
            what = "expected a run that this server has begun with async: true, found none with this id"
            hint = "follow a run by the run_id that async: true gave; load reads the output of others"
            raise RyeError("run_not_found", what, hint=hint, run_id=run_id)
        if row.is_lost:
            what = "expected the worker that had begun the run, found that it has ended, and the run with it"
            raise RyeError("lost", what, run_id=run_id)
        return row

    async def _cancel_elsewhere(self, run_id: str) -> Mapping[str, Any]:
        while not (row := await off_loop(partial(self._elsewhere, run_id))).is_over:
            if self._board is not None:
                await off_loop(partial(self._board.ask_to_end, _plain(run_id)))
            await anyio.sleep(LOOK_EVERY_S)
        return row.answer

    async def _run(self, run: _Run, work: Work) -> None:
        """A run, which other workers see as long as it goes on, and its answer after that."""
        try:
            async with anyio.create_task_group() as group:
                if self._board is not None:
                    group.start_soon(self._show, run, self._board)
                await self._do(run, work)
                group.cancel_scope.cancel()
        finally:
            if self._board is not None and run.run_id is not None and run.answer is not None:
                await _written(self._board, run.run_id, run.answer, is_over=True)
                await off_loop(self._board.sweep, shielded=True)
            run.is_over.set()
            run.is_known.set()
            run.is_shown.set()

    async def _show(self, run: _Run, board: RunBoard) -> None:
        await run.is_known.wait()
        while (run_id := run.run_id) is not None and run.answer is None:
            await _written(board, run_id, run.as_dict(), is_over=False)
            run.is_shown.set()
            if await off_loop(partial(board.is_to_end, run_id)):
                run.scope.cancel()
            await anyio.sleep(LOOK_EVERY_S)

    async def _do(self, run: _Run, work: Work) -> None:
        from rye_mcp.executor.primitive_executor import Watch
        from rye_mcp.mcp_server.answers import unexpected

        try:
            with run.scope:
                run.answer = await work(Watch(on_output=run.on_output, on_begun=run.on_begun))
        except RyeError as exc:
            run.refusal, run.answer = exc, exc.as_dict()
        except Exception as exc:  # noqa: BLE001 - it must not end the server
            run.refusal, run.answer = exc, unexpected(exc).structured_content
        finally:
            if run.answer is None:
                run.answer = {"status": "cancelled", "item_id": run.item_id, "run_id": run.run_id}
            self._running -= 1
            outcome = run.answer.get("code") or run.answer.get("status")
            _log.info("a run is over", extra=facts_of(run=run.run_id, outcome=outcome))

    def _forget(self) -> None:
        over = [run_id for run_id, run in self._runs.items() if run.is_over.is_set()]
        for run_id in over[: max(0, len(self._runs) - MAX_KEPT)]:
            del self._runs[run_id]
