"""Attack: a locked skill is changed, and signed by somebody whom the user trusts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.lock import (
    LockListRequest,
    LockShowRequest,
    LockUpdateRequest,
    LockVerifyRequest,
    lock_list,
    lock_show,
    lock_update,
    lock_verify,
)
from rye_mcp.verbs.offers import OffersRequest, offers
from rye_mcp.verbs.sign import SignRequest, SignResult, sign
from tests import skill_world
from tests.registry_world import author_in, member_in, registry
from tests.skill_world import FILES, TEXT, read, written
from tests.trust_world import World, refused
from tests.verb_world import agent, person

NAME = "brew-tea"
OTHER = {**FILES, "SKILL.md": TEXT.replace("Boil", "Spill")}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A signed skill that is locked."""
    world = World(tmp_path)
    written(world)
    update(world)
    return world


def update(world: World) -> None:
    lock_update(LockUpdateRequest(NAME, ItemType.SKILL), person(world))


def lock_of(world: World) -> Path:
    return world.space().root / f"lockfiles/skills/{NAME}.lock.json"


def offered(world: World) -> list[str]:
    return [each.item_id for each in offers(OffersRequest(item_type=ItemType.SKILL), agent(world)).items]


def signed_by(context: Context) -> SignResult:
    result = sign(SignRequest(NAME, ItemType.SKILL), context)
    assert isinstance(result, SignResult)
    return result


def signed_by_another(world: World) -> None:
    """Let another trusted person sign the same skill."""
    other = World(world.root / "other")
    other.keys.ensure(SignerKind.PERSON, owner="mallory")
    world.trust_key(TrustDocument.create(other.key().public, "mallory"))
    sign_item(read(world), other.key(), world.trust(), role=Role.SKILL)


def test_what_was_changed_and_signed_since_reaches_no_agent(world: World) -> None:
    assert offered(world) == [NAME]
    written(world, OTHER)
    world.verify(read(world))  # the signature is good
    error = refused("lock_mismatch", lambda: load(LoadRequest(NAME, ItemType.SKILL), agent(world)))
    assert "SKILL.md: integrity" in error.message
    assert error.hint == f"rye skill review {NAME}, then: rye lock update {NAME} --type skill"
    assert offered(world) == []


def test_the_same_files_of_another_signer_are_not_what_was_locked(world: World) -> None:
    signed_by_another(world)
    error = refused("lock_mismatch", lambda: load(LoadRequest(NAME, ItemType.SKILL), agent(world)))
    assert "signer" in error.message


def test_a_lockfile_that_cannot_be_read_is_never_ignored(world: World) -> None:
    lock_of(world).write_text("{}")
    refused("malformed_lockfile", lambda: load(LoadRequest(NAME, ItemType.SKILL), agent(world)))
    assert offered(world) == []
    lock_of(world).unlink()
    lock_of(world).symlink_to(world.root)
    refused("unsafe_path", lambda: load(LoadRequest(NAME, ItemType.SKILL), agent(world)))


def test_only_a_person_moves_the_pins(world: World) -> None:
    before = lock_of(world).read_bytes()
    request = LockUpdateRequest(NAME, ItemType.SKILL)
    refused("person_required", lambda: lock_update(request, agent(world)))
    assert lock_of(world).read_bytes() == before


def test_a_person_who_signs_again_moves_their_own_pins(world: World) -> None:
    (skill_world.directory_of(world) / "SKILL.md").write_text(OTHER["SKILL.md"])
    result = signed_by(person(world))
    assert [each.code for each in result.warnings] == ["lock_refreshed"]
    assert offered(world) == [NAME]


def test_nobody_moves_the_pins_of_another_by_signing(world: World) -> None:
    signed_by_another(world)
    update(world)
    before = lock_of(world).read_bytes()
    result = signed_by(person(world))
    assert "lock_mismatch" in [each.code for each in result.warnings]
    assert lock_of(world).read_bytes() == before
    assert offered(world) == []


def test_a_lock_is_listed_shown_and_compared(world: World) -> None:
    [locked] = lock_list(LockListRequest(), person(world)).lockfiles
    assert (locked.place.item_id, locked.place.item_type, locked.place.path) == (
        NAME,
        ItemType.SKILL,
        lock_of(world),
    )
    shown = lock_show(LockShowRequest(NAME, item_type=ItemType.SKILL), person(world)).as_dict()
    assert set(shown["verified_deps"]) == set(FILES)
    assert [each.state for each in lock_verify(LockVerifyRequest(), person(world)).tools] == ["match"]
    written(world, OTHER)
    assert [each.state for each in lock_verify(LockVerifyRequest(NAME), person(world)).tools] == [
        "lock_mismatch"
    ]
    [updated] = lock_update(LockUpdateRequest("*", ItemType.SKILL), person(world)).updated
    assert "SKILL.md" in {each.element for each in updated.changes}
    assert [each.state for each in lock_verify(LockVerifyRequest(), person(world)).tools] == ["match"]


def test_what_has_no_lockfile_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    written(world)
    request = LockShowRequest(NAME, item_type=ItemType.SKILL)
    assert refused("lock_missing", lambda: lock_show(request, person(world))).hint.endswith("--type skill")
    directive = LockUpdateRequest(NAME, ItemType.DIRECTIVE)
    refused("unknown_argument", lambda: lock_update(directive, person(world)))


def test_the_lockfile_of_a_tool_of_that_name_is_another_one(world: World) -> None:
    tool_lock = world.space().root / f"lockfiles/skills/{NAME}@1.0.0.lock.json"
    tool_lock.write_text("{}")
    assert offered(world) == [NAME]


def test_a_skill_of_the_user_is_not_compared_with_the_lockfile_of_a_project(world: World) -> None:
    written(world, OTHER, space=SpaceName.USER)
    request = LoadRequest(NAME, ItemType.SKILL, source=SpaceName.USER)
    assert load(request, person(world)).as_dict()["status"] == "success"
    person(world).verify(read(world, space=SpaceName.USER))  # as commands do that go through all spaces


@pytest.mark.parametrize("lockfile", ["as it was", "broken"])
def test_the_lockfile_alone_keeps_a_skill_a_persons(world: World, lockfile: str) -> None:
    """Whatever an agent did to the listing before, and where nothing else tells of the person."""
    shutil.rmtree(world.state)
    (world.space().root / f"skills/{NAME}.rye.sig.yaml").unlink()
    (skill_world.directory_of(world) / "SKILL.md").write_text(OTHER["SKILL.md"])
    if lockfile == "broken":
        lock_of(world).write_text("{}")
    refused("person_required", lambda: signed_by(agent(world)))
    lock_of(world).unlink()
    assert signed_by(agent(world)).item.signer.kind is SignerKind.AGENT


def test_a_lockfile_that_cannot_be_looked_at_does_not_count_as_none(world: World) -> None:
    directory = lock_of(world).parent
    directory.rename(directory.with_name("moved"))
    directory.symlink_to(directory.name)
    refused("unsafe_path", lambda: load(LoadRequest(NAME, ItemType.SKILL), agent(world)))


async def test_a_lockfile_goes_along_and_one_of_another_content_is_refused(tmp_path: Path) -> None:
    alice, bob = author_in(tmp_path / "alice"), member_in(tmp_path / "bob")
    written(alice.world)
    update(alice.world)
    path = f"lockfiles/skills/{NAME}.lock.json"
    async with registry() as there:
        await alice.push(there.reference(), NAME, item_type=ItemType.SKILL)
        pulled = await bob.pull(there.reference())
        assert path in pulled.written
        lock = json.loads(lock_of(alice.world).read_bytes())
        lock["root"]["integrity"] = "0" * 64
        lock_of(alice.world).write_text(json.dumps(lock))
        with pytest.raises(RyeError) as caught:
            await alice.push(there.reference("2"), NAME, item_type=ItemType.SKILL)
        assert caught.value.code == "lock_mismatch"
