"""Attack: another user of the machine puts code where everybody may write, for interpreters to find."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from rye_mcp.executor.job.snapshot import SnapshotStore, private_directory
from tests.carry_world import Scene
from tests.file_helpers import names_in, run_python
from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World, refused

ROOT = Path(__file__).resolve().parents[2]

# In a mount namespace of its own: /dev/shm for everybody, a home directory for the victim. The stranger
# brings a package, and the victim's signed tool asks for one of that name.
TWO_USERS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import ctypes, json, os, subprocess
from pathlib import Path
from rye_mcp.executor.job.snapshot import SnapshotStore
from tests.carry_world import Scene
from tests.trust_world import World

libc = ctypes.CDLL(None, use_errno=True)
mounted = not libc.unshare(0x20000) and not libc.mount(None, b"/", None, 0x4000 | 0x40000, None)
for place, options in ((b"/dev/shm", b"mode=1777"), (b"/mnt", b"mode=755")):
    mounted = mounted and not libc.mount(b"tmpfs", place, b"tmpfs", 0, options)
if not mounted:
    sys.exit(json.dump(None, sys.stdout))

def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)

stranger = os.fork()
if not stranger:
    become(65534)
    package = Path("/dev/shm/node_modules/wanted")
    package.mkdir(parents=True)
    (package / "index.js").write_text("module.exports = 'of a stranger'")
    os._exit(0)
assert os.waitpid(stranger, 0)[1] == 0
home = Path("/mnt/home")
home.mkdir(mode=0o700)
os.chown(home, 65533, 65533)
become(65533)
scene = Scene.begin(World(home))
(scene.directory / "report.py").unlink()
head = b"#!/usr/bin/env node\\n// /// rye\\n// executor_id: base/runtime\\n// ///\\n"
scene.sign("tools/demo/report.js", head + b"console.log(require('wanted'))\\n")
store = SnapshotStore(environment={{"HOME": str(home)}})
with store.create(scene.carried(), executable_tool=True) as snapshot:
    ran = subprocess.run([snapshot.tool_path], capture_output=True, text=True, cwd="/")
    json.dump([ran.stdout, "MODULE_NOT_FOUND" in ran.stderr], sys.stdout)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_package_beside_the_place_of_private_copies_is_not_found(world: World) -> None:
    answer = json.loads(run_python(TWO_USERS))
    if answer is None:
        pytest.skip("nothing can be mounted here")
    assert answer == ["", True]


def writable_by_others(path: Path) -> list[str]:
    """The directories above a place, and itself, where another user can make something."""
    return [str(each) for each in (path, *path.parents) if stat.S_IMODE(each.stat().st_mode) & 0o022]


def test_no_other_user_can_write_above_a_private_copy(world: World, own_place: Path) -> None:
    store = SnapshotStore(environment={"HOME": str(own_place)})
    with store.create(Scene.begin(world).carried()) as snapshot:
        assert writable_by_others(snapshot.root) == []
    store.close()


def test_examples_are_run_in_such_a_place_too(own_place: Path) -> None:
    with private_directory({"HOME": str(own_place)}) as directory:
        assert directory.is_dir()
        assert writable_by_others(directory) == []
    assert not directory.exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_directory_below_a_shared_one_is_refused(world: World, own_place: Path, mode: int) -> None:
    shared = own_place / "shared"
    (shared / "mine").mkdir(parents=True, mode=0o700)
    shared.chmod(mode)
    store = SnapshotStore(shared / "mine/place")
    error = refused("write_failed", lambda: store.create(Scene.begin(world).carried()))
    assert "expected that no other user can write here" in error.message
    assert names_in(shared / "mine") == []


# Somebody else brings the package while the tool runs; here the tool does it, so that nothing is raced.
LATE = """\
// /// rye
// version: 1.0.0
// executor_id: node_runtime
// ///
const fs = require("node:fs");
exports.execute = async ({ place }) => {
  fs.mkdirSync(`${place}/node_modules/late`, { recursive: true });
  fs.writeFileSync(`${place}/node_modules/late/index.js`, "module.exports = 'of a stranger'");
  try {
    return (await import("late")).default;
  } catch (error) {
    return error.code;
  }
};
"""


async def test_a_package_that_comes_above_a_private_copy_while_it_runs_is_not_found(
    world: World, own_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("node", monkeypatch)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own_place))
    workshop = Workshop(world)
    tool = workshop.sign("demo/tool.cjs", LATE)
    assert await workshop.data(tool, {"place": str(own_place)}) == "ERR_MODULE_NOT_FOUND"
