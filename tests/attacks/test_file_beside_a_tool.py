"""Signing a tool signs what it rests on: what a stranger has put there is not made anybody's own unasked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.sign import sign_content
from rye_mcp.verbs.sign import SignRequest, sign
from tests.file_helpers import run_at_once, run_python
from tests.lock_world import LockWorld, chain_of, files_below
from tests.trust_world import World, new_key, refused
from tests.verb_world import RUNTIME, agent, person, put, tool

ANCHORED = (
    RUNTIME
    + b"""\
anchor: {enabled: true, mode: always, root: tool_dir}
verify_deps: {enabled: true, scope: anchor, recursive: true}
"""
)


@pytest.fixture
def stranger() -> SigningKey:
    return new_key()


@pytest.fixture
def anchored(world: World) -> World:
    put(world, ANCHORED, "my/runtime", ".yaml", signed=True)
    put(world, tool("import helper", executor="my/runtime"))
    return world


def directory(world: World) -> Path:
    return world.project / ".ai/tools/demo"


def of_a_stranger(world: World, stranger: SigningKey) -> None:
    world.stored(world.signed(world.file(b"x = 1\n", item_id="demo/helper"), stranger))


def refused_to_an_agent(world: World, *companions: str, code: str = "person_required") -> None:
    before = files_below(world.project)
    refused(code, lambda: sign(SignRequest("demo/hello", companions=companions), agent(world)))
    assert files_below(world.project) == before


def test_an_agent_signs_no_file_of_a_stranger_along_with_its_tool(
    anchored: World, stranger: SigningKey
) -> None:
    of_a_stranger(anchored, stranger)
    refused_to_an_agent(anchored)


def test_an_agent_lists_no_file_of_a_stranger(world: World, stranger: SigningKey) -> None:
    put(world, tool())
    of_a_stranger(world, stranger)
    refused_to_an_agent(world, "helper.py")


def test_an_agent_replaces_no_listing_of_a_stranger(world: World, stranger: SigningKey) -> None:
    put(world, tool())
    file = manifest_file(world.space(), "tools/demo", render_listing({"a.json": "0" * 64}))
    (directory(world) / "deps.manifest.yaml").write_bytes(sign_content(file, stranger))
    (directory(world) / "data.json").write_bytes(b"{}")
    refused_to_an_agent(world, "data.json")


def test_what_a_stranger_listed_is_not_taken_over(world: World, stranger: SigningKey) -> None:
    put(world, tool())
    (directory(world) / "theirs.json").write_bytes(b"{}")
    (directory(world) / "data.json").write_bytes(b"{}")
    file = manifest_file(world.space(), "tools/demo", render_listing({"theirs.json": "0" * 64}))
    (directory(world) / "deps.manifest.yaml").write_bytes(sign_content(file, stranger))
    wanted = SignRequest("demo/hello", companions=("data.json",))
    refused("not_named", lambda: sign(wanted, person(world)))
    sign(replace(wanted, all_beside=True), person(world))
    assert set(chain_of(person(world)).verified.carried.digests) == {"tools/demo/data.json"}


@pytest.mark.parametrize(
    "name", ["../../../secret", "../secret", "/etc/hostname", "link", "into/secret", "pipe"]
)
def test_a_name_that_leads_elsewhere_lists_nothing(world: World, name: str) -> None:
    put(world, tool())
    (world.root / "secret").write_bytes(b"secret")
    (world.project / ".ai/tools/secret").write_bytes(b"secret")
    (directory(world) / "link").symlink_to(world.root / "secret")
    (directory(world) / "into").symlink_to(world.root)
    os.mkfifo(directory(world) / "pipe")
    refused_to_an_agent(world, name, code="unsafe_path")


def test_a_runtime_that_nobody_signed_says_nothing_about_what_is_signed(world: World) -> None:
    put(world, ANCHORED, "my/runtime", ".yaml")
    put(world, tool(executor="my/runtime"))
    (directory(world) / "helper.py").write_bytes(b"x = 1\n")
    sign(SignRequest("demo/hello"), person(world))
    assert (directory(world) / "helper.py").read_bytes() == b"x = 1\n"
    assert not (directory(world) / "deps.manifest.yaml").exists()


def test_what_was_exchanged_after_it_was_listed_does_not_run(world: World) -> None:
    put(world, tool())
    (directory(world) / "data.json").write_bytes(b"{}")
    sign(SignRequest("demo/hello", companions=("data.json",)), person(world))
    (directory(world) / "data.json").write_bytes(b"[]")
    refused("content_changed", lambda: chain_of(person(world)))


ROOT = Path(__file__).resolve().parents[2]

# A limit on the size of files stands for a disk that becomes full: each is larger than the one before it.
WITH_A_FULL_DISK = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import resource
from pathlib import Path
from rye_mcp.errors import RyeError
from rye_mcp.verbs.lock import LockUpdateRequest, lock_update
from rye_mcp.verbs.sign import SignRequest, sign
from tests.trust_world import World
from tests.verb_world import person

context = person(World(Path(sys.argv[1])))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    {{action}}
except RyeError as error:
    sys.stdout.write(error.code)
"""


@pytest.mark.first_case
@pytest.mark.parametrize(("limit", "written"), [(20, 0), (240, 1), (600, 2), (4096, 3)])
def test_a_disk_that_becomes_full_leaves_nothing_accepted_that_was_not_signed(
    anchored: World, limit: int, written: int
) -> None:
    put(anchored, tool(f"import helper  # {'x' * 600}", executor="my/runtime"))
    (directory(anchored) / "helper.py").write_bytes(b"x = 1\n")
    (directory(anchored) / "data.json").write_bytes(b"{}")
    context = person(anchored)
    before = files_below(directory(anchored))
    script = WITH_A_FULL_DISK.format(action="sign(SignRequest('demo/hello', all_beside=True), context)")
    code = run_python(script, anchored.root, limit)
    after = files_below(directory(anchored))
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {*["helper.py", "deps.manifest.yaml", "hello.py"][:written]}
    assert all(after[name].startswith(b"# rye:signed:") for name in changed)
    if written == 3:
        assert len(chain_of(context).verified.carried.digests) == 2
    else:
        assert code == "write_failed"
        refused("unsigned", lambda: chain_of(context))
        sign(SignRequest("demo/hello", all_beside=True), context)
        chain_of(context)


def test_a_full_disk_leaves_the_lockfile_that_was_there(tmp_path: Path) -> None:
    lock = LockWorld.make(tmp_path)
    lock.run()
    lock.write("print('another')")
    before = files_below(lock.path.parent)
    script = WITH_A_FULL_DISK.format(action="lock_update(LockUpdateRequest('demo/hello'), context)")
    assert run_python(script, lock.world.root, 20) == "write_failed"
    assert files_below(lock.path.parent) == before


# What takes long has been imported when all of them begin.
READY = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from tests.trust_world import *; "
    "from tests.verb_world import person; from rye_mcp.verbs.sign import SignRequest, sign"
)

SIGN_AGAIN_AND_AGAIN = """
from rye_mcp.errors import RyeError
context = person(World(Path(sys.argv[2])))
for number in range(15):
    (Path(sys.argv[2]) / "project/.ai/tools/demo" / f"data{sys.argv[3]}.json").write_text(str(number))
    try:
        sign(SignRequest("demo/hello", all_beside=True), context)
    except RyeError as error:
        assert error.code == "content_changed", error.message
"""


@pytest.mark.thorough
def test_of_several_signers_at_once_each_leaves_a_whole_file(anchored: World) -> None:
    (directory(anchored) / "helper.py").write_bytes(b"x = 1\n")
    context = person(anchored)
    run_at_once(READY + SIGN_AGAIN_AND_AGAIN, [(ROOT, anchored.root, number) for number in range(3)])
    sign(SignRequest("demo/hello", all_beside=True), context)
    names = {"helper.py", "data0.json", "data1.json", "data2.json"}
    carried = chain_of(context).verified.carried
    assert set(carried.digests) == {f"tools/demo/{name}" for name in names}
    assert set(files_below(directory(anchored))) == {*names, "hello.py", "deps.manifest.yaml"}
