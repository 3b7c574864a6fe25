"""Runs that nobody waits for, as the workers of one address see them: those with the same key.

The worker that began a run writes how far it is into the state directory, and looks there whether another
worker wants it ended. Whoever knows neither the key nor the id of a run finds nothing.

    board = RunBoard(state, keys)
    board.write(run_id, {"status": "running"}, is_over=False)
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from lilux import _files as whole_files
from lilux import _trees
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree
from rye_mcp.runs.hosts import is_gone, this_process
from rye_mcp.runs.ids import check_run_id, is_run_id

__all__ = ["KEPT_S", "BoardRow", "RunBoard"]

KEPT_S: Final = 3600.0
"""For how long the answer of a run is kept here at least: older ones go when the next run is over."""

MAX_ROW_BYTES: Final = 4 << 20
"""How long a row may be: answers are shorter."""

_DIRECTORY: Final = "shared-runs"
_END: Final = ".end"
_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_NAME: Final = b"rye-mcp runs of workers, version 1\0"


class BoardRow(msgspec.Struct, frozen=True):
    """A run: the process that looks after it, and what its callers are answered."""

    owner: str
    answer: dict[str, Any]
    is_over: bool

    @property
    def is_lost(self) -> bool:
        """Whether its worker has ended without saying what came of it."""
        return not self.is_over and is_gone(self.owner)


class RunBoard:
    """The runs of all workers with one of these keys; those of this one are written under the first."""

    def __init__(self, state: Path, keys: Sequence[str]) -> None:
        names = (hashlib.sha256(_NAME + key.encode()).hexdigest()[:32] for key in keys)
        self._root = state / _DIRECTORY
        self._state = state
        self._names = tuple(names)

    def write(self, run_id: str, answer: Mapping[str, Any], *, is_over: bool) -> None:
        """Say how far a run of this process is; RyeError or OSError when that can't be written."""
        row = msgspec.json.encode(BoardRow(this_process(), dict(answer), is_over))
        with self._opened() as directory:
            path = self._root / self._names[0] / check_run_id(run_id)
            whole_files.write_whole(path, row, mode=_FILE_MODE, durable=False, directory=directory)
            if is_over:
                with suppress(FileNotFoundError):
                    os.unlink(f"{run_id}{_END}", dir_fd=directory)

    def read(self, run_id: str) -> BoardRow | None:
        """How far a run is, of any of the workers; None for one that none of them has begun."""
        found = self._found(run_id)
        return None if found is None else found[1]

    def ask_to_end(self, run_id: str) -> None:
        """Have the worker that began a run end it."""
        found = self._found(run_id)
        if found is not None:
            with suppress(OSError):
                (self._root / found[0] / f"{run_id}{_END}").touch(_FILE_MODE)

    def is_to_end(self, run_id: str) -> bool:
        """Whether somebody wants a run of this process ended."""
        return os.path.exists(self._root / self._names[0] / f"{check_run_id(run_id)}{_END}")  # noqa: PTH110

    def sweep(self) -> None:
        """Remove what is so old that nobody asks for it."""
        oldest = time.time() - KEPT_S
        with suppress(OSError, RyeError), self._opened() as directory:
            for name in self._old(directory, oldest):
                with suppress(FileNotFoundError):  # another worker was faster
                    os.unlink(name, dir_fd=directory)

    def _old(self, directory: int, oldest: float) -> Iterator[str]:
        """A run that goes on is written all the time, so what is old is over or lost."""
        with os.scandir(directory) as entries:
            for each in entries:
                if is_run_id(each.name.removesuffix(_END)):
                    with suppress(FileNotFoundError):
                        if each.stat(follow_symlinks=False).st_mtime < oldest:
                            yield each.name

    def _found(self, run_id: str) -> tuple[str, BoardRow] | None:
        check_run_id(run_id)
        for name in self._names:
            try:
                tree = _trees.Tree(self._root / name, forbidden=OTHERS)
                data = tree.read(run_id, limit=MAX_ROW_BYTES)
                if data is not None:
                    return name, msgspec.json.decode(data, type=BoardRow)
            except (OSError, _trees.UnsafeError, msgspec.DecodeError):
                continue
        return None

    def _opened(self) -> Any:
        return Tree(self._state, forbidden=OTHERS).opened(f"{_DIRECTORY}/{self._names[0]}", create_mode=_MODE)
