"""Snapshots: the carried bytes and nothing else, private, and gone afterwards."""

from __future__ import annotations

import os
import resource
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rye_mcp.executor.chain.files import BundledFiles
from rye_mcp.executor.job.bytecode import Bytecode
from rye_mcp.executor.job.snapshot import Snapshot, SnapshotStore
from tests.carry_world import Scene
from tests.file_helpers import UMASKS, mode_of, names_in, umask
from tests.trust_world import World, refused

RUNTIME = """\
anchor: {lib: lib}
config: {args: ["{runtime_lib}/call.py"]}
verify_deps: {extensions: [".py"]}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


@pytest.fixture
def carried(world: World) -> BundledFiles:
    scene = Scene.begin(world, RUNTIME)
    scene.sign("tools/demo/__init__.py", b"# a package\n")
    scene.sign("tools/base/lib/call.py", b"x = 1\n")
    scene.bring({"data/prices.json": b"{}", "run.sh": b"#!/bin/sh\n"})
    (scene.directory / "run.sh").chmod(0o755)
    scene.write("tools/demo/json.txt", b"nobody asked for it")
    return scene.carried()


@pytest.fixture
def store(own_place: Path) -> Iterator[SnapshotStore]:
    store = SnapshotStore(own_place / "snapshots")
    yield store
    store.close()


def tree(root: Path) -> dict[str, int]:
    """Every file below a directory, and its permissions."""
    return {path.relative_to(root).as_posix(): mode_of(path) for path in root.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("mask", UMASKS)
def test_it_is_exactly_what_is_carried_with_exactly_these_permissions(
    carried: BundledFiles, store: SnapshotStore, mask: int
) -> None:
    with umask(mask):
        snapshot = store.create(carried)
    assert tree(snapshot.root) == {
        "tools/demo/report.py": 0o400,
        "tools/demo/__init__.py": 0o400,
        "tools/demo/data/prices.json": 0o400,
        "tools/demo/run.sh": 0o500,
        "lib/call.py": 0o400,
    }
    directories = [snapshot.root, *(path for path in snapshot.root.rglob("*") if path.is_dir())]
    assert {mode_of(path) for path in directories} == {0o700}
    assert {mode_of(path) for path in (snapshot.root.parent, snapshot.root.parent.parent)} == {0o700}
    for file in (*carried.files, *carried.library):
        assert (snapshot.root / file.relative).read_bytes() == file.content
    snapshot.remove()


def test_it_says_where_everything_is(carried: BundledFiles, store: SnapshotStore) -> None:
    with store.create(carried) as snapshot:
        assert snapshot.tool_path == snapshot.root / "tools/demo/report.py"
        assert snapshot.tool_dir == snapshot.anchor_path == snapshot.root / "tools/demo"
        assert snapshot.tool_parent == snapshot.root / "tools"
        assert snapshot.runtime_lib == snapshot.root / "lib"


def test_what_is_not_there_has_no_place(world: World, store: SnapshotStore) -> None:
    with store.create(Scene.begin(world).carried()) as snapshot:
        assert snapshot.anchor_path is None
        assert snapshot.runtime_lib is None
        assert names_in(snapshot.root) == [".output", "tools"]
        assert names_in(snapshot.output_dir) == []


def test_only_a_tool_that_is_started_itself_can_be_executed(
    carried: BundledFiles, store: SnapshotStore
) -> None:
    with store.create(carried, executable_tool=True) as snapshot:
        assert mode_of(snapshot.tool_path) == 0o500
    with store.create(carried) as snapshot:
        assert mode_of(snapshot.tool_path) == 0o400


def test_its_paths_are_shown_as_those_of_the_sources(
    world: World, carried: BundledFiles, store: SnapshotStore
) -> None:
    space = world.project / ".ai"
    with store.create(carried) as snapshot:
        text = f'File "{snapshot.tool_path}", line 3 and {snapshot.root}/lib/call.py, {snapshot.root}!'
        expected = f'File "{space}/tools/demo/report.py", line 3 and {space}/tools/base/lib/call.py, {space}!'
        assert snapshot.show(text) == expected
        assert snapshot.show("nothing of it") == "nothing of it"


def test_it_is_gone_afterwards_and_may_be_removed_twice(carried: BundledFiles, store: SnapshotStore) -> None:
    with store.create(carried) as snapshot:
        station = snapshot.root.parent
        assert names_in(station) == [snapshot.root.name]
    assert names_in(station) == []
    snapshot.remove()
    store.close()
    assert names_in(station.parent) == []


def test_it_is_gone_after_a_failure_too(carried: BundledFiles, store: SnapshotStore) -> None:
    made: list[Snapshot] = []

    def fail() -> None:
        with store.create(carried) as snapshot:
            made.append(snapshot)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not made[0].root.exists()


def test_each_call_has_its_own(carried: BundledFiles, store: SnapshotStore) -> None:
    snapshots: list[Snapshot] = []
    threads = [threading.Thread(target=lambda: snapshots.append(store.create(carried))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({snapshot.root for snapshot in snapshots}) == 8
    snapshots[0].remove()
    assert all(snapshot.tool_path.is_file() for snapshot in snapshots[1:])


def test_bytecode_is_put_beside_its_sources(carried: BundledFiles, store: SnapshotStore) -> None:
    bytecode = Bytecode({"tools/demo/__pycache__/__init__.cpython-311.pyc": b"compiled"})
    with store.create(carried, bytecode=bytecode) as snapshot:
        assert (snapshot.tool_dir / "__pycache__/__init__.cpython-311.pyc").read_bytes() == b"compiled"
    with store.create(carried) as snapshot:
        assert not (snapshot.tool_dir / "__pycache__").exists()
        snapshot.add(bytecode)
        assert tree(snapshot.root)["tools/demo/__pycache__/__init__.cpython-311.pyc"] == 0o400


def test_without_room_no_bytecode_is_written(carried: BundledFiles, store: SnapshotStore) -> None:
    place = "tools/demo/__pycache__"
    bytecode = Bytecode({f"{place}/a.pyc": b"fits", f"{place}/b.pyc": b"x" * 100_000, f"{place}/c.pyc": b""})
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with store.create(carried) as snapshot:
        before = tree(snapshot.root)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            snapshot.add(bytecode)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        after = tree(snapshot.root)
        assert {path: mode for path, mode in after.items() if "__pycache__" not in path} == before
        assert not [path for path in after if path.endswith(".pyc")]
        root = snapshot.root
    assert not root.exists()


def test_nothing_stays_open(carried: BundledFiles, store: SnapshotStore) -> None:
    store.create(carried).remove()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with store.create(carried) as snapshot:
            snapshot.add(Bytecode({"tools/demo/__pycache__/x.pyc": b""}))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_place_that_was_removed_is_made_again(carried: BundledFiles, store: SnapshotStore) -> None:
    with store.create(carried) as snapshot:
        station = snapshot.root.parent
        elsewhere = station.parent.parent / "elsewhere"
        station.rename(elsewhere)
        with store.create(carried) as other:
            assert other.tool_path.is_file()
            assert other.root.parent != station


# --- where they are ---


def base_of(carried: BundledFiles, environment: dict[str, str]) -> Path:
    store = SnapshotStore(environment=environment)
    with store.create(carried) as snapshot:
        base = snapshot.root.parent.parent
    store.close()
    return base


def test_the_runtime_directory_of_the_user_comes_first(carried: BundledFiles, own_place: Path) -> None:
    directory = own_place / "run"
    directory.mkdir(mode=0o700)
    assert base_of(carried, {"XDG_RUNTIME_DIR": str(directory)}) == directory / "rye"
    assert mode_of(directory / "rye") == 0o700
    assert names_in(directory / "rye") == []


@pytest.mark.parametrize("value", ["", "relative", "/nowhere/at/all", "a\0b", "{root}/open", "{root}/file"])
def test_one_that_will_not_do_is_passed_over(own_place: Path, carried: BundledFiles, value: str) -> None:
    (own_place / "open").mkdir()
    (own_place / "open").chmod(0o777)
    (own_place / "file").touch()
    runtime = value.replace("{root}", str(own_place))
    state = own_place / "state"
    state.mkdir()
    base = base_of(carried, {"XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": str(state)})
    assert base in {state / "rye/running", Path(f"/run/user/{os.geteuid()}/rye")}
    assert names_in(own_place / "open") == []


def test_a_place_of_ones_own_is_made_private(carried: BundledFiles, own_place: Path) -> None:
    with umask(0):
        store = SnapshotStore(own_place / "mine")
        store.create(carried).remove()
    assert mode_of(own_place / "mine") == 0o700
    store.close()


def test_one_that_cannot_be_is_an_error_that_says_so(carried: BundledFiles, own_place: Path) -> None:
    (own_place / "file").touch()
    store = SnapshotStore(own_place / "file")
    error = refused("write_failed", lambda: store.create(carried))
    assert str(own_place / "file") in error.message
    assert stat.S_ISREG((own_place / "file").stat().st_mode)
