"""Tools that use up what they get, and projects in unusual places: a run is confined as ever, and ends."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.isolation.test_surroundings import cells_by_namespace, script, true
from tests.attacks.isolation.world import World
from tests.users import BOB

FORK_FOR_EVER = "while :; do sleep 600 & done"
TEMP = 4 << 20
WRITES = 'echo new > "$0/made" && cat "$0/made"; echo x > "$0/.git/config" || echo kept'
STARTED_S = 1500


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
    answer = world.run(["/bin/sh", "-c", FORK_FOR_EVER], policy, (), STARTED_S)
    assert answer["cleanup"]["state"] == "complete"
    if world.uid == 0:  # whose processes no such limit counts
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
}
"""Where a project may lie, and how it gets there; `{0}` is the directory around it."""


@pytest.mark.parametrize("name", PLACES)
def test_a_project_in_an_unusual_place_is_written_and_protected_as_elsewhere(world: World, name: str) -> None:
    cells_by_namespace(world)
    world.fill()
    project = world.root / "project"
    os.chown(world.root, world.uid, -1)
    policy = {"write": [str(project)], "protect": [f"{project}/.git"], "mask": [f"{project}/.env"]}
    text = f'{WRITES}; cat "$0/.env"; echo new > "$0/deep/made" && echo deep'
    answer = shell(world, text, project, around=script(PLACES[name].format(world.root)), **policy)
    assert answer["stdout"].split() == ["new", "kept", "deep"], answer
    assert answer["enforced"]["unenforced"] == []


def test_a_project_of_somebody_else_in_a_shared_directory_is_no_way_to_more(world: World) -> None:
    """Root writes it with the capabilities that this takes, and says so; others as its modes allow."""
    world.fill()
    project = world.root / "project"
    policy = {"write": [str(project)], "protect": [f"{project}/.git"]}
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    for path in (project, *project.rglob("*")):
        os.chown(path, BOB, BOB, follow_symlinks=False)
    answer = shell(world, f'{WRITES}; cat "$1" || echo hidden', project, "/etc/shadow", **policy)
    if world.uid == 0:
        assert answer["stdout"].split() == ["new", "kept"], answer
        assert answer["enforced"]["capabilities"] == ["chown", "dac_override", "fowner", "fsetid"]
    else:
        assert answer["stdout"].split() == ["kept", "hidden"], answer
