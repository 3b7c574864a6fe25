"""How soon a call is over that is given up, or whose worker is killed: its process dead, its caller told."""

from __future__ import annotations

import os
import select
import signal
import statistics
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch

__all__ = ["CANCEL_MS", "KILLED_MS", "WAIT", "ends"]

WAIT: Final = """\
# /// rye
# executor_id: bash_runtime
# permissions: unconfined
{workspace}# ///
echo $$
exec sleep 600
"""
"""A tool that says its pid, and ends when it is ended."""

CANCEL_MS: Final = 15.0
"""How much later than here a process may be dead whose caller gives up."""

KILLED_MS: Final = 50.0
"""By when a process is dead, and its caller told, whose worker was killed."""

_PATIENCE_MS: Final = 60_000
_WORKER: Final = b"\0worker\0"


class _Death(threading.Thread):
    """Waits for the end of a process, and notes the time."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._handle = os.pidfd_open(pid)
        self.at = 0.0

    def run(self) -> None:
        """Wait."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        assert poll.poll(_PATIENCE_MS), "the process goes on"
        self.at = time.perf_counter()
        os.close(self._handle)


async def ends(executor: PrimitiveExecutor, wheres: Sequence[str], rounds: int) -> dict[str, Any]:
    """The medians, in ms: of giving up in each place, in turns, and of killing the worker in the others."""
    cancelled: dict[str, list[float]] = {where: [] for where in wheres}
    dead: dict[str, list[float]] = {where: [] for where in wheres if where != "here"}
    told: dict[str, list[float]] = {where: [] for where in dead}
    for _ in range(rounds):
        for where, found in cancelled.items():
            found.append((await _ended(executor, where, kill=False))[0])
        for where, found in dead.items():
            died, heard = await _ended(executor, where, kill=True)
            found.append(died)
            told[where].append(heard)
    kinds = (("cancelled", cancelled), ("dead", dead), ("told", told))
    return {kind: {where: statistics.median(each) for where, each in found.items()} for kind, found in kinds}


async def _ended(executor: PrimitiveExecutor, where: str, *, kill: bool) -> tuple[float, float]:
    """How long after its caller gave up, or its worker was killed, a process was dead and the call over."""
    deaths: list[_Death] = []
    begun: list[float] = []
    with anyio.CancelScope() as scope:

        def heard(_stream: str, data: bytes, _skipped: int) -> None:
            pid = int(data)
            worker = _worker(pid) if kill else 0
            deaths.append(_Death(pid))
            deaths[0].start()
            begun.append(time.perf_counter())
            if kill:
                os.kill(worker, signal.SIGKILL)
            else:
                scope.cancel()

        result = await executor.run(f"{where}/wait", watch=Watch(on_output=heard))
        assert kill, result.as_dict()
        assert result.code == "lost", result.as_dict()
    over = time.perf_counter()
    await anyio.to_thread.run_sync(deaths[0].join)
    return (deaths[0].at - begun[0]) * 1000, (over - begun[0]) * 1000


def _worker(pid: int) -> int:
    """The worker that a process of a run descends from."""
    while pid > 1:
        if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(_WORKER):
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("expected a worker above, found none")
