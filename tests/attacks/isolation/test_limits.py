"""Limits of a whole run, by control groups where they are delegated; elsewhere the result tells of them."""

from __future__ import annotations

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
