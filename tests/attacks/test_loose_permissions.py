"""Somebody else on the machine can read a key, or write what decides who is trusted."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, refused, stopped

PRIVATE = {
    "keys": 0o750,
    "keys/person": 0o705,
    "keys/person/private_key.pem": 0o640,
    "keys/person/public_key.pem": 0o664,
    ".": 0o777,
}


def mended_by_its_hint(hint: str | None, action: Callable[[], object]) -> None:
    """The hint is one command, and it fixes it."""
    assert hint is not None
    assert shlex.split(hint)[0] == "chmod"
    subprocess.run(shlex.split(hint), check=True)
    action()


@pytest.mark.parametrize(("name", "mode"), PRIVATE.items(), ids=PRIVATE)
def test_a_loose_key_signs_nothing(world: World, name: str, mode: int) -> None:
    world.key()
    path = world.user_space / name
    path.chmod(mode)
    error = refused("unsafe_permissions", lambda: world.keys.load(SignerKind.PERSON))
    mended_by_its_hint(error.hint, lambda: world.keys.load(SignerKind.PERSON))


@pytest.mark.parametrize("name", ["keys", "keys/person"])
def test_a_loose_directory_is_not_even_looked_into(world: World, name: str) -> None:
    world.key()
    (world.user_space / name).chmod(0o711)
    refused("unsafe_permissions", lambda: world.keys.show(SignerKind.PERSON))


@pytest.mark.parametrize("name", ["keys", "keys/person"])
def test_a_loose_directory_gets_no_new_key(world: World, name: str) -> None:
    path = world.user_space / name
    path.mkdir(parents=True)
    for each in (world.user_space / "keys", path):
        each.chmod(0o700)
    path.chmod(0o770)
    refused("unsafe_permissions", lambda: world.keys.generate(SignerKind.PERSON))
    assert not list(world.user_space.rglob("*.pem"))


TRUSTED = {
    "trusted_keys": 0o770,
    "trusted_keys/DOCUMENT": 0o666,
    ".": 0o775,
    "keys/agent/public_key.pem": 0o666,
}


@pytest.mark.parametrize(("name", "mode"), TRUSTED.items(), ids=TRUSTED)
def test_what_others_may_write_trusts_nobody(world: World, name: str, mode: int) -> None:
    world.key(SignerKind.AGENT)
    file = world.signed()
    world.verify(file)
    document = next(world.user_space.glob("trusted_keys/*.toml"))
    path = world.user_space / name.replace("DOCUMENT", document.name)
    path.chmod(mode)
    error = stopped(world, "unsafe_permissions", file)
    mended_by_its_hint(error.hint, lambda: world.verify(file))


@pytest.mark.parametrize("name", [".", "projects", "projects/FILE"])
def test_decisions_that_others_may_see_or_change_decide_nothing(world: World, name: str) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    file = world.signed(key=mia)
    decisions = next(world.state.glob("projects/*.json"))
    path = world.state / name.replace("FILE", decisions.name)
    path.chmod(path.stat().st_mode | 0o020)
    error = stopped(world, "unsafe_permissions", file)
    mended_by_its_hint(error.hint, lambda: world.verify(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["trusted_keys", "trusted_keys/DOCUMENT", "."])
def test_what_belongs_to_somebody_else_trusts_nobody(world: World, name: str) -> None:
    file = world.signed()
    document = next(world.user_space.glob("trusted_keys/*.toml"))
    os.chown(world.user_space / name.replace("DOCUMENT", document.name), 12345, -1)
    stopped(world, "unsafe_permissions", file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["keys", "keys/person", "keys/person/private_key.pem"])
def test_a_key_of_somebody_else_signs_nothing(world: World, name: str) -> None:
    world.key()
    os.chown(world.user_space / name, 12345, -1)
    error = refused("unsafe_permissions", lambda: world.keys.load(SignerKind.PERSON))
    assert "chown" in (error.hint or "")


def test_nothing_that_is_made_is_loose(world: World) -> None:
    before = os.umask(0)
    try:
        world.key()
        world.key(SignerKind.AGENT)
        mia = TrustDocument.create(new_key().public, "mia")
        world.trust().store.decide(mia, Decision.DENIED)
    finally:
        os.umask(before)
    modes = {
        path: path.stat().st_mode & 0o777
        for space in (world.user_space, world.state)
        for path in space.rglob("*")
    }
    for path, mode in modes.items():
        private = "keys" in path.parts or path.is_relative_to(world.state)
        public = path.name == "public_key.pem" or "trusted_keys" in path.parts
        assert mode & (0o022 if public else 0o077 if private else 0o022) == 0, f"{path}: {mode:o}"


def test_a_key_that_is_left_in_peace_still_loads(world: World) -> None:
    assert world.key().public == world.keys.show(SignerKind.PERSON)
    assert isinstance(world.keys.directory(SignerKind.PERSON), Path)
