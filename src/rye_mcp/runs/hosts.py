"""The process that looks after a run, and a test whether it is still alive."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from lilux._dataclasses import dataclass

__all__ = ["Host", "is_gone", "this_process"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_ENDED: Final = ("Z", "X")
"""States of a process that only waits for its parent to hear of its end."""

_NAMESPACE: Final = "/proc/self/ns/pid"


@dataclass(frozen=True, slots=True)
class Host:
    """A process: a pid, and what tells it from later ones with the same number."""

    pid: int
    began: str
    boot: str

    @classmethod
    def of(cls, pid: int) -> Host | None:
        """The process that has a pid now; None if it is gone."""
        try:
            # Behind the name of the program, which may hold anything; the 22nd field is when it began.
            fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
            has_ended = fields[0] in _ENDED
            return None if has_ended else cls(pid, fields[19], _BOOT_ID.read_text().strip())
        except (OSError, IndexError):
            return None

    @contextmanager
    def handle(self) -> Iterator[int | None]:
        """A descriptor that stands for this very process while the block lasts; None when it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            yield None
            return
        try:
            # Looked at with the handle open: the pid means what the handle means, or that has ended.
            yield descriptor if Host.of(self.pid) == self else None
        finally:
            os.close(descriptor)


def this_process() -> str:
    """This process, as another one can ask about it with `is_gone`."""
    return _named(os.getpid())


def is_gone(process: str) -> bool:
    """Whether the process that `this_process` named has ended.

    Pids of another namespace, as that of a container, cannot be looked up: nothing is said of them.
    """
    fields = process.split()
    if len(fields) != 4 or not fields[0].isdecimal():
        return True
    pid, began, boot, namespace = fields
    if boot == _boot() and namespace != _namespace():
        return False
    return Host.of(int(pid)) != Host(int(pid), began, boot)


@lru_cache(maxsize=1)  # in every run; a process that was forked has another pid
def _named(pid: int) -> str:
    host = Host.of(pid)
    return "" if host is None else f"{host.pid} {host.began} {host.boot} {_namespace()}"


def _boot() -> str:
    return _BOOT_ID.read_text().strip()


def _namespace() -> str:
    return os.readlink(_NAMESPACE)  # noqa: PTH115 - a name, and no path
