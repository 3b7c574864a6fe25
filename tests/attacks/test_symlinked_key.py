"""Somebody puts a link, a pipe or a device where a key or a document is expected."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, refused, stopped


def linked(path: Path) -> None:
    """The same thing, through a link."""
    elsewhere = path.with_name(path.name + "-elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


KEY_PARTS = ["keys", "keys/person", "keys/person/private_key.pem", "keys/person/public_key.pem"]


@pytest.mark.parametrize("name", KEY_PARTS)
def test_a_linked_key_signs_nothing(world: World, name: str) -> None:
    world.key()
    linked(world.user_space / name)
    refused("unsafe_path", lambda: world.keys.load(SignerKind.PERSON))


@pytest.mark.parametrize("name", ["keys", "keys/person"])
def test_no_key_is_made_behind_a_link(world: World, name: str) -> None:
    target = world.root / "target"
    target.mkdir(mode=0o700)
    path = world.user_space / name
    path.parent.mkdir(parents=True, mode=0o700)
    path.symlink_to(target)
    refused("unsafe_path", lambda: world.keys.generate(SignerKind.PERSON))
    refused("unsafe_path", lambda: world.keys.ensure(SignerKind.PERSON))
    assert not list(target.iterdir())


@pytest.mark.parametrize("name", ["trusted_keys", "trusted_keys/DOCUMENT"])
def test_a_linked_document_trusts_nobody(world: World, name: str) -> None:
    file = world.signed()
    document = next(world.user_space.glob("trusted_keys/*.toml"))
    linked(world.user_space / name.replace("DOCUMENT", document.name))
    stopped(world, "unsafe_path", file)


@pytest.mark.parametrize("part", ["trusted_keys", "trusted_keys/DOCUMENT"])
def test_a_project_cannot_link_to_what_the_user_trusts_elsewhere(world: World, part: str) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.environment["RYE_TRUSTED_KEYS"] = mia.public.key_id
    path = world.propose(document)
    world.verify(world.signed(key=mia))
    linked(world.project / ".ai" / part.replace("DOCUMENT", path.name))
    stopped(world, "unsafe_path", world.signed(key=mia))


ODD: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "broken link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_what_is_no_file_is_no_document(world: World, make: Callable[[Path], None]) -> None:
    mia = new_key()
    path = world.propose(TrustDocument.create(mia.public, "mia"))
    path.unlink()
    make(path)
    stopped(world, "unsafe_path", world.signed(key=mia))
    listing = world.trust().store.proposals()
    assert [problem.code for problem in listing.problems] == ["unsafe_path"]


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", ["private_key.pem", "public_key.pem"])
def test_what_is_no_file_is_no_key(world: World, make: Callable[[Path], None], name: str) -> None:
    world.key()
    path = world.keys.directory(SignerKind.PERSON) / name
    path.unlink()
    make(path)
    refused("unsafe_path", lambda: world.keys.load(SignerKind.PERSON))


def test_a_linked_user_space_is_the_one_that_it_links_to(world: World) -> None:
    """The root may be a link, as dot files often are; what is below it may not."""
    world.key()
    linked(world.user_space)
    world.verify(world.signed())
