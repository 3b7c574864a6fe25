"""What is enforced where something is missing: each level becomes the next, or a refusal, and says why."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.isolation.world import World

LANDLOCK = 444
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
OPEN_TREE = 428
ALWAYS_OPEN = ("metadata_outside", "cmdlines")
"""What walls never close."""

NO_POWER = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
OWN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]


def missing(world: World, number: int) -> list[str | Path]:
    return [world.ways, "without", str(number)]


def script(text: str) -> list[str]:
    """What is prepared in a user namespace; the command follows without any power."""
    return [*OWN_NAMESPACE, "sh", "-ec", f'{text}; exec {" ".join(NO_POWER)} "$@"', "sh"]


def true(world: World, around: Sequence[str | Path], **policy: Any) -> dict[str, Any]:
    return world.run(["/bin/true"], policy, around)


def cells_by_namespace(world: World) -> None:
    """These tests take away what only a machine with user namespaces has."""
    if world.probe(NO_POWER if world.uid == 0 else [])["cell"] != "user_namespace":
        pytest.skip("this machine has no user namespaces")


def test_without_landlock_a_cell_says_what_it_lacks_and_walls_are_nothing(world: World) -> None:
    around = missing(world, LANDLOCK)
    facts = world.probe(around)
    assert (facts["landlock"], facts["cell"] is None) == (0, False)
    cell = true(world, around, tier="cell", require="cell")["enforced"]
    assert (cell["level"], cell["unenforced"]) == ("cell", ["passed_directories"])
    walls = true(world, around, tier="walls")["enforced"]
    assert (walls["level"], walls["unenforced"]) == ("none", ["everything"])
    assert "Landlock" in walls["reason"]
    refused = true(world, around, tier="walls", require="walls")
    assert (refused["kind"], refused["error"]["code"]) == ("spawn_failed", "isolation_unavailable")


OLDER = [
    (5, ["signals"], ["abstract_sockets"]),
    (4, ["device_ioctls", "signals"], ["abstract_sockets"]),
    (2, ["truncate", "device_ioctls", "signals"], ["abstract_sockets"]),
]
"""Versions of Landlock, and what they leave open in walls and in a cell that shares the network."""


@pytest.mark.first_case
@pytest.mark.parametrize(("version", "in_walls", "in_cell"), OLDER)
def test_an_older_landlock_leaves_open_what_it_says(
    world: World, version: int, in_walls: list[str], in_cell: list[str]
) -> None:
    around: list[str | Path] = [world.ways, "older", str(version)]
    assert world.probe(around)["landlock"] == version
    walls = true(world, around, tier="walls", require="walls")["enforced"]
    assert walls["level"] == "walls"
    assert [name for name in walls["unenforced"] if name not in ALWAYS_OPEN] == in_walls
    cell = true(world, around, tier="cell", require="cell", net="any")["enforced"]
    assert (cell["level"], cell["unenforced"]) == ("cell", in_cell)


@pytest.mark.parametrize(("version", "are_told_apart"), [(4, True), (3, False)])
def test_ports_are_told_apart_or_refused_where_that_is_required(
    world: World, version: int, are_told_apart: bool
) -> None:
    around: list[str | Path] = [world.ways, "older", str(version)]
    ports: dict[str, Any] = {"tier": "walls", "net": {"ports": [443]}}
    enforced = true(world, around, **ports)["enforced"]
    assert enforced["net"] == ({"ports": [443]} if are_told_apart else "any")
    assert ("ports" in enforced["unenforced"]) != are_told_apart
    required = true(world, around, **ports, require="walls")
    assert (required["error"] is None) == are_told_apart
    assert are_told_apart or required["error"]["code"] == "isolation_unavailable"
    # Without any network there is nothing to be told apart.
    assert true(world, around, tier="walls", require="walls")["enforced"]["net"] == "none"


def test_without_seccomp_nothing_is_enforced(world: World) -> None:
    around = missing(world, SECCOMP)
    answer = true(world, around, tier="cell")
    assert (answer["success"], answer["enforced"]["level"]) == (True, "none")
    refused = true(world, around, tier="cell", require="walls")
    assert refused["error"]["code"] == "isolation_unavailable"


def test_where_mounts_cannot_be_copied_walls_are_left(world: World) -> None:
    around = missing(world, OPEN_TREE)
    facts = world.probe(around)
    assert facts["cell"] is None
    assert "place" in facts["no_cell"]
    answer = true(world, around, tier="cell", require="walls")
    assert (answer["enforced"]["level"], answer["enforced"]["reason"]) == ("walls", facts["no_cell"])
    assert true(world, around, tier="cell", require="cell")["error"]["code"] == "isolation_unavailable"


def test_root_without_any_capability_is_left_with_walls(world: World) -> None:
    """Only who may give files capabilities may map root into a user namespace."""
    if world.uid != 0:
        pytest.skip("others map themselves")
    around = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    enforced = true(world, around, tier="cell", require="walls")["enforced"]
    assert (enforced["level"], "namespaces" in enforced["reason"]) == ("walls", True)


def test_root_without_power_makes_cells_as_others_do(world: World) -> None:
    cells_by_namespace(world)
    around = NO_POWER if world.uid == 0 else []
    enforced = true(world, around, tier="cell", require="cell")["enforced"]
    assert (enforced["level"], enforced["proc"], enforced["unenforced"]) == ("cell", "private", [])


def test_in_a_chroot_of_root_walls_are_left(world: World, tmp_path: Path) -> None:
    """What is above it would be in reach of two cells."""
    if world.uid != 0:
        pytest.skip("only root makes one")
    enter = 'mount --rbind / "$0"; exec chroot "$0" "$@"'
    around: list[str | Path] = ["sh", "-ec", enter, tmp_path]
    facts = world.probe(around)
    assert facts["cell"] is None
    assert "namespaces" in facts["no_cell"]
    enforced = true(world, around, tier="cell", require="walls")["enforced"]
    assert (enforced["level"], enforced["reason"]) == ("walls", facts["no_cell"])


def test_where_namespaces_are_used_up_walls_are_left(world: World) -> None:
    cells_by_namespace(world)
    around = script("echo 0 > /proc/sys/user/max_user_namespaces")
    facts = world.probe(around)
    assert (facts["cell"], "No space" in facts["no_cell"]) == (None, True)
    assert true(world, around, tier="cell")["enforced"]["level"] == "walls"


def test_a_masked_proc_is_shared_and_that_is_said(world: World) -> None:
    cells_by_namespace(world)
    around = script("mount -t tmpfs none /proc/sys")
    facts = world.probe(around)
    assert (facts["cell"], facts["proc"]) == ("user_namespace", "shared")
    enforced = true(world, around, tier="cell", require="cell")["enforced"]
    assert (enforced["proc"], enforced["unenforced"]) == ("shared", ["cmdlines"])


def test_inside_a_cell_there_are_walls(world: World) -> None:
    policy = {"tier": "cell", "require": "cell", "read": [str(world.root / "bin")]}
    answer = world.run([world.binary, "probe"], policy)
    facts = json.loads(answer["stdout"])
    assert facts["cell"] is None
    assert facts["landlock"] > 0
    inner = world.run(["/bin/sh", "-c", 'exec "$0" exec --cmd /bin/true', world.binary], policy)
    assert json.loads(inner["stdout"])["success"]


def test_a_place_that_changes_between_look_and_use_is_not_shown(world: World) -> None:
    """A link that was a directory when somebody looked is refused, whoever put it there."""
    world.fill()
    swapped = world.root / "project" / "swapped"
    swapped.symlink_to(world.root / "home")
    refused = true(world, [], tier="cell", require="cell", write=[str(swapped)])
    assert refused["error"]["code"] == "policy_path"
    protected = true(world, [], tier="cell", write=[str(world.root / "project")], protect=[str(swapped)])
    assert protected["error"]["code"] == "policy_path"
