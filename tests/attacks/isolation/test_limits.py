"""Limits of a whole run, by control groups where they are delegated; elsewhere the result tells of them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.isolation.test_surroundings import cells_by_namespace, script
from tests.attacks.isolation.world import World

MEMORY = 64 << 20
TAKES = "import sys; taken = b'x' * int(sys.argv[1]); print(len(taken))"
PYTHON = "/usr/bin/python3"
WITHOUT = "mount -t tmpfs none /sys/fs/cgroup"


def groups(world: World, limit: str) -> Path:
    """Where they are made on this machine."""
    facts = world.probe([])
    if facts["groups"] is None or limit not in facts["groups"]["limits"]:
        pytest.skip(f"nothing is delegated: {facts['no_groups']}")
    return Path(facts["groups"]["directory"])


def run(world: World, *command: str, tier: str, around: Any = (), **limits: int) -> dict[str, Any]:
    policy = {"tier": tier, "require": tier, "limits": limits}
    return world.run([*command], policy, around, timeout_ms=30_000)


@pytest.mark.parametrize("tier", ["none", "walls", "cell"])
def test_all_memory_of_a_run_is_limited_together(world: World, tier: str) -> None:
    directory = groups(world, "memory")
    before = set(directory.iterdir())
    less = run(world, PYTHON, "-c", TAKES, str(MEMORY // 8), tier=tier, memory=MEMORY)
    assert (less["stdout"].strip(), less["enforced"]["limits"]) == (str(MEMORY // 8), ["memory"])
    more = run(world, PYTHON, "-c", TAKES, str(4 * MEMORY), tier=tier, memory=MEMORY)
    assert (more["kind"], more["signal"]) == ("signaled", 9)
    assert set(directory.iterdir()) == before


@pytest.mark.parametrize("tier", ["none", "walls", "cell"])
def test_all_processes_of_a_run_are_limited_together(world: World, tier: str) -> None:
    groups(world, "processes")
    forks = "for i in $(seq 64); do sleep 600 & done; echo all"
    answer = run(world, "/bin/sh", "-c", forks, tier=tier, processes=32)
    assert "Cannot fork" in answer["stderr"]
    assert answer["enforced"]["limits"] == ["processes"]
    assert answer["cleanup"]["state"] == "complete"


@pytest.mark.parametrize("tier", ["walls", "cell"])
def test_without_groups_it_is_said_what_is_not_limited(world: World, tier: str) -> None:
    cells_by_namespace(world)
    around = script(WITHOUT)
    facts = world.probe(around)
    assert facts["groups"] is None
    assert "cgroup" in facts["no_groups"] or "control groups" in facts["no_groups"]
    enforced = run(world, "/bin/true", tier=tier, around=around, memory=MEMORY, temp=MEMORY)["enforced"]
    assert "memory" in enforced["unenforced"]
    assert enforced["limits"] == (["temp"] if tier == "cell" else [])
    assert ("temp" in enforced["unenforced"]) == (tier == "walls")


GROUPS = """
mount -t cgroup2 none {0}
mkdir {0}/{1}
enter='echo $$ > {0}/{1}/cgroup.procs; exec unshare --cgroup --mount sh -ec "$0" "$@"'
sh -ec "$enter" '{2}' "$@" && ended=0 || ended=$?
rmdir {0}/{1}/*/ {0}/{1}
exit $ended
"""
LEFT = """
umount {0}
mount -t cgroup2 none {0}
cd {0}; mkdir lilux-7-5 lilux-8-5 lilux-9-{1} other-7-5; cd /
sleep 600 & echo $! > {0}/lilux-8-5/cgroup.procs
"$0" "$@"
ls -d {0}/*-*-* > {2}
kill $!; wait $! || true
"""
"""Of a run long ago, of one that goes on, of one that begins just now, and of somebody else."""


def test_what_killed_supervisors_have_left_is_removed_and_no_group_that_is_used(
    world: World, tmp_path: Path
) -> None:
    """In groups of the kernel's own, below one that is made for this test."""
    if world.uid != 0:
        pytest.skip("only root can make groups that nobody has delegated")
    place, told, name = tmp_path / "groups", tmp_path / "told", f"rye-{tmp_path.name}-{os.getpid()}"
    place.mkdir()
    if subprocess.run(["unshare", "-m", "mount", "-t", "cgroup2", "none", place], check=False).returncode:
        pytest.skip("control groups of version 2 cannot be mounted here")
    text = GROUPS.format(place, name, LEFT.format(place, time.clock_gettime_ns(time.CLOCK_BOOTTIME), told))
    facts = world.probe(["sh", "-ec", text, "sh"])
    assert facts["groups"] is None or str(place) in facts["groups"]["directory"]
    left = [Path(each).name for each in told.read_text().split()]
    assert [each.rpartition("-")[0] for each in left] == ["lilux-8", "lilux-9", "other-7"], left
