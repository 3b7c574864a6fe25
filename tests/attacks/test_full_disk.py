"""The disk is full, or read-only, while something is signed, generated or decided."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.decisions import decide_on
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import REVOCATIONS_FILE, Standing, revoke
from tests.file_helpers import names_in, run_python
from tests.trust_world import World, new_key, refused

# A limit on the size of files stands for a full disk: writing fails in the middle.
WITH_A_FULL_DISK = """
import json, resource, sys
from pathlib import Path
from rye_mcp.errors import RyeError
from rye_mcp.trust.trust_store import revoke
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import write_user_document
from tests.trust_world import World, new_key

world = World(Path(sys.argv[1]))
key = world.key()
file = world.file(Path(sys.argv[2]).read_bytes()) if len(sys.argv) > 2 else None
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
try:
    {action}
except RyeError as error:
    answer = error.as_dict()
    sys.stdout.write(answer["code"] + " " + answer["hint"])
"""


def with_a_full_disk(world: World, action: str, *arguments: object) -> str:
    root = Path(__file__).resolve().parents[2]
    script = f"import sys; sys.path.insert(0, {str(root)!r})\n" + WITH_A_FULL_DISK.format(action=action)
    return run_python(script, world.root, *arguments)


def test_the_item_stays_as_it_was(world: World) -> None:
    file = world.stored(world.signed())
    said = with_a_full_disk(world, "sign_item(file, key, world.trust(), role=Role.TOOL)", file.path)
    assert said.startswith("write_failed df -h ")
    assert file.path.read_bytes() == file.content
    assert names_in(file.path.parent) == ["hello.py"]
    world.verify(file)


@pytest.mark.first_case
@pytest.mark.parametrize(
    "action",
    [
        "world.keys.rotate(SignerKind.PERSON)",
        "world.keys.change_passphrase(SignerKind.PERSON, old=None, new=b'secret')",
        "world.keys.generate(SignerKind.AGENT)",
        "revoke(world.user_space, '0' * 64, 'gone')",
        "world.trust().approvals.approve_project()",
        "write_user_document(world.user_space, TrustDocument.create(new_key().public, 'mia'))",
    ],
)
def test_nothing_is_lost_and_nothing_half_written(world: World, action: str) -> None:
    world.key()
    world.project.mkdir()
    revoke(world.user_space, "1" * 64, "gone")
    world.trust().store.decide(TrustDocument.create(new_key().public, "mia"), Decision.DENIED)
    before = contents(world)
    assert with_a_full_disk(world, action).startswith("write_failed ")
    assert contents(world) == before
    world.verify(world.signed())


@pytest.mark.parametrize(("room", "standing"), [(0, Standing.UNDECIDED), (1, Standing.TRUSTED)])
def test_of_several_decisions_all_are_kept_or_none(
    world: World, room: int, standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes so many files more, and is full then."""
    world.trust().store.decide(TrustDocument.create(new_key().public, "zoe"), Decision.DENIED)
    proposals = [TrustDocument.create(new_key().public, name) for name in ("mia", "tom")]
    before, fsync, left = contents(world), os.fsync, iter(range(room))

    def fill(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill)
    if room:
        decide_on(world.trust(), proposals, Decision.ACCEPTED)
    else:
        refused("write_failed", lambda: decide_on(world.trust(), proposals, Decision.ACCEPTED))
        assert contents(world) == before
    assert [world.trust().store.standing_of(each) for each in proposals] == [standing] * 2


def contents(world: World) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in world.root.rglob("*") if path.is_file()}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_user_space_that_is_read_only_says_so(world: World) -> None:
    world.user_space.mkdir(parents=True)
    world.user_space.chmod(0o500)
    try:
        with pytest.raises(Exception, match="expected to write"):
            world.keys.generate(SignerKind.PERSON)
    finally:
        world.user_space.chmod(0o700)


def test_a_user_space_that_cannot_be_says_so(world: World) -> None:
    world.user_space.parent.write_text("a file")
    for action in (
        lambda: world.keys.ensure(SignerKind.PERSON),
        lambda: revoke(world.user_space, "0" * 64, "gone"),
    ):
        with pytest.raises(Exception, match="expected") as caught:
            action()
        assert getattr(caught.value, "code", "") in {"unsafe_path", "write_failed"}
    assert not (world.user_space / REVOCATIONS_FILE).exists()


def test_an_item_that_is_gone_is_not_written(world: World) -> None:
    file = world.file()
    with pytest.raises(Exception, match="expected") as caught:
        sign_item(file, world.key(), world.trust(), role=Role.TOOL)
    assert getattr(caught.value, "code", "") in {"write_failed", "content_changed"}
    assert not file.path.exists()
