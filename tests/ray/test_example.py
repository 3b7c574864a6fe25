"""The example with three nodes on one machine does what its page says, command by command."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.document_pages import ROOT, Shell, lacks, needs_of, steps_of
from tests.ray_world import below, one_start_at_a_time

PAGE = ROOT / "examples/cluster/README.md"


@pytest.mark.timeout(240)  # three nodes, one after the other
def test_the_example_of_a_cluster_runs_as_written(tmp_path: Path) -> None:
    for missing in filter(None, map(lacks, needs_of(PAGE))):
        pytest.skip(missing)
    shell = Shell(tmp_path, example=PAGE.parent, installed=True)
    started, *others = steps_of(PAGE)
    try:
        with one_start_at_a_time():
            shell.do(started)
        for step in others:
            shell.do(step)
    finally:
        shell.close()
        left = end_what_is_left(tmp_path / "work/machines")
    assert left == []


def end_what_is_left(machines: Path) -> list[int]:
    """Kill what nodes of the page have left, if one of its commands failed; say what that was."""
    found = [pid for place in machines.glob("*/ray.pid") for pid in below(int(place.read_text()))]
    left = [pid for pid in found if belongs_to(pid, machines)]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def belongs_to(pid: int, machines: Path) -> bool:
    """Whether a process has its home below; an id may have become that of another program."""
    try:
        return f"HOME={machines}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
