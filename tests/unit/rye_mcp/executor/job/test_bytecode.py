"""Bytecode: compiled from verified bytes by the interpreter that runs them, and kept in memory."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lilux.primitives.subprocess import CallSpec, Halves, RuntimeSpec, SubprocessPrimitive
from rye_mcp.executor.chain.files import BundledFiles
from rye_mcp.executor.job.bytecode import MIN_SOURCE_BYTES, BytecodeStore
from rye_mcp.executor.job.snapshot import Snapshot, SnapshotStore
from tests.carry_world import Scene
from tests.trust_world import World

pytestmark = pytest.mark.both_loops

HELPER = b"""\
LOADED_FROM = __cached__
def fail():
    raise KeyError("in the helper")
"""
CACHED = f"__pycache__/helper.{sys.implementation.cache_tag}.pyc"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene.begin(World(tmp_path.resolve()), says="import helper")
    scene.bring({"helper.py": HELPER, "data.json": b"{}"})
    return scene


@pytest.fixture
def snapshots(own_place: Path) -> Iterator[SnapshotStore]:
    store = SnapshotStore(own_place / "snapshots")
    yield store
    store.close()


def spec_of(snapshot: Snapshot, *arguments: str, command: str = sys.executable) -> Halves:
    runtime = RuntimeSpec(command=command, args=["-s", "-B"])
    return Halves(runtime, CallSpec(args=arguments or (str(snapshot.tool_path),)))


async def learnt(
    carried: BundledFiles, snapshots: SnapshotStore, store: BytecodeStore | None = None
) -> BytecodeStore:
    """A store that knows what this tool imports."""
    store = store or BytecodeStore(bool, min_source_bytes=0)
    with snapshots.create(carried) as snapshot:
        assert store.known(carried, spec_of(snapshot)) is None
        await store.learn(carried, spec_of(snapshot))
    return store


async def test_modules_are_compiled_and_put_where_the_interpreter_looks(
    scene: Scene, snapshots: SnapshotStore
) -> None:
    carried = scene.carried()
    store = await learnt(carried, snapshots)
    with snapshots.create(carried) as snapshot:
        bytecode = store.known(carried, spec_of(snapshot))
        assert bytecode is not None
        assert list(bytecode.files) == [f"tools/demo/{CACHED}"]
        snapshot.add(bytecode)
        content = (snapshot.tool_dir / CACHED).read_bytes()
    unchecked = (1).to_bytes(4, "little")
    assert content[:8] == importlib.util.MAGIC_NUMBER + unchecked
    assert content[8:16] == importlib.util.source_hash(HELPER)


async def test_it_is_what_the_interpreter_loads(scene: Scene, snapshots: SnapshotStore) -> None:
    """Bytecode of other sources shows that it is used; a real one cannot be told from the source."""
    carried = scene.carried()
    other = Scene.begin(scene.world, says="import helper", tool="other/report")
    other.bring({"helper.py": b"print('from the bytecode')\n"})
    store = await learnt(other.carried(), snapshots)
    with snapshots.create(carried) as snapshot:
        known = store.known(other.carried(), spec_of(snapshot, "/x/tools/other/report.py"))
        assert known is not None
        (content,) = known.files.values()
        snapshot.add(type(known)({f"tools/demo/{CACHED}": content}))
        result = await SubprocessPrimitive().run(spec_of(snapshot).whole())
    assert "from the bytecode" in result.stdout


async def test_tracebacks_show_the_sources(scene: Scene, snapshots: SnapshotStore) -> None:
    scene.sign("tools/demo/report.py", b'__executor_id__ = "base/runtime"\nimport helper\nhelper.fail()\n')
    carried = scene.carried()
    store = await learnt(carried, snapshots)
    with snapshots.create(carried) as snapshot:
        bytecode = store.known(carried, spec_of(snapshot))
        assert bytecode is not None
        snapshot.add(bytecode)
        result = await SubprocessPrimitive().run(spec_of(snapshot).whole())
        shown = snapshot.show(result.stderr)
    assert f'File "{scene.directory}/helper.py", line 3, in fail' in shown
    assert 'raise KeyError("in the helper")' in shown
    assert str(snapshot.root) not in shown


async def test_other_bytes_have_none(scene: Scene, snapshots: SnapshotStore) -> None:
    store = await learnt(scene.carried(), snapshots)
    scene.bring({"helper.py": HELPER + b"x = 1\n"})
    carried = scene.carried()
    with snapshots.create(carried) as snapshot:
        assert store.known(carried, spec_of(snapshot)) is None


async def test_another_interpreter_has_none(scene: Scene, snapshots: SnapshotStore, tmp_path: Path) -> None:
    carried = scene.carried()
    store = await learnt(carried, snapshots)
    other = tmp_path / "python3"
    shutil.copy(sys.executable, other)
    with snapshots.create(carried) as snapshot:
        assert store.known(carried, spec_of(snapshot, command=str(other))) is None
        for command in ("/bin/cat", "node", str(tmp_path / "nowhere/python3"), "python-not-there"):
            assert store.known(carried, spec_of(snapshot, command=command)) is None


async def test_a_tool_by_itself_has_nothing_to_compile(scene: Scene, snapshots: SnapshotStore) -> None:
    (scene.directory / "deps.manifest.yaml").unlink()
    carried = scene.carried()
    store = await learnt(carried, snapshots)
    with snapshots.create(carried) as snapshot:
        assert store.known(carried, spec_of(snapshot)) is None


async def test_a_tool_that_is_imported_is_a_module_too(scene: Scene, snapshots: SnapshotStore) -> None:
    carried = scene.carried()
    store = BytecodeStore(bool, min_source_bytes=0)
    with snapshots.create(carried) as snapshot:
        spec = spec_of(snapshot, f"{snapshot.root}/lib/call.py", str(snapshot.tool_path))
        await store.learn(carried, spec)
        bytecode = store.known(carried, spec)
    assert bytecode is not None
    names = [path.rpartition("/")[2].partition(".")[0] for path in bytecode.files]
    assert names == ["report", "helper"]


async def test_what_cannot_be_compiled_is_left_out(scene: Scene, snapshots: SnapshotStore) -> None:
    scene.bring({"helper.py": HELPER, "broken.py": b"def (:\n", "nul.py": b"x = '\0'\n"})
    carried = scene.carried()
    store = await learnt(carried, snapshots)
    with snapshots.create(carried) as snapshot:
        bytecode = store.known(carried, spec_of(snapshot))
    assert bytecode is not None
    assert list(bytecode.files) == [f"tools/demo/{CACHED}"]


@pytest.mark.parametrize(
    "answer",
    [
        "exit 1",
        "echo nothing that is JSON",
        "echo '[]'",
        'echo \'{"tag": "../../x", "modules": [""]}\'',
        'echo \'{"tag": "cpython-311", "modules": []}\'',
        'echo \'{"tag": "cpython-311", "modules": ["no base64!"]}\'',
        'echo \'{"tag": "cpython-311", "modules": [1]}\'',
        "kill -9 $$",
    ],
)
async def test_an_interpreter_that_answers_anything_else_is_no_failure(
    scene: Scene, snapshots: SnapshotStore, tmp_path: Path, answer: str
) -> None:
    odd = tmp_path / "python3"
    odd.write_text(f"#!/bin/sh\n{answer}\n")
    odd.chmod(0o755)
    carried, store = scene.carried(), BytecodeStore(bool, min_source_bytes=0)
    with snapshots.create(carried) as snapshot:
        spec = spec_of(snapshot, command=str(odd))
        await store.learn(carried, spec)
        assert store.known(carried, spec) is None


async def test_what_was_not_used_for_longest_goes_first(scene: Scene, snapshots: SnapshotStore) -> None:
    modules = {f"m{number}.py": f"x = {number}\n".encode() * 20 for number in range(3)}
    scene.bring(modules)
    one = scene.carried()
    whole = await learnt(one, snapshots)
    with snapshots.create(one) as snapshot:
        spec = spec_of(snapshot)
    everything = whole.known(one, spec)
    assert everything is not None
    size = sum(map(len, everything.files.values()))
    store = BytecodeStore(bool, max_bytes=size - 1, min_source_bytes=0)
    await store.learn(one, spec)
    kept = store.known(one, spec)
    assert kept is not None
    assert len(kept.files) == 2


async def test_nothing_that_an_environment_of_python_starts_with_is_run(
    scene: Scene, snapshots: SnapshotStore, tmp_path: Path
) -> None:
    """Packages of a project are not signed; one may be installed so that it is loaded at every start."""
    base, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / f"venv/lib/{version}/site-packages"
    packages.mkdir(parents=True)
    (packages / "evil.pth").write_text("import os; os._exit(1)\n")
    (tmp_path / "venv/bin").mkdir()
    (tmp_path / "venv/bin/python3").symlink_to(base / "bin" / version)
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {base / 'bin'}\n")
    carried, store = scene.carried(), BytecodeStore(bool, min_source_bytes=0)
    with snapshots.create(carried) as snapshot:
        spec = spec_of(snapshot, command=str(tmp_path / "venv/bin/python3"))
        assert (await SubprocessPrimitive().run(spec.whole())).return_code == 1
        await store.learn(carried, spec)
        assert store.known(carried, spec) is not None


async def test_nothing_of_the_environment_reaches_the_interpreter(
    scene: Scene, snapshots: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of somebody else in its way would decide what verified sources become."""
    (tmp_path / "evil").mkdir()
    for name in ("json", "base64", "sitecustomize", "marshal"):
        (tmp_path / f"evil/{name}.py").write_text("raise SystemExit(1)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "evil"))
    monkeypatch.chdir(tmp_path / "evil")
    carried = scene.carried()
    store = await learnt(carried, snapshots)
    with snapshots.create(carried) as snapshot:
        assert store.known(carried, spec_of(snapshot)) is not None


async def test_what_is_compiled_faster_than_it_is_written_has_none(
    scene: Scene, snapshots: SnapshotStore
) -> None:
    carried, store = scene.carried(), BytecodeStore(bool)
    with snapshots.create(carried) as snapshot:
        assert not store.lacks(carried, spec_of(snapshot))
        scene.bring({"helper.py": HELPER + b"# " + b"x" * MIN_SOURCE_BYTES})
        assert store.lacks(scene.carried(), spec_of(snapshot))
