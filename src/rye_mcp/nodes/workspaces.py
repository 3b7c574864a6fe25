"""Where calls work on a node: in an empty directory, in files that came along, or in a shared directory.

Each directory has an executor for which it is the project. None has items, and none was ever approved, so
nothing in it is more than data. A shared one is what the configuration of the node's user says, never what a
caller does.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio

from lilux import _trees
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.private_dirs import remove_tree
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.metadata import SHARED
from rye_mcp.nodes.trees import Arriving, Blobs, Listed, read_list, split, write_tree

__all__ = ["Ask", "Workspaces"]

MAX_TREES: Final = 2
"""The files of how many calls are in memory at a time: those of one may have 64 MiB."""

_OF_NOTHING: Final = hashlib.sha256(b"").hexdigest()
"""The digest of an empty file, whose content nobody has to send."""

Ask = Callable[[Sequence[int]], None]
"""Asks the server for the files with these numbers."""


class Workspaces:
    """The directories of a worker, below a private one. `open_executor` makes the executor of a directory."""

    def __init__(
        self,
        private: Path,
        open_executor: Callable[[Path], PrimitiveExecutor],
        shared: Callable[[], Mapping[str, Path]],
    ) -> None:
        self._trees = private / "trees"
        self._open = open_executor
        self._shared = shared
        self._blobs = Blobs(private / "blobs")
        self._numbers = count()
        self._at_once = anyio.Semaphore(MAX_TREES)
        self._opening = anyio.Lock()
        self._executors: dict[Path, PrimitiveExecutor] = {}

    async def shared(self, workspace: str) -> PrimitiveExecutor:
        """The executor of a shared directory; RyeError `node_refused` if this node names no such one."""
        name = workspace.removeprefix(SHARED)
        directory, is_there = await off_loop(partial(self._named, name))
        if directory is None or not is_there:
            found = "none of this name" if directory is None else "that it is no directory"
            what = f"expected a shared directory {name} in the configuration of this node, found {found}"
            hint = f"on the node, in ~/.ai/config/rye.yaml: shared: {{{name}: /path/of/a/directory}}"
            raise RyeError("node_refused", what, hint=hint)
        async with self._opening:  # calls that come at once have one
            if directory not in self._executors:
                self._executors[directory] = await off_loop(partial(self._open, directory))
        return self._executors[directory]

    def _named(self, name: str) -> tuple[Path | None, bool]:
        """The shared directory of a name, and whether it is there."""
        directory = self._shared().get(name)
        return directory, directory is not None and directory.is_dir()

    @asynccontextmanager
    async def tree(self, arriving: Arriving, ask: Ask) -> AsyncIterator[PrimitiveExecutor]:
        """The executor of a private directory with the files of one call, which is gone afterwards."""
        directory = self._trees / str(next(self._numbers))
        try:
            data = await arriving.listed()
            async with self._at_once:
                await self._fill(directory, data, arriving, ask)
            executor = await off_loop(partial(self._open, directory))
            try:
                yield executor
            finally:
                with anyio.CancelScope(shield=True):
                    await executor.close()
        finally:
            await off_loop(partial(_remove, directory), shielded=True)

    async def close(self) -> None:
        """Close the executors that were kept."""
        for executor in self._executors.values():
            await executor.close()

    async def _fill(self, directory: Path, data: bytes, arriving: Arriving, ask: Ask) -> None:
        listed = await off_loop(partial(read_list, data))
        blobs = {_OF_NOTHING: b""} | await off_loop(partial(self._blobs.known, listed))
        wanted = _missing(listed, blobs)
        if wanted:
            arriving.expect(sum(listed[number].size for number in wanted))
            ask(wanted)
            filled = await arriving.filled()
            came = await off_loop(partial(split, filled, [listed[number] for number in wanted]))
            blobs |= came
            await off_loop(partial(self._blobs.keep, came))

        def write() -> None:
            directory.mkdir(mode=0o700, parents=True)
            write_tree(directory, listed, blobs)

        await off_loop(write)


def _remove(directory: Path) -> None:
    """Remove it with everything in it, whatever its call has made of it."""
    with suppress(OSError, _trees.UnsafeError), _trees.Tree(directory.parent).opened() as above:
        remove_tree(directory.name, above)


def _missing(listed: Sequence[Listed], blobs: Mapping[str, bytes]) -> list[int]:
    """The numbers of the files whose content is not there, each content once."""
    first: dict[str, int] = {}
    for number, each in enumerate(listed):
        if each.digest not in blobs:
            first.setdefault(each.digest, number)
    return list(first.values())
