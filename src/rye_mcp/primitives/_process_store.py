"""The long-lived processes of one project: a private directory for each, in the user's state directory.

    processes/<hash of the project>/<id>/   process.json   what is to run
                                            host.json      who looks after it
                                            started.json   its pid, once it runs
                                            ended.json     how it ended
                                            grace.json     how long it may take to end, when it was told to
                                            log.…          what it printed

Rules:

- A directory is made with mode 0700 and named by an id that is checked before it is a path. What belongs to
  another project has another parent: no id of it is found here.
- The host of a process is known by its pid together with the time at which it began and the boot: a pid that
  was given to somebody else since then is not that process. Whoever signals it holds a handle on it first.
- Files are written whole. What is missing has not happened yet.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.runs.hosts import Host
from rye_mcp.runs.ids import check_run_id, new_run_id, time_of

__all__ = [
    "ENDED",
    "GRACE",
    "HOST",
    "MAX_BYTES",
    "MAX_ENDED",
    "PROCESS",
    "STARTED",
    "ProcessRecord",
    "ProcessStore",
    "read",
    "write",
]

PROCESS: Final = "process.json"
HOST: Final = "host.json"
STARTED: Final = "started.json"
ENDED: Final = "ended.json"
GRACE: Final = "grace.json"

MAX_ENDED: Final = 20
"""How many processes that have ended are remembered of a project; the newest ones."""

MAX_BYTES: Final = 1 << 20
"""How long a file of a process may be; a longer one is none."""

_YOUNG: Final = timedelta(seconds=30)
"""How long a host may take to say who it is."""

_DIRECTORY: Final = "processes"
_LISTS: Final = "rye/process/status lists them"
_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What is known of one process, as it stands in its directory."""

    process_id: str
    directory: Path
    asked: dict[str, Any]
    host: Host | None
    started: dict[str, Any] | None
    ended: dict[str, Any] | None

    @property
    def state(self) -> str:
        """`running`, `ended`, or `lost`: its host is gone, or never came, and nobody knows how it ended."""
        if self.ended is not None:
            return "ended"
        if self.host is None:
            young = datetime.now(UTC) - time_of(self.process_id) < _YOUNG
            return "running" if young else "lost"
        with self.host.handle() as handle:
            return "lost" if handle is None else "running"


class ProcessStore:
    """The processes of a project."""

    def __init__(self, state: Path, project: Path) -> None:
        name = hashlib.sha256(os.fsencode(project)).hexdigest()[:32]
        self._state = state
        self._directory = state / _DIRECTORY / name

    def new(self) -> tuple[str, Path]:
        """An id, and an empty directory for it."""
        for directory in (self._state, self._directory.parent, self._directory):
            whole_files.make_directory(directory, mode=_MODE)
        process_id = new_run_id()
        directory = self._directory / process_id
        directory.mkdir(_MODE)
        return process_id, directory

    def get(self, process_id: str) -> ProcessRecord:
        """One process; RyeError `run_not_found` when this project has no such."""
        try:
            directory = self._directory / check_run_id(process_id)
        except RyeError as exc:
            raise RyeError("invalid_run_id", exc.message, hint=_LISTS) from None
        asked = read(directory / PROCESS)
        if asked is None:
            what = f"expected the id of a process of this project, found {process_id}"
            raise RyeError("run_not_found", what, hint=_LISTS, run_id=process_id)
        # What has ended is looked at last: what ends meanwhile has started.
        host, started = read(directory / HOST), read(directory / STARTED)
        found = None if host is None else Host(**host)
        return ProcessRecord(process_id, directory, asked, found, started, read(directory / ENDED))

    def list(self) -> list[ProcessRecord]:
        """All of them, the newest first."""
        try:
            names = sorted((path.name for path in self._directory.iterdir()), reverse=True)
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            with suppress(RyeError):
                found.append(self.get(name))
        return found

    def forget_old(self) -> None:
        """Remove what is left of processes that ended, but for the newest ones."""
        over = [record for record in self.list() if record.state != "running"]
        for record in over[MAX_ENDED:]:
            shutil.rmtree(record.directory, ignore_errors=True)


def read(path: Path) -> dict[str, Any] | None:
    """What stands in a file; None when it is not there, or is no object."""
    try:
        value = json.loads(whole_files.read_capped(path, MAX_BYTES))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write(path: Path, value: dict[str, Any]) -> None:
    """Write a file whole."""
    whole_files.write_whole(path, json.dumps(value).encode(), mode=_FILE_MODE, durable=False)
