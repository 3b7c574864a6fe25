"""Connections to other MCP servers, kept for the next call: one for each server, in each event loop.

All callers of the same server share its connection. One that has ended is started again by the next
call, after a wait that doubles. At most `MAX_CONNECTIONS` are kept; the one idle for longest makes room.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from lilux import _loops, _templates
from lilux._dataclasses import dataclass
from rye_mcp.apart import beside
from rye_mcp.bridge.connection import Connection, first_of
from rye_mcp.bridge.servers import BridgeError, Server
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.variables import usable_variables
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.bridge.definitions import Definition
    from rye_mcp.executor.job.confinement import Bounds
    from rye_mcp.trust.directories import Directories

__all__ = ["IDLE_S", "MAX_CONNECTIONS", "Pool", "offered_by"]

IDLE_S: Final = 600.0
"""How long a connection is kept that nobody uses."""

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0
"""How long a server that ended twice in a row is left alone; doubled each time, up to the second figure."""

PATIENCE_S: Final = 2.0
"""How long a call waits for its server to be started again."""

STEADY_S: Final = 60.0
"""A connection that lasted so long ended for a reason of its own: nothing is held against the server."""

MAX_CONNECTIONS: Final = 32
"""How many servers are kept at once."""

PARTING_S: Final = 1.0
"""How long a call waits for the end of the connection before its own."""

CLOSE_LIMIT_S: Final = 5.0


@dataclass(slots=True)
class _Slot:
    """The state of one server in one event loop."""

    connection: Connection | None = None
    begun: float = 0.0
    failures: int = 0
    not_before: float = 0.0


class Pool:
    """The connections of one executor."""

    def __init__(self, *, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._slots: dict[tuple[Hashable, Server], _Slot] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def connection(self, server: Server) -> Connection:
        """A connection that is ready; BridgeError if none can be made."""
        slot = self._slots.setdefault((_loops.running(), server), _Slot())
        connection = slot.connection
        if connection is not None and connection.is_ending:
            with anyio.move_on_after(PARTING_S):
                await connection.over.wait()
        if connection is None or _is_past(connection):
            await self._wait_for_turn(slot, server)
            connection = slot.connection
            if connection is None or _is_past(connection):
                connection = self._begin(slot, server)
        await first_of(connection.ready, connection.over)
        if connection.over.is_set():
            ended = BridgeError(
                "lost", f"expected the server {visible(server.name)} to be there, found it ended"
            )
            raise connection.problem or ended
        return connection

    async def close(self) -> None:
        """End the connections of this event loop, and wait until they are gone."""
        here = _loops.running()
        closing = [
            slot.connection for (loop, _), slot in self._slots.items() if loop == here and slot.connection
        ]
        self._slots = {key: slot for key, slot in self._slots.items() if key[0] != here}
        for connection in closing:
            connection.close()
        with anyio.move_on_after(CLOSE_LIMIT_S):
            for connection in closing:
                await connection.over.wait()

    async def _wait_for_turn(self, slot: _Slot, server: Server) -> None:
        wait = slot.not_before - self._clock()
        if wait <= 0:
            return
        if wait > PATIENCE_S:
            last = slot.connection and slot.connection.problem
            why = f". Last: {last.message}" if last else ""
            what = (
                f"expected the server {visible(server.name)} to stay, found that it ended {slot.failures} "
                f"times in a row; it is started again in {wait:.0f} s{why}"
            )
            raise BridgeError("lost", what, hint="look at the server, or wait")
        await anyio.sleep(wait)

    def _begin(self, slot: _Slot, server: Server) -> Connection:
        self._make_room()
        connection = slot.connection = Connection(server)
        slot.begun = self._clock()

        async def serve() -> None:
            await connection.serve(idle_s=self._idle_s)
            self._note_end(slot, connection)

        beside(serve, self._tasks)
        return connection

    def _note_end(self, slot: _Slot, connection: Connection) -> None:
        """How long the server is left alone now."""
        now = self._clock()
        if connection.problem is None or now - slot.begun >= STEADY_S:
            slot.failures, slot.not_before = 0, now
            return
        slot.failures += 1
        waits = slot.failures - 1
        slot.not_before = now + (0 if not waits else min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (waits - 1)))

    def _make_room(self) -> None:
        here = _loops.running()
        open_here = [
            slot.connection
            for (loop, _), slot in self._slots.items()
            if loop == here and slot.connection is not None and not slot.connection.over.is_set()
        ]
        idle = sorted((each for each in open_here if not each.is_busy), key=lambda each: each.last_used)
        for connection in idle[: max(0, len(open_here) - MAX_CONNECTIONS + 1)]:
            connection.close()


def _is_past(connection: Connection) -> bool:
    """Whether nothing can be begun with it any more; it may take a while yet to be gone."""
    return connection.over.is_set() or connection.is_ending


async def offered_by(
    config: Mapping[str, Any],
    variables: Mapping[str, str],
    *,
    cwd: str,
    project: str,
    directories: Directories,
    bounds: Bounds | None = None,
) -> Mapping[str, Definition]:
    """The tools of the server that a whole configuration describes, by their names; RyeError for none."""
    given = {name: value for name, value in config.items() if name not in ("cwd", "timeout", "server")}
    place = cwd if directories.why_not(cwd) is None else os.sep
    usable = usable_variables(variables, directories, Path(project) if project else None)
    filled = _templates.render_tree(given, usable, {"project_path": project})
    server = Server.of({**filled, "server": config.get("server")}, place, directories, bounds)
    pool = Pool()
    try:
        connection = await pool.connection(server)
        return connection.tools
    except BridgeError as exc:
        hint = exc.hint or "run the server by itself, and see what it says"
        refusal = RyeError(exc.code, exc.message, hint=hint)
        if exc.lines:
            refusal.details["said"] = list(exc.lines)
        if exc.denied is not None:
            refusal.details["denied"] = exc.denied.as_dict()
        raise refusal from exc
    finally:
        await pool.close()
