"""Tools that use up what they get, and projects in unusual places: a run is confined as ever, and ends."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import fuse_file_system
from tests.attacks.isolation.test_surroundings import (
    NO_POWER,
    OWN_NAMESPACE,
    cells_by_namespace,
    script,
    true,
)
from tests.attacks.isolation.world import World
from tests.users import BOB

FORK_FOR_EVER = "while :; do sleep 600 & done"
TEMP = 4 << 20
WRITES = 'echo new > "$0/made" && cat "$0/made"; echo x > "$0/.git/config" || echo kept'
STARTED_MS, PATIENCE_MS = 1500, 60_000


def shell(world: World, text: str, *args: str | Path, around: Any = (), **policy: Any) -> dict[str, Any]:
    """The answer to a line for the shell, in a cell."""
    given = {"tier": "cell", "require": "cell", **policy}
    return world.run(["/bin/sh", "-c", text, *args], given, around, timeout_ms=30_000)


@pytest.mark.parametrize("tier", ["walls", "cell"])
def test_a_full_dev_shm_keeps_nobody_from_running(world: World, tier: str) -> None:
    cells_by_namespace(world)
    fill = (
        "mount -t tmpfs -o size=4k none /dev/shm; head -c 9999 /dev/zero > /dev/shm/full 2>/dev/null || true"
    )
    enforced = true(world, script(fill), tier=tier, require=tier)["enforced"]
    assert enforced["level"] == tier


@pytest.mark.first_case
@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm", '"$HOME"'])
def test_a_tool_that_fills_its_private_places_fills_nothing_else(world: World, place: str) -> None:
    """They are one file system, which ends with the run."""
    world.fill()
    home = str(world.root / "home")
    text = f"export HOME={home}; head -c {2 * TEMP} /dev/zero > {place}/much; wc -c < {place}/much"
    answer = shell(world, text, home=home, limits={"temp": TEMP})
    assert answer["enforced"]["limits"] == ["temp"]
    assert int(answer["stdout"]) <= TEMP
    assert "No space left" in answer["stderr"]
    assert not any(Path(each, "much").exists() for each in ("/tmp", "/var/tmp", "/dev/shm", home))


def test_a_tool_that_forks_for_ever_gets_no_further_than_its_limit_and_is_ended(world: World) -> None:
    policy = {"tier": "cell", "require": "cell", "limits": {"processes": 200}}
    groups = world.probe([])["groups"]
    is_counted = world.uid != 0 or (groups is not None and "processes" in groups["limits"])
    limit_ms = PATIENCE_MS if is_counted else STARTED_MS
    answer = world.run(["/bin/sh", "-c", FORK_FOR_EVER], policy, (), limit_ms)
    assert answer["cleanup"]["state"] == "complete"
    if not is_counted:  # without control groups, nothing counts the processes of root
        assert (answer["kind"], answer["enforced"]["unenforced"]) == ("timeout", ["processes"])
    else:
        assert (answer["kind"], answer["enforced"]["limits"]) == ("exited", ["processes"])
        assert "Cannot fork" in answer["stderr"]


HOLDS_DESCRIPTORS = """
import os, resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
pairs, count = [], 0
try:
    while count < 4_000_000:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        pairs[-1][0].setblocking(False)
        try:
            while True:
                socket.send_fds(pairs[-1][0], [b"x"], [0] * 250)
                count += 250
        except BlockingIOError:
            pass
except OSError as refused:
    print(refused.errno)
open(sys.argv[1] + "/full", "w").close()
open(sys.argv[1] + "/over").read()
"""


def test_a_tool_that_holds_all_descriptors_it_can_keeps_nobody_from_running(world: World) -> None:
    """The kernel counts those under way for all programs of a user."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no Python of the system")
    world.fill()
    project = world.root / "project"
    for name in ("full", "over"):
        os.mkfifo(project / name)
        os.chown(project / name, world.uid, world.uid)
    command: list[str | Path] = ["/usr/bin/python3", "-c", HOLDS_DESCRIPTORS, project]
    with ThreadPoolExecutor(1) as threads:
        holder = threads.submit(world.run, command, world.policy("cell none"))
        (project / "full").read_bytes()
        other = true(world, [], tier="cell", require="cell")
        (project / "over").write_bytes(b"")
        answer = holder.result()
    assert other["success"], other
    assert (answer["stdout"].strip(), answer["return_code"]) == (str(errno.ETOOMANYREFS), 0), answer


PLACES = {
    "an overlay": "cd {0}; mkdir a b c; cp -a project/. a; "
    "mount -t overlay -o lowerdir={0}/a,upperdir={0}/b,workdir={0}/c,userxattr none project",
    "another file system": "cd {0}; cp -a project copy; mount -t tmpfs none project; cp -a copy/. project",
    "a mount in it": "mount -t tmpfs none {0}/project/deep",
    "a file system of a program": "cd {0}; mv project behind; mkdir project; mkfifo told; "
    "/usr/bin/python3 bin/fuse.py bin/fuse {0}/behind {0}/project < /dev/null > told & "
    "cd {0}; read ready < told",
}
"""Where a project may lie, and how it gets there; `{0}` is the directory around it."""

SEEN = {
    "none": ["new", "something", "deep", "something"],
    "walls": ["new", "something", "deep", "hidden"],
    "cell": ["new", "kept", "deep", "hidden"],
}
"""By tier: what a tool wrote, whether it could change `.git` or read `.env`, and what it saw of the home."""

IN_PLACE = '{0}; cd /; ended=0; {1} "$@" || ended=$?; umount -R {2}/project || true; wait; exit $ended'


def needs_fuse(world: World) -> None:
    """Make a device that this user may open, and a program that it may read."""
    if not Path("/usr/bin/python3").exists() or not Path("/dev/fuse").exists():
        pytest.skip("there is no Python of the system, or no FUSE")
    shutil.copy(Path(fuse_file_system.__file__), world.root / "bin/fuse.py")
    if os.getuid() != 0:
        (world.root / "bin/fuse").symlink_to("/dev/fuse")
    elif not (world.root / "bin/fuse").exists():
        os.mknod(world.root / "bin/fuse", 0o666 | stat.S_IFCHR, Path("/dev/fuse").stat().st_rdev)
        (world.root / "bin/fuse").chmod(0o666)


@pytest.mark.parametrize("tier", SEEN)
@pytest.mark.parametrize("name", PLACES)
def test_a_project_in_an_unusual_place_is_written_and_protected_as_elsewhere(
    world: World, name: str, tier: str
) -> None:
    cells_by_namespace(world)
    world.fill()
    if "fuse" in PLACES[name]:
        needs_fuse(world)
    project = world.root / "project"
    os.chown(world.root, world.uid, -1)
    policy = {"write": [str(project)], "protect": [f"{project}/.git"], "mask": [f"{project}/.env"]}
    given = None if tier == "none" else {"tier": tier, "require": tier, **policy}
    text = f'{WRITES}; cat "$0/.env"; echo new > "$0/deep/made" && echo deep; cat "$1" || echo hidden'
    prepared = IN_PLACE.format(PLACES[name].format(world.root), " ".join(NO_POWER), world.root)
    around = [*OWN_NAMESPACE, "sh", "-ec", prepared, "sh"]
    command: list[str | Path] = ["/bin/sh", "-c", text, project, world.root / "home/.ssh/id"]
    answer = world.run(command, given, around)
    for left in ("a", "b", "c", "copy", "behind", "told"):
        subprocess.run(["rm", "-rf", world.root / left], check=True)
    assert answer["stdout"].split() == SEEN[tier], answer
    if tier == "cell":
        assert answer["enforced"]["unenforced"] == []
    elif tier == "walls":
        assert {"protected_paths", "masked_paths"} <= set(answer["enforced"]["unenforced"])


@pytest.mark.parametrize("tier", ["walls", "cell"])
def test_a_project_behind_a_link_is_named_by_its_real_path_or_refused(world: World, tier: str) -> None:
    world.fill()
    (world.root / "shortcut").symlink_to(world.root / "project")
    named = str(world.root / "shortcut")
    refused = true(world, [], tier=tier, require=tier, write=[named])
    (world.root / "shortcut").unlink()
    assert (refused["kind"], refused["error"]["code"]) == ("spawn_failed", "policy_path")
    assert "a link is on the way" in refused["error"]["message"]


SOMEBODY_ELSES = {"none": ["new", "read"], "walls": ["new", "hidden"], "cell": ["new", "kept", "hidden"]}
"""By tier: what root's tool does in a project of another user, and whether it reads what root may."""


@pytest.mark.parametrize("tier", SOMEBODY_ELSES)
def test_a_project_of_somebody_else_in_a_shared_directory_is_no_way_to_more(world: World, tier: str) -> None:
    """Root writes it with the capabilities that this takes, and says so; others as its modes allow."""
    world.fill()
    project = world.root / "project"
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    for path in (project, *project.rglob("*")):
        os.chown(path, BOB, BOB, follow_symlinks=False)
    policy = {"tier": tier, "require": tier, "write": [str(project)], "protect": [f"{project}/.git"]}
    text = f'{WRITES}; test -n "$(cat "$1")" && echo read || echo hidden'
    command: list[str | Path] = ["/bin/sh", "-c", text, project, "/etc/shadow"]
    answer = world.run(command, None if tier == "none" else policy)
    if world.uid != 0:
        assert answer["stdout"].split() == ["kept", "hidden"], answer
        return
    assert answer["stdout"].split() == SOMEBODY_ELSES[tier], answer
    if tier != "none":
        assert answer["enforced"]["capabilities"] == ["chown", "dac_override", "fowner", "fsetid"]
