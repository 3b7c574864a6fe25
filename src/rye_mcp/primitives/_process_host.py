"""Looks after one long-lived process: `python -m rye_mcp.primitives._process_host DIRECTORY`.

It outlives its starter on purpose. The process itself is a run of the supervisor, so that everything it
starts ends with it. SIGTERM ends the process: the same signal first, SIGKILL after the time that `grace.json`
says.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio

from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import (
    Enforced,
    Policy,
    ProcessSpec,
    SubprocessPrimitive,
    SubprocessResult,
)
from rye_mcp.primitives._process_files import (
    ENDED,
    FOR_PROCESS,
    GRACE,
    HOST,
    PROCESS,
    STARTED,
    LogWriter,
    read,
    write,
)
from rye_mcp.runs.hosts import Host

__all__: list[str] = []

_GRACE_S: Final = 5.0
_KEPT_BYTES: Final = 1024
_WITHHELD: Final = frozenset({"RYE_RESULT_FD", "RYE_TOOL_SOURCE", "RYE_OUTPUT_DIR"})


async def _main(directory: Path) -> None:
    asked = read(directory / PROCESS)
    if asked is None:
        raise SystemExit(f"expected {PROCESS} in {directory}, found none")
    host = Host.of(os.getpid())
    if host is not None:
        write(directory / HOST, asdict(host))
    primitive, log = SubprocessPrimitive(), LogWriter(directory)
    pids: list[int] = []

    def on_started(pid: int, enforced: Enforced | None) -> None:
        pids.append(pid)
        around = None if enforced is None else asdict(enforced)
        write(directory / STARTED, {"pid": pid, "at": _now(), "enforced": around})

    def on_output(_stream: str, data: bytes, _skipped: int) -> None:
        with suppress(OSError):  # a full disk is no reason to end what runs
            log.write(data)

    spec = ProcessSpec(
        command=asked["program"],
        search_path=asked["search_path"],
        args=asked["args"],
        cwd=asked["cwd"],
        env=_environment(),
        timeout=None,
        max_output=_KEPT_BYTES,
        on_output=on_output,
        whole_output=True,
        on_started=on_started,
        policy=None if asked.get("policy") is None else Policy.of(asked["policy"]),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(_end_when_told, primitive, pids, directory)
        try:
            ended = _facts(await primitive.run(spec))
        except ToolExecutionError as exc:
            ended = {"kind": "lost", "error": exc.message}
        group.cancel_scope.cancel()
    log.close()
    write(directory / ENDED, {**ended, "at": _now()})


async def _end_when_told(primitive: SubprocessPrimitive, pids: list[int], directory: Path) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for number in received:
            if number != signal.SIGHUP and pids:
                grace = (read(directory / GRACE) or {}).get("seconds", _GRACE_S)
                await primitive.kill(pids[0], grace)


def _environment() -> dict[str, str]:
    """The variables of the process."""
    given = (
        (name.removeprefix(FOR_PROCESS), text)
        for name, text in os.environ.items()
        if name.startswith(FOR_PROCESS)
    )
    return {name: text for name, text in given if name not in _WITHHELD}


def _facts(result: SubprocessResult) -> dict[str, Any]:
    facts = {"kind": result.kind, "return_code": result.return_code, "signal": result.signal}
    return facts | ({} if result.error is None else {"error": result.error.message})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


if __name__ == "__main__":
    anyio.run(_main, Path(sys.argv[1]))
