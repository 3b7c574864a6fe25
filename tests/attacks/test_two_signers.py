"""Somebody else signs, edits, or generates at the very same time."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from tests.file_helpers import mode_of, names_in, run_at_once
from tests.trust_world import CONTENT, NOW, World, new_key, refused

ROOT = Path(__file__).resolve().parents[2]
SIGNERS = 4

# What takes long has been imported when all of them begin.
READY = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tests.trust_world import *; from pathlib import Path"
)

SIGN_AGAIN_AND_AGAIN = """
from rye_mcp.trust.scope import Role
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument

world, key = World(Path(sys.argv[2])), new_key()
world.trust_key(TrustDocument.create(key.public, "signer"))
for _ in range(20):
    file = world.file(world.file().path.read_bytes())
    sign_item(file, key, world.trust(), role=Role.TOOL)
"""

ENSURE = """
from rye_mcp.trust.scope import SignerKind
print(World(Path(sys.argv[2])).keys.ensure(SignerKind.PERSON, owner="leo").key_id)
"""

REVOKE = """
from rye_mcp.trust.trust_store import revoke
world = World(Path(sys.argv[2]))
for number in range(5):
    revoke(world.user_space, f"{sys.argv[3]}{number}" + "0" * 62, "gone")
    world.trust().approvals.approve_project()
"""


def at_once(script: str, world: World) -> list[str]:
    return run_at_once(READY + script, [(ROOT, world.root, number) for number in range(SIGNERS)])


@pytest.mark.thorough
def test_one_whole_file_stands(world: World) -> None:
    """Each has a key of its own, and all of them sign again and again."""
    file = world.stored(world.signed())
    at_once(SIGN_AGAIN_AND_AGAIN, world)
    stands = world.file(file.path.read_bytes())
    assert world.verify(stands).signer.owner == "signer"
    assert stands.content.endswith(CONTENT)
    assert names_in(file.path.parent) == ["hello.py"]


def test_what_was_edited_meanwhile_is_neither_signed_nor_lost(world: World) -> None:
    file = world.stored(world.file())
    file.path.write_bytes(CONTENT + b"import evil\n")
    refused("content_changed", lambda: sign_item(file, world.key(), world.trust(), role=Role.TOOL))
    assert file.path.read_bytes() == CONTENT + b"import evil\n"


def test_what_was_saved_while_the_disk_was_busy_is_neither_signed_nor_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = world.stored(world.file())
    key, trust, edited = world.key(), world.trust(), CONTENT + b"import evil\n"
    fsync = os.fsync

    def save(descriptor: int) -> None:
        fsync(descriptor)
        file.path.write_bytes(edited)

    monkeypatch.setattr(os, "fsync", save)
    refused("content_changed", lambda: sign_item(file, key, trust, role=Role.TOOL))
    assert file.path.read_bytes() == edited
    assert names_in(file.path.parent) == ["hello.py"]


def test_what_was_put_in_its_place_meanwhile_is_not_written_through(world: World) -> None:
    file = world.stored(world.file())
    canary = world.root / "canary"
    canary.write_bytes(file.content)
    file.path.unlink()
    file.path.symlink_to(canary)
    refused("unsafe_path", lambda: sign_item(file, world.key(), world.trust(), role=Role.TOOL))
    assert canary.read_bytes() == file.content
    assert file.path.is_symlink()


@pytest.mark.parametrize("part", ["tools", "tools/demo"])
def test_a_directory_that_became_a_link_is_not_written_through(world: World, part: str) -> None:
    file = world.stored(world.file())
    directory = world.project / ".ai" / part
    elsewhere = world.root / "elsewhere"
    directory.rename(elsewhere)
    directory.symlink_to(elsewhere)
    refused("unsafe_path", lambda: sign_item(file, world.key(), world.trust(), role=Role.TOOL))
    assert next(elsewhere.rglob("hello.py")).read_bytes() == file.content


def test_a_signature_that_somebody_else_added_meanwhile_is_replaced(world: World) -> None:
    file = world.stored(world.file())
    mia = new_key()
    world.trust_key(TrustDocument.create(mia.public, "mia"))
    sign_item(file, mia, world.trust(), role=Role.TOOL, now=NOW)
    item = sign_item(file, world.key(), world.trust(), role=Role.TOOL, now=NOW)
    assert file.path.read_bytes() == item.file.content
    assert item.signer.owner == "leo"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_the_permissions_stay(world: World, mode: int) -> None:
    file = world.stored(world.file(b"#!/bin/sh\necho\n", extension=".sh"))
    file.path.chmod(mode)
    sign_item(file, world.key(), world.trust(), role=Role.TOOL)
    assert mode_of(file.path) == mode


@pytest.mark.thorough
def test_two_callers_that_need_a_key_get_the_same(world: World) -> None:
    key_ids = {said.split()[-1] for said in at_once(ENSURE, world)}
    assert key_ids == {world.keys.show(SignerKind.PERSON).key_id}
    world.verify(world.signed())


@pytest.mark.thorough
def test_two_deciders_lose_no_decision(world: World) -> None:
    world.key()
    world.project.mkdir()
    at_once(REVOKE, world)
    assert len(world.trust().store.revocations()) == SIGNERS * 5


def test_signing_again_changes_nothing_but_the_line(world: World) -> None:
    file = world.stored(world.file())
    first = sign_item(file, world.key(), world.trust(), role=Role.TOOL, now=NOW)
    again = replace(file, content=file.path.read_bytes())
    assert sign_item(again, world.key(), world.trust(), role=Role.TOOL, now=NOW).file == first.file
