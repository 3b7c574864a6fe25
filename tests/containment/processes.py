"""What /proc says about processes: families, descriptors, memory."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


def parent_of(pid: int) -> int:
    """The parent as it is now."""
    return int(_stat(pid)[1])


def state_of(pid: int) -> str:
    """`S` for one that waits, `Z` for one that has ended, and so on."""
    return _stat(pid)[0]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children_of(pid: int) -> list[int]:
    """Direct children, the dead ones among them too, of a process of one thread; the oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def family_of(pid: int) -> list[int]:
    """A process with everybody below it."""
    return [pid, *(member for child in children_of(pid) for member in family_of(child))]


def descriptors_of(pids: Iterable[int]) -> int:
    """How many descriptors these processes have open, together."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def memory_of(pids: Iterable[int]) -> int:
    """Bytes that these processes take, together; what they share counts once."""
    return sum(_field(f"/proc/{pid}/smaps_rollup", "Pss") for pid in pids)


def peak_of(pids: Iterable[int]) -> int:
    """The most bytes that each of these processes has ever had, summed up."""
    return sum(_field(f"/proc/{pid}/status", "VmHWM") for pid in pids)


def _field(path: str, name: str) -> int:
    lines = Path(path).read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


@contextmanager
def watched(pids: Iterable[int]) -> Iterator[Watch]:
    """Handles on processes, which their numbers alone are not."""
    with ExitStack() as stack:
        handles = {}
        for pid in pids:
            handles[pid] = os.pidfd_open(pid)
            stack.callback(os.close, handles[pid])
        yield Watch(handles)


class Watch:
    """Processes whose end is waited for."""

    def __init__(self, handles: dict[int, int]) -> None:
        self._handles = handles

    def left_at(self, deadline: float) -> list[int]:
        """Those that have not ended by then (monotonic clock)."""
        return [pid for pid, handle in self._handles.items() if not ends(handle, deadline)]


def is_gone_by(pid: int, deadline: float) -> bool:
    """Wait until a process has ended that may have done so already."""
    try:
        with watched([pid]) as watch:
            return not watch.left_at(deadline)
    except ProcessLookupError:
        return True


def ends(handle: int, deadline: float) -> bool:
    """Wait until a process has ended; False when the time is up first."""
    return bool(select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0])
