"""What the kernel says about this process and everything below it: memory, descriptors, zombies.

Read from files of /proc that everybody may read, so that it works for processes nobody may look into, too.
Resident memory counts pages that processes share once for each of them: a sum of it is never too small.
"""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat."""

    pid: int
    name: str
    state: str
    parent: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """This process and all that descends from it."""

    processes: int
    zombies: int
    descriptors: int
    resident_kib: int

    @classmethod
    def take(cls) -> Snapshot:
        """How things are now."""
        gc.collect()
        family = own_family()
        alive = [process.pid for process in family if process.state != "Z"]
        return cls(
            processes=len(alive),
            zombies=len(family) - len(alive),
            descriptors=sum(map(_descriptors, alive)),
            resident_kib=sum(_memory(pid, "VmRSS") for pid in alive),
        )


def own_family() -> list[Process]:
    """This process, its children, theirs, and so on."""
    everybody = list(_processes())
    family = [process for process in everybody if process.pid == os.getpid()]
    for member in family:
        family += [process for process in everybody if process.parent == member.pid]
    return family


def resident_kib() -> int:
    """What this process and the supervisor below it occupy now."""
    return sum(_memory(process.pid, "VmRSS") for process in _counted())


def peak_kib() -> int:
    """The most that each of them has ever occupied, added up: never less than the peak of their sum."""
    return sum(_memory(process.pid, "VmHWM") for process in _counted())


def available_kib() -> int:
    """The memory that this machine has left."""
    return _field(_text(PROC / "meminfo"), "MemAvailable")


def idle_percent(seconds: float = 1.0) -> float:
    """How much of its time this machine has nothing to do, as long as we do nothing."""
    before = _ticks()
    time.sleep(seconds)
    passed = [now - then for now, then in zip(_ticks(), before, strict=True)]
    idle, waiting = 3, 4
    return 100 * (passed[idle] + passed[waiting]) / max(sum(passed), 1)


def _ticks() -> list[int]:
    return [int(ticks) for ticks in _text(PROC / "stat").splitlines()[0].split()[1:9]]


def _counted() -> list[Process]:
    return [
        process for process in own_family() if process.pid == os.getpid() or process.name.startswith("lilux-")
    ]


def _processes() -> Iterator[Process]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and (line := _text(entry / "stat")):
            # The name may itself hold spaces and parentheses.
            name, _, rest = line.partition("(")[2].rpartition(")")
            state, parent, *_ = rest.split()
            yield Process(int(entry.name), name, state, int(parent))


def _memory(pid: int, field: str) -> int:
    return _field(_text(PROC / str(pid) / "status"), field)


def _field(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _descriptors(pid: int) -> int:
    directory = PROC / str(pid) / "fd"
    try:
        return len(list(directory.iterdir()))
    except PermissionError:
        return directory.stat().st_size  # the number of entries, since Linux 6.2
    except FileNotFoundError:
        return 0


def _text(path: Path) -> str:
    """The content of a file of /proc; empty when its process has gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
