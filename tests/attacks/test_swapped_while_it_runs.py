"""Attack: a file is exchanged between the moment that it was verified and the moment that it runs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.job.snapshot import SnapshotStore
from tests.carry_world import Scene
from tests.trust_world import World

ROUNDS = 300
EXCHANGES = 1000
EVIL = b"evil()\n"
REFUSALS = {"unsigned", "content_changed", "malformed_signature", "unsafe_path", "item_not_found"}

# Exchanges each file for another one and back, in every way that is quick, until it is told to end.
SWAPPER = """
import os, sys
evil, *paths = sys.argv[1:]
kept = {path: open(path, "rb").read() for path in paths}
print(flush=True)
count = 0
while os.getppid() == PARENT:
    if count > ENOUGH and not os.path.exists(sys.argv[1] + ".enough"):
        open(sys.argv[1] + ".enough", "w").close()
    for path in paths:
        with open(path, "r+b") as file:
            file.write(b"evil()\\n"); file.truncate()
        with open(path, "r+b") as file:
            file.write(kept[path])
        os.rename(path, path + ".kept"); os.symlink(evil, path)
        os.rename(path + ".kept", path)
        with open(path + ".new", "wb") as file:
            file.write(b"evil()\\n")
        os.rename(path, path + ".kept"); os.rename(path + ".new", path)
        os.rename(path + ".kept", path)
        count += 3
        if os.path.exists(sys.argv[1] + ".stop"):
            sys.exit()
"""


@pytest.fixture
def store(own_place: Path) -> Iterator[SnapshotStore]:
    store = SnapshotStore(own_place / "snapshots")
    yield store
    store.close()


@contextmanager
def swapping(world: World, *paths: Path) -> Iterator[Path]:
    """The files are exchanged all the time; the yielded file is there once that happened often enough."""
    evil = world.root / "evil.py"
    evil.write_bytes(EVIL)
    script = SWAPPER.replace("PARENT", str(os.getpid())).replace("ENOUGH", str(EXCHANGES))
    command = [sys.executable, "-c", script, str(evil), *map(str, paths)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == "\n"
        try:
            yield world.root / "evil.py.enough"
            assert swapper.poll() is None
        finally:
            (world.root / "evil.py.stop").touch()


def rounds(scene: Scene, store: SnapshotStore, until: Path | None = None) -> tuple[int, set[bytes]]:
    """Verify and copy, many times; how often it went through, and every content that would have run."""
    trust, made = scene.world.trust(), 0
    contents: set[bytes] = set()
    refusals: set[str] = set()
    for count in itertools.count():
        if count >= ROUNDS and (until is None or until.exists()):
            break
        try:
            with store.create(scene.carried(trust)) as snapshot:
                made += 1
                contents |= {path.read_bytes() for path in snapshot.root.rglob("*") if path.is_file()}
        except RyeError as error:
            refusals.add(error.code)
    assert refusals <= REFUSALS
    return made, contents


@pytest.mark.thorough
def test_what_is_exchanged_meanwhile_never_runs(world: World, store: SnapshotStore) -> None:
    scene = Scene.begin(world)
    scene.sign("tools/demo/__init__.py", b"# a package\n")
    scene.sign("tools/demo/helper.py", b"x = 1\n")
    scene.bring({"data.py": b"y = 1\n"})
    names = ("report.py", "helper.py", "data.py")
    good = {(scene.directory / name).read_bytes() for name in (*names, "__init__.py")}
    made, contents = rounds(scene, store)
    assert (made, contents) == (ROUNDS, good)
    with swapping(world, *(scene.directory / name for name in names)) as enough:
        _, contents = rounds(scene, store, enough)
    assert contents <= good


def test_a_source_that_changes_after_it_was_copied_does_not_matter(
    world: World, store: SnapshotStore
) -> None:
    scene = Scene.begin(world)
    scene.bring({"data.json": b"{}"})
    carried = scene.carried()
    scene.write("tools/demo/report.py", EVIL)
    scene.write("tools/demo/data.json", EVIL)
    with store.create(carried) as snapshot:
        assert snapshot.tool_path.read_bytes() == carried.tool.content
        assert (snapshot.tool_dir / "data.json").read_bytes() == b"{}"
        assert snapshot.tool_path.stat().st_ino != (scene.directory / "report.py").stat().st_ino
