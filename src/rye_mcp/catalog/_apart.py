"""Lets another process index many files, so that this one can go on answering.

It only helps: whatever it did not do is left to the caller. It has nothing of the caller's environment, runs
under the supervisor of the event loop whose worker thread waits, and ends with the caller.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rye_mcp.items import Space, SpaceName
from rye_mcp.language.meaning import WordTable
from rye_mcp.language.words import Stemmer
from rye_mcp.spaces import Spaces

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream

__all__ = ["STEP", "Progress", "Task", "index_apart"]

STEP: Final = 100
"""After how many files the process says so, by a byte."""

TIMEOUT_S: Final = 1_800.0

_NICENESS: Final = 5

Progress = Callable[[int, int], object]
"""Is told how many files were looked at, and of how many."""


class Task(NamedTuple):
    """What is indexed: one of the spaces at these roots, in a directory, with vectors of this name."""

    roots: Mapping[str, str]
    space: str
    directory: str
    vectors: str
    max_words: int


def index_apart(task: Task, total: int, progress: Progress | None) -> None:
    """Let another process carry out a task.

    Does nothing if no event loop waits for this thread, as in a command: it has no other calls to answer.
    """
    if not sys.executable:
        return
    import anyio
    import anyio.from_thread

    with suppress(anyio.NoEventLoopError):
        anyio.from_thread.run(_run, json.dumps(task).encode(), total, progress)


async def _run(task: bytes, total: int, progress: Progress | None) -> None:
    import anyio

    from lilux.primitives.errors import ToolExecutionError
    from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive

    send, receive = anyio.create_memory_object_stream[int](math.inf)

    def note(_stream: str, chunk: bytes, _offset: int) -> None:
        with suppress(anyio.BrokenResourceError):  # the listener has given up
            send.send_nowait(STEP * len(chunk))

    program = ("-I", "-m", __name__)
    spec = ProcessSpec(command=sys.executable, args=program, input=task, timeout=TIMEOUT_S, on_output=note)
    async with anyio.create_task_group() as telling:
        telling.start_soon(_tell, receive, total, progress)
        with send, suppress(ToolExecutionError):
            await SubprocessPrimitive().run(spec)


async def _tell(done: MemoryObjectReceiveStream[int], total: int, progress: Progress | None) -> None:
    """Report how many files were looked at, from a thread: the listener may wait for the event loop."""
    from anyio import CapacityLimiter, to_thread

    limiter, counted = CapacityLimiter(1), 0
    with done:
        async for number in done:
            counted += number
            if progress is not None:
                await to_thread.run_sync(progress, min(counted, total), total, limiter=limiter)


def _main() -> None:
    """Be that process: index, and say how far it is."""
    from rye_mcp.catalog._space_index import SpaceIndex

    task = Task(*json.load(sys.stdin))
    gc.disable()  # it ends soon, and nothing here goes in circles
    os.nice(_NICENESS)  # who answers others meanwhile comes first
    roots = {name: Space(SpaceName(name), Path(root)) for name, root in task.roots.items()}
    spaces, space = Spaces(roots.get("project"), roots["user"], roots["system"]), roots[task.space]
    with closing(Stemmer()) as stemmer:
        meaning = WordTable.load(stemmer) if task.vectors == WordTable.identity else None
        index = SpaceIndex(spaces, space, Path(task.directory), stemmer, meaning, task.max_words)
        with closing(index):
            index.refresh(lambda _done, _total: os.write(1, b"."))


if __name__ == "__main__":
    _main()
