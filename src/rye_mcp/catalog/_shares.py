"""Indexing many files at once: each processor looks at a share of them, in a process of its own.

Parsing ten thousand files takes seconds, all of them in Python. In the server nobody else would be heard much
meanwhile; in processes of their own the shares take a part of the time, and the server goes on.

Rules:

- The processes run this program's own code under the supervisor, with nothing of the caller's environment,
  and end with whoever waits for them. They read files and write to the index, as this process would.
- They are help, and nothing rests on them: what a process did not do, because it could not start or failed,
  is found missing by the next look at the files, and is done without it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.items import Space, SpaceName
from rye_mcp.spaces import Spaces, Stamp

if TYPE_CHECKING:
    from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive

__all__ = ["MANY", "index_in_shares", "spaces_of_task", "stamps_of_task"]

MANY: Final = 1_500
"""From how many files on it is worth to start processes: each takes a quarter of a second to begin."""

STEP: Final = 100
"""After how many files a process says so, by a byte."""

MAX_PROCESSES: Final = 4
TIMEOUT_S: Final = 1_800.0

_SCRIPT: Final = """
import json, sys
task = json.load(sys.stdin)
sys.path[:] = task["path"]
from rye_mcp.catalog._space_index import take_share
take_share(task)
"""

Progress = Callable[[int, int], object]


def index_in_shares(
    spaces: Spaces,
    space: Space,
    directory: Path,
    stamps: Mapping[str, Stamp | None],
    progress: Progress | None,
) -> None:
    """Let processes bring the index of a space up to date with the files that have these stamps, or are gone;
    where there is only one processor, nothing.
    """
    count = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    if count > 1 and sys.executable:
        import anyio  # what is needed to start processes takes a third of the start of each of them

        tasks = _tasks(spaces, space, directory, stamps, count)
        # An event loop of its own, whatever runs in the thread of who asks.
        with ThreadPoolExecutor(max_workers=1) as pool:
            given_up = threading.Event()
            together = pool.submit(anyio.run, _together, tasks, len(stamps), progress, given_up)
            try:
                together.result()
            except BaseException:  # a Ctrl-C too, which reaches the main thread alone
                given_up.set()
                raise


def spaces_of_task(task: Mapping[str, Any]) -> tuple[Spaces, Space]:
    """The spaces that a task is about, and the one whose index it is."""
    roots = {SpaceName(name): Space(SpaceName(name), Path(root)) for name, root in task["roots"].items()}
    spaces = Spaces(roots.get(SpaceName.PROJECT), roots[SpaceName.USER], roots[SpaceName.SYSTEM])
    return spaces, roots[SpaceName(task["space"])]


def stamps_of_task(task: Mapping[str, Any]) -> dict[str, Stamp | None]:
    """The files of one share, and the stamp of each."""
    return {path: None if stamp is None else _stamp(*stamp) for path, stamp in task["stamps"]}


def _stamp(written: int, changed: int, size: int, inode: int) -> Stamp:
    return (written, changed, size, inode)


def _tasks(
    spaces: Spaces, space: Space, directory: Path, stamps: Mapping[str, Stamp | None], count: int
) -> list[bytes]:
    task = {
        "path": [entry for entry in sys.path if Path(entry).is_absolute()],
        "roots": {each.name.value: str(each.root) for each in spaces.accessible()},
        "space": space.name.value,
        "directory": str(directory),
        "shares": count,
    }
    # Files that were found after each other are neighbours, and what is written at once belongs together.
    paths = list(stamps)
    shares = (
        paths[len(paths) * number // count : len(paths) * (number + 1) // count] for number in range(count)
    )
    return [
        f'{json.dumps({**task, "share": number})[:-1]}, "stamps": [{_listed(share, stamps)}]}}'.encode()
        for number, share in enumerate(shares)
    ]


def _listed(paths: Sequence[str], stamps: Mapping[str, Stamp | None]) -> str:
    """Paths and stamps as JSON, a part after the other: other threads have to wait until one is done."""
    parts = (paths[start : start + STEP] for start in range(0, len(paths), STEP))
    return ",".join(json.dumps([(path, stamps[path]) for path in part])[1:-1] for part in parts)


async def _together(
    tasks: list[bytes], total: int, progress: Progress | None, given_up: threading.Event
) -> None:
    import anyio

    from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive

    done = 0

    def note(_stream: str, chunk: bytes, _offset: int) -> None:
        nonlocal done
        if given_up.is_set():
            raise InterruptedError
        done += STEP * len(chunk)
        if progress is not None:
            progress(min(done, total), total)

    primitive = SubprocessPrimitive()
    async with anyio.create_task_group() as group:
        for task in tasks:
            spec = ProcessSpec(
                command=sys.executable,
                args=("-I", "-c", _SCRIPT),
                input=task,
                timeout=TIMEOUT_S,
                on_output=note,
            )
            group.start_soon(partial(_run, primitive, spec))


async def _run(primitive: SubprocessPrimitive, spec: ProcessSpec) -> None:
    from lilux.primitives.errors import ToolExecutionError

    try:
        await primitive.run(spec)
    except ToolExecutionError:
        return  # what it would have done is done by who asked for it
