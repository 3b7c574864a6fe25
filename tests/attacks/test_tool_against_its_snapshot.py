"""Attack: what runs in a snapshot does something to it, so that something else is removed, or it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rye_mcp.executor.job.bytecode import Bytecode
from rye_mcp.executor.job.snapshot import Snapshot, SnapshotStore
from tests.carry_world import Scene
from tests.file_helpers import names_in
from tests.trust_world import World, refused


@pytest.fixture
def store(own_place: Path) -> Iterator[SnapshotStore]:
    store = SnapshotStore(own_place / "snapshots")
    yield store
    store.close()


@pytest.fixture
def victim(world: World) -> Path:
    """A directory of the user with the very names that a snapshot has in it."""
    victim = world.root / "victim"
    (victim / "demo").mkdir(parents=True)
    (victim / "demo/report.py").write_bytes(b"mine")
    return victim


def link_in_the_place_of_a_directory(snapshot: Snapshot, victim: Path) -> None:
    shutil.rmtree(snapshot.root / "tools")
    (snapshot.root / "tools").symlink_to(victim)


def link_in_the_place_of_a_file(snapshot: Snapshot, victim: Path) -> None:
    snapshot.tool_path.unlink()
    snapshot.tool_path.symlink_to(victim / "demo/report.py")
    (snapshot.tool_dir / "loop").symlink_to("loop")
    (snapshot.tool_dir / "up").symlink_to("/")


def link_in_the_place_of_all(snapshot: Snapshot, victim: Path) -> None:
    shutil.rmtree(snapshot.root)
    snapshot.root.symlink_to(victim)


def file_in_the_place_of_all(snapshot: Snapshot, _: Path) -> None:
    shutil.rmtree(snapshot.root)
    snapshot.root.write_bytes(b"")


def nothing_left(snapshot: Snapshot, _: Path) -> None:
    shutil.rmtree(snapshot.root)


def no_permissions(snapshot: Snapshot, _: Path) -> None:
    deep = snapshot.tool_dir / "a/b/c"
    deep.mkdir(parents=True)
    (deep / "file").touch(0)
    for path in (deep, deep.parent, snapshot.tool_dir, snapshot.root / "tools", snapshot.root):
        path.chmod(0)


def new_files(snapshot: Snapshot, _: Path) -> None:
    os.mkfifo(snapshot.tool_dir / "fifo")
    (snapshot.root / ".0").mkdir()
    (snapshot.root / ".1").write_bytes(b"a name that is used when it is removed")
    (snapshot.tool_dir / os.fsdecode(b"no text \xff\n")).mkdir()
    for number in range(2000):
        (snapshot.tool_dir / f"{number}").touch()


def hard_link(snapshot: Snapshot, victim: Path) -> None:
    os.link(victim / "demo/report.py", snapshot.tool_dir / "linked")


def very_deep(snapshot: Snapshot, _: Path) -> None:
    """Deeper than any path may be long, and than there are descriptors."""
    script = "import os\nfor _ in range(3000):\n os.mkdir('d'); os.chdir('d')\nopen('file', 'w').close()"
    subprocess.run([sys.executable, "-c", script], cwd=snapshot.tool_dir, check=True)


def test_bytecode_is_not_written_through_a_link(world: World, store: SnapshotStore, victim: Path) -> None:
    with store.create(Scene.begin(world).carried()) as snapshot:
        link_in_the_place_of_a_directory(snapshot, victim)
        refused("write_failed", lambda: snapshot.add(Bytecode({"tools/demo/evil.pyc": b"evil"})))
    assert names_in(victim / "demo") == ["report.py"]


@pytest.mark.first_case
@pytest.mark.parametrize(
    "attack",
    [
        link_in_the_place_of_a_directory,
        link_in_the_place_of_a_file,
        link_in_the_place_of_all,
        file_in_the_place_of_all,
        nothing_left,
        no_permissions,
        new_files,
        hard_link,
        very_deep,
    ],
    ids=lambda attack: attack.__name__,
)
def test_it_is_removed_and_nothing_else(
    world: World, store: SnapshotStore, victim: Path, attack: Callable[[Snapshot, Path], None]
) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with store.create(Scene.begin(world).carried()) as snapshot:
        station = snapshot.root.parent
        opened = len(list(Path("/proc/self/fd").iterdir()))
        attack(snapshot, victim)
    assert (victim / "demo/report.py").read_bytes() == b"mine"
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    assert opened <= before + 1
    if attack in {link_in_the_place_of_all, file_in_the_place_of_all}:
        assert names_in(station) in ([], [snapshot.root.name])  # what is no directory of ours is not entered
        store.close()
        assert not station.exists()
    else:
        assert names_in(station) == []
