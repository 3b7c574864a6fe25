"""Keeps the files that a run has left in `RYE_OUTPUT_DIR`, by their content.

Only regular files of that directory itself are kept: no link of any kind is followed, and no directory
entered. What is not kept is named in a notice. The bytes are copied as they are read, so nothing that still
runs can change them afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from heapq import nsmallest
from pathlib import Path
from typing import Final

from lilux import _trees
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.job.snapshot import Snapshot
from rye_mcp.notices import Notice
from rye_mcp.runs.results import Kept, KeptResults

__all__ = ["MAX_FILES", "MAX_NAME_BYTES", "MAX_OUTPUT_BYTES", "kept_files"]

MAX_FILES: Final = 64
"""How many files of a run are kept."""

MAX_OUTPUT_BYTES: Final = 64 << 20
"""How many bytes the files of a run have together."""

MAX_NAME_BYTES: Final = 100
"""How long the name of a file may be."""

MAX_PREVIEWS: Final = 4
"""Of how many files the answer has the beginning."""

_SHOWN: Final = 5


def kept_files(
    snapshot: Snapshot | None, results: KeptResults
) -> tuple[tuple[Kept, ...], tuple[Notice, ...]]:
    """The files that were kept, in the order of their names, and what is to be known about the others."""
    keeper = _Keeper(results)
    for name, found in () if snapshot is None else _files_in(snapshot):
        keeper.take(name, found)
    return tuple(keeper.kept), _notice(keeper.left_out)


class _Keeper:
    """Keeps files, as many as there is room for."""

    def __init__(self, results: KeptResults) -> None:
        self.kept: list[Kept] = []
        self.left_out: list[str] = []
        self._results = results
        self._room = MAX_OUTPUT_BYTES

    def take(self, name: str, found: int | str) -> None:
        """Keep an open file, and close it; or say why it is missing."""
        problem = found if isinstance(found, str) else self._keep(name, found)
        if problem is not None:
            self.left_out.append(f"{printable(name[:MAX_NAME_BYTES])} ({problem})")

    def _keep(self, name: str, descriptor: int) -> str | None:
        with _trees.opened(descriptor):
            problem = _problem(name, os.fstat(descriptor), len(self.kept), self._room)
            if problem is not None:
                return problem
            try:
                file = self._results.keep_file(descriptor, name=name, limit=self._room)
            except RyeError as exc:
                return exc.message
        self._room -= file.size
        self.kept.append(file if len(self.kept) < MAX_PREVIEWS else replace(file, preview=""))
        return None


def _files_in(snapshot: Snapshot) -> Iterator[tuple[str, int | str]]:
    """Each name in the directory, with the open file, or with the reason why it is left out."""
    try:
        with snapshot.opened_output() as directory:
            with os.scandir(directory) as entries:
                names = nsmallest(MAX_FILES + 1, (each.name for each in entries), key=os.fsencode)
            for name in names:
                try:
                    yield name, _trees.open_file(name, directory, Path(name))[0]
                except _trees.UnsafeError as exc:
                    yield name, exc.problem
                except OSError as exc:
                    yield name, exc.strerror or str(exc)
    except OSError as exc:
        yield "RYE_OUTPUT_DIR", f"the directory itself: {exc.strerror}"


def _problem(name: str, found: os.stat_result, count: int, room: int) -> str | None:
    if found.st_nlink != 1:
        return "it has another name elsewhere"
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        return f"its name has more than {MAX_NAME_BYTES} bytes"
    if count >= MAX_FILES:
        return f"more than {MAX_FILES} files"
    if found.st_size > room:
        return f"more than {MAX_OUTPUT_BYTES} bytes in all files"
    return None


def _notice(left_out: list[str]) -> tuple[Notice, ...]:
    if not left_out:
        return ()
    shown = "; ".join(left_out[:_SHOWN])
    others = f"; and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
    return (Notice("output_left_out", f"not kept of RYE_OUTPUT_DIR: {shown}{others}"),)
