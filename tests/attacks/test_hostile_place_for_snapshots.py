"""Attack: the place where snapshots are made is prepared, linked, full, or holds what a crash left there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rye_mcp.executor.job.snapshot import SnapshotStore
from tests.carry_world import Scene
from tests.file_helpers import names_in, run_python
from tests.trust_world import World, refused

ROOT = Path(__file__).resolve().parents[2]

# A process with a snapshot, which tells where it is and waits until it is ended or told to end.
OWNER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from rye_mcp.executor.job.snapshot import SnapshotStore
from tests.carry_world import Scene
from tests.trust_world import World
world = World(Path(sys.argv[1]))
store = SnapshotStore(Path(sys.argv[2]))
snapshot = store.create(Scene(world).carried())
print(snapshot.root, flush=True)
sys.stdin.read()
store.close()
"""


@contextmanager
def owner(world: World, place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", OWNER, str(world.root), str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene.begin(world)


@pytest.mark.parametrize("prepared", ["link", "open", "others"])
def test_a_directory_that_was_prepared_is_not_used(own_place: Path, scene: Scene, prepared: str) -> None:
    runtime = own_place / "run"
    runtime.mkdir(mode=0o700)
    trap = runtime / "rye"
    if prepared == "link":
        (own_place / "elsewhere").mkdir(mode=0o700)
        trap.symlink_to(own_place / "elsewhere")
    else:
        trap.mkdir()
        trap.chmod(0o755)
    if prepared == "others":
        if os.geteuid() != 0:
            pytest.skip("only root can give a directory to somebody else")
        trap.chmod(0o700)
        os.chown(trap, 65534, 65534)
    store = SnapshotStore(environment={"XDG_RUNTIME_DIR": str(runtime)})
    with store.create(scene.carried()) as snapshot:
        assert trap.resolve() not in snapshot.root.parents
        assert list(trap.iterdir()) == []
    store.close()
    explicit = SnapshotStore(trap)
    refused("write_failed", lambda: explicit.create(scene.carried()))
    assert list(trap.iterdir()) == []


@pytest.mark.thorough
def test_what_a_crash_left_is_swept_and_what_lives_is_not(
    world: World, scene: Scene, own_place: Path
) -> None:
    place = own_place / "snapshots"
    store = SnapshotStore(place)
    assert store.sweep() == 0
    with owner(world, place) as (dead, left), owner(world, place) as (_, living):
        assert store.sweep() == 0
        assert left.is_dir()
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert left.is_dir()
        with store.create(scene.carried()) as own:
            assert store.sweep() == 1
            assert own.tool_path.is_file()
        assert not left.parent.exists()
        assert (living / "tools/demo/report.py").is_file()
    assert store.sweep() == 1
    store.close()
    assert names_in(place) == []


@pytest.mark.usefixtures("scene")
def test_a_process_that_ends_well_leaves_nothing(world: World, own_place: Path) -> None:
    place = own_place / "snapshots"
    with owner(world, place) as (process, left):
        assert left.is_dir()
        process.communicate("")
        assert process.returncode == 0
    assert names_in(place) == []


def test_only_what_is_ours_is_swept(world: World, own_place: Path) -> None:
    place = own_place / "snapshots"
    place.mkdir(mode=0o700)
    victim = world.root / "victim"
    victim.mkdir()
    (victim / "file").write_bytes(b"mine")
    (place / f"rye-{'0' * 16}").symlink_to(victim)
    (place / f"rye-{'1' * 16}").write_bytes(b"a file")
    for name in ("rye-1", "rye-" + "G" * 16, "other", f"x-rye-{'2' * 16}"):
        (place / name).mkdir()
    before = names_in(place)
    assert SnapshotStore(place).sweep() == 0
    assert names_in(place) == before
    assert (victim / "file").read_bytes() == b"mine"


# A limit on the size of files stands for a full disk: writing fails in the middle.
FULL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import json, resource
from pathlib import Path
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.snapshot import SnapshotStore
from tests.carry_world import Scene
from tests.trust_world import World
carried = Scene(World(Path(sys.argv[1]))).carried()
store = SnapshotStore(Path(sys.argv[2]))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    store.create(carried)
except RyeError as error:
    left = [str(path) for path in Path(sys.argv[2]).rglob("*/*")]
    json.dump([error.code, error.hint, left], sys.stdout)
"""


@pytest.mark.first_case
@pytest.mark.parametrize("room", [0, 20, 3000])
def test_a_full_disk_is_said_and_nothing_is_left(
    world: World, scene: Scene, own_place: Path, room: int
) -> None:
    scene.bring({"data.json": bytes(5000)})
    place = own_place / "snapshots"
    code, hint, left = json.loads(run_python(FULL, world.root, place, room))
    assert (code, left) == ("write_failed", [])
    assert hint.startswith(f"df -h {place}/rye-")


# A small file system of one's own, in a mount namespace of its own.
MOUNTED = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import ctypes, json, subprocess
from pathlib import Path
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.snapshot import SnapshotStore
from tests.carry_world import Scene
from tests.trust_world import World
root = Path(sys.argv[1])
carried = Scene(World(root)).carried()
libc = ctypes.CDLL(None, use_errno=True)
place = Path(sys.argv[4])
mounted = not libc.unshare(0x20000) and not libc.mount(None, b"/", None, 0x4000 | 0x40000, None)
mounted = mounted and not libc.mount(b"tmpfs", bytes(place), b"tmpfs", int(sys.argv[2]), sys.argv[3].encode())
if not mounted:
    sys.exit(json.dump(None, sys.stdout))
store = SnapshotStore(environment={{"XDG_RUNTIME_DIR": str(place)}})
answer = []
for executable in (False, True):
    with store.create(carried, executable_tool=executable) as snapshot:
        inside = place in snapshot.root.parents
        started = executable and subprocess.run([snapshot.tool_path]).returncode == 0
        answer.append([inside, started])
json.dump([answer, [path.name for path in place.rglob("rye-*/*")]], sys.stdout)
"""
NO_EXEC, PLAIN = 8, 0


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("flags", "options", "expected"),
    [
        (PLAIN, "mode=700,size=1m", [[True, False], [True, True]]),
        (NO_EXEC, "mode=700,size=1m", [[True, False], [False, True]]),
        (PLAIN, "mode=700,size=4k", [[False, False], [False, True]]),
    ],
    ids=["good", "noexec", "full"],
)
def test_a_place_without_room_or_with_noexec_is_passed_over(
    world: World, own_place: Path, flags: int, options: str, expected: list[list[bool]]
) -> None:
    scene = Scene.begin(world)
    script = scene.directory / "report.py"
    script.unlink()
    scene.sign("tools/demo/report.sh", b"#!/bin/sh\n# /// rye\n# executor_id: base/runtime\n# ///\nexit 0\n")
    scene.bring({"data.bin": bytes(20_000)})
    answer = json.loads(run_python(MOUNTED, world.root, flags, options, own_place))
    if answer is None:
        pytest.skip("nothing can be mounted here")
    assert answer == [expected, []]
