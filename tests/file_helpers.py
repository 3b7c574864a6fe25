"""What tests of files share: modes, the umask, coarse clocks, scripts in processes of their own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["UMASKS", "count_time_in", "mode_of", "names_in", "run_at_once", "run_python", "umask"]

UMASKS = [0o000, 0o022, 0o077, 0o277, 0o777]


@contextmanager
def umask(value: int) -> Iterator[None]:
    """Another umask, for as long as the block lasts."""
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int:
    """The permissions of a file itself, not of what it points to."""
    return stat.S_IMODE(path.lstat().st_mode)


def count_time_in(tick_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the times of files be those of a file system whose clock is that coarse."""
    lstat, fstat = os.lstat, os.fstat
    monkeypatch.setattr(os, "lstat", lambda *about, **more: _Coarse(lstat(*about, **more), tick_ns))
    monkeypatch.setattr(os, "fstat", lambda descriptor: _Coarse(fstat(descriptor), tick_ns))


@dataclass
class _Coarse:
    found: os.stat_result
    tick_ns: int

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.found, name)
        return value // self.tick_ns * self.tick_ns if name.endswith("_ns") else value


def names_in(directory: Path) -> list[str]:
    """Every name in a directory, hidden ones too."""
    return sorted(path.name for path in directory.iterdir())


def run_python(script: str, *arguments: object) -> str:
    """Run a script in a process of its own and return what it printed."""
    return subprocess.run(_command(script, arguments), check=True, stdout=subprocess.PIPE, text=True).stdout


def run_at_once(script: str, arguments: Iterable[tuple[object, ...]]) -> list[str]:
    """Run a script in several processes, which all begin with its second line when the last one is ready.

    The first line is where a script imports what it needs. What each process printed is returned.
    """
    first, rest = textwrap.dedent(script).strip().split("\n", 1)
    script = f"{first}\nimport sys\nprint(flush=True)\nsys.stdin.readline()\n{rest}"
    processes = [
        subprocess.Popen(_command(script, each), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for each in arguments
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


def _command(script: str, arguments: Iterable[object]) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
