"""Attack: another user holds a lock of what they may only read, for ever: nothing is revoked or signed."""

from __future__ import annotations

import fcntl
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lilux import _files as whole_files
from rye_mcp.app import App, Settings
from rye_mcp.trust.scope import Role
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_store import revoke
from rye_mcp.verbs.new import NewRequest, new
from tests.file_helpers import names_in
from tests.trust_world import World, refused
from tests.users import ADA, BOB, as_user, two_users

WITHIN_S = 0.3
LOCK = ".lilux-lock.tmp"


@contextmanager
def held_by_bob(*paths: Path) -> Iterator[None]:
    """Another user has opened all of it that they can, and locked what they have opened."""
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setresgid(BOB, BOB, BOB)
            os.setresuid(BOB, BOB, BOB)
            for path in paths:
                fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
            os.write(ready[1], b".")
            os.read(done[0], 1)
        finally:
            os._exit(0)
    os.close(ready[1])
    assert os.read(ready[0], 1) == b"."
    try:
        yield
    finally:
        os.write(done[1], b".")
        os.waitpid(child, 0)
        for descriptor in (ready[0], *done):
            os.close(descriptor)


@pytest.fixture
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for 10 s here; a lock that can be had is had at once."""
    monkeypatch.setitem(inspect.unwrap(whole_files.lock).__kwdefaults__, "timeout_s", WITHIN_S)


@two_users
@pytest.mark.usefixtures("in_time")
def test_nobody_else_keeps_a_key_from_being_revoked_or_an_item_from_being_signed(everybody: Path) -> None:
    everybody.chmod(0o755)
    world = World(everybody / "ada")
    world.root.mkdir()
    os.chown(world.root, ADA, ADA)

    def prepare() -> None:
        world.stored(world.signed())
        world.user_space.chmod(0o755)

    def work() -> list[str]:
        revoke(world.user_space, "a" * 64, "stolen")
        file = world.file(world.file().path.read_bytes())
        sign_item(file, world.keys.load(world.key().kind), world.trust(), role=Role.TOOL)
        settings = Settings.find(
            project=world.project, user_directory=world.user_space.parent, state=world.state, environment={}
        )
        new(NewRequest("demo/second"), App.open(settings).context())
        return list(world.trust().store.revocations())

    as_user(ADA, prepare)
    with held_by_bob(world.user_space, world.file().path.parent):
        assert as_user(ADA, work) == ["a" * 64]
    assert names_in(world.file().path.parent) == ["hello.py", "second.py"]
    assert LOCK not in names_in(world.user_space)


@two_users
@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("kind", ["readable", "linked", "twice"])
def test_a_lock_that_came_with_a_clone_is_not_the_one(everybody: Path, kind: str) -> None:
    everybody.chmod(0o755)
    planted = everybody / LOCK
    if kind == "linked":
        (everybody / "other").touch()
        planted.symlink_to(everybody / "other")
    else:
        planted.touch(0o644 if kind == "readable" else 0o600)
    if kind == "twice":
        os.link(planted, everybody / "other")
        (everybody / "other").chmod(0o644)
    with held_by_bob(planted), whole_files.open_directory(everybody) as directory:
        with whole_files.lock(directory, timeout_s=WITHIN_S):
            assert planted.stat(follow_symlinks=False).st_mode & 0o777 == 0o600
        assert LOCK not in names_in(everybody)


def test_a_lock_in_an_open_directory_keeps_processes_of_the_user_apart(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with whole_files.open_directory(tmp_path) as mine, whole_files.open_directory(tmp_path) as theirs:
        with whole_files.lock(theirs):
            assert names_in(tmp_path) == [LOCK]
            with pytest.raises(TimeoutError), whole_files.lock(mine, timeout_s=0.05):
                pass
        with whole_files.lock(mine, timeout_s=0.05):
            pass
    assert names_in(tmp_path) == []


@pytest.mark.usefixtures("in_time")
def test_that_a_lock_is_held_is_said_with_what_helps(world: World) -> None:
    revoke(world.user_space, "a" * 64, "stolen")
    directory = os.open(world.user_space, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        error = refused("write_failed", lambda: revoke(world.user_space, "b" * 64, "stolen"))
    finally:
        os.close(directory)
    assert "another process holds it" in error.message
    assert error.hint is not None
    assert "lslocks" in error.hint
