"""A new key counts as the old one where that has signed it: for nothing more, and for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import Role, Scope, SignerKind
from rye_mcp.trust.trust_document import MAX_ROTATIONS, PublicKey, RotationStatement, TrustDocument
from rye_mcp.trust.trust_store import Standing, revoke
from tests.trust_world import NOW, World, new_key, refused


class OtherProject(World):
    """Another project of the same user."""

    @property
    def project(self) -> Path:
        return self.root / "other"


ALL_ROLES = Scope(roles=frozenset(Role))
NO_LISTS = Scope()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.key()
    return made


@pytest.fixture
def mia() -> SigningKey:
    return new_key()


@pytest.fixture
def new() -> SigningKey:
    return new_key()


def statement(old: SigningKey, new: PublicKey, signed_by: SigningKey | None = None) -> RotationStatement:
    made = RotationStatement.sign(old.public, (signed_by or old).private_pem, new, NOW)
    assert isinstance(made, RotationStatement)
    return made


def successor(
    old: SigningKey, new: SigningKey, *, scope: Scope = NO_LISTS, owner: str = "mia"
) -> TrustDocument:
    """The document of a new key, which the old one has signed."""
    return TrustDocument.create(new.public, owner, scope=scope, rotation=statement(old, new.public))


def accepted(world: World, key: SigningKey, scope: Scope = NO_LISTS) -> TrustDocument:
    """A key that the project proposes, and this user accepts."""
    document = TrustDocument.create(key.public, "mia", scope=scope)
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    return document


def test_what_a_trusted_key_has_signed_is_trusted_for_the_same(
    world: World, mia: SigningKey, new: SigningKey
) -> None:
    accepted(world, mia, Scope(ids=("mia/*",)))
    world.propose(successor(mia, new, scope=ALL_ROLES, owner="somebody else"))
    file = world.signed(world.file(item_id="mia/hello"), new)
    signer = world.verify(file).signer
    assert (signer.key_id, signer.owner, signer.before) == (new.public.key_id, "mia", (mia.public.key_id,))
    refused("out_of_scope", lambda: world.verify(world.signed(key=new)))
    refused("out_of_scope", lambda: world.verify(file, role=Role.RUNTIME))


def forged_text(text: str, mia: SigningKey, new: SigningKey) -> str:
    """Signed by the new key itself."""
    return text.replace(
        statement(mia, new.public).signature, statement(mia, new.public, signed_by=new).signature
    )


def other_time(text: str, mia: SigningKey, new: SigningKey) -> str:
    return text.replace("2026-11-18T10:00:00Z", "2026-11-18T10:00:01Z")


def other_old_key(text: str, mia: SigningKey, new: SigningKey) -> str:
    other = new_key().public.pem.decode()
    return text.replace(mia.public.pem.decode(), other)


def as_an_agent(text: str, mia: SigningKey, new: SigningKey) -> str:
    return text.replace('owner = "mia"', 'owner = "mia"\nkind = "agent"')


@pytest.mark.parametrize("change", [forged_text, other_time, other_old_key, as_an_agent])
def test_a_statement_that_the_old_key_did_not_sign(
    world: World, mia: SigningKey, new: SigningKey, change: Callable[[str, SigningKey, SigningKey], str]
) -> None:
    accepted(world, mia)
    document = successor(mia, new)
    path = world.propose(document)
    path.write_text(change(document.data.decode(), mia, new))
    refused("malformed_trust", lambda: world.verify(world.signed(key=new)))


def test_a_statement_about_another_key(world: World, mia: SigningKey, new: SigningKey) -> None:
    accepted(world, mia)
    thief = new_key()
    text = TrustDocument.create(thief.public, "mia").data.decode()
    lines = "\n".join(statement(mia, new.public).render())
    path = world.propose(TrustDocument.create(thief.public, "mia"))
    path.write_text(f"{text}\n{lines}\n")
    refused("malformed_trust", lambda: world.verify(world.signed(key=thief)))


def test_a_signature_of_an_item_is_no_statement(world: World, mia: SigningKey, new: SigningKey) -> None:
    """What is signed says what it is: its bytes are in no other encoding."""
    accepted(world, mia)
    line = world.signed(key=mia).content.split(b":")
    document = successor(mia, new)
    path = world.propose(document)
    path.write_text(document.data.decode().replace(statement(mia, new.public).signature, line[6].decode()))
    refused("malformed_trust", lambda: world.verify(world.signed(key=new)))


@pytest.mark.parametrize("decision", [None, Decision.DENIED])
def test_a_rotation_of_a_key_that_nobody_here_trusts(
    world: World, mia: SigningKey, new: SigningKey, decision: Decision | None
) -> None:
    """Replayed to another project, where the old key was not accepted, it accepts nobody."""
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    if decision is not None:
        world.trust().store.decide(document, decision)
    world.propose(successor(mia, new))
    refused("untrusted_key", lambda: world.verify(world.signed(key=new)))


def test_a_rotation_in_another_project(world: World, mia: SigningKey, new: SigningKey) -> None:
    accepted(world, mia)
    other = OtherProject(world.root)
    for document in (TrustDocument.create(mia.public, "mia"), successor(mia, new)):
        other.propose(document)
    refused("untrusted_key", lambda: other.verify(other.signed(key=new)))


def test_a_rotation_by_a_revoked_key(world: World, mia: SigningKey, new: SigningKey) -> None:
    accepted(world, mia)
    world.propose(successor(mia, new))
    file = world.signed(key=new)
    assert world.verify(file).signer.before == (mia.public.key_id,)
    revoke(world.user_space, mia.public.key_id, "stolen")
    refused("untrusted_key", lambda: world.verify(file))


def test_a_denied_successor_stays_denied(world: World, mia: SigningKey, new: SigningKey) -> None:
    accepted(world, mia)
    document = successor(mia, new)
    world.propose(document)
    world.trust().store.decide(document, Decision.DENIED)
    refused("untrusted_key", lambda: world.verify(world.signed(key=new)))


def test_another_document_brings_no_denied_key_back(world: World, mia: SigningKey, new: SigningKey) -> None:
    """With another owner, another time, without the rotation, or by the environment: it is the same key."""
    accepted(world, mia)
    document = successor(mia, new)
    world.propose(document)
    store = world.trust().store
    store.decide(document, Decision.DENIED)
    others = (successor(mia, new, owner="mia again"), TrustDocument.create(new.public, "mia"))
    world.environment["RYE_TRUSTED_KEYS"] = new.public.key_id
    for other in others:
        world.propose(other)
        refused("untrusted_key", lambda: world.verify(world.signed(key=new)))
    store.decide(others[1], Decision.ACCEPTED)
    assert world.verify(world.signed(key=new)).signer.owner == "mia"
    world.propose(document)
    refused("untrusted_key", lambda: world.verify(world.signed(key=new)))


def test_a_key_that_is_denied_later_is_no_longer_accepted(world: World, mia: SigningKey) -> None:
    """Neither by the document that was denied, nor by the one that was accepted before."""
    before = accepted(world, mia)
    after = TrustDocument.create(mia.public, "mia", scope=ALL_ROLES)
    world.propose(after)
    world.trust().store.decide(after, Decision.DENIED)
    world.propose(before)
    refused("untrusted_key", lambda: world.verify(world.signed(key=mia)))


def test_an_agents_key_makes_nobody_a_person(world: World, new: SigningKey) -> None:
    """Neither that of this user's own agent, nor one that a project proposes as an agent's."""
    own = world.key(SignerKind.AGENT)
    world.propose(successor(own, new))
    refused("untrusted_key", lambda: world.verify(world.signed(key=new)))
    theirs, after = new_key(SignerKind.AGENT), new_key()
    document = TrustDocument.create(theirs.public, "mia's agent", kind=SignerKind.AGENT)
    world.trust_key(document)
    world.propose(successor(theirs, after))
    refused("untrusted_key", lambda: world.verify(world.signed(key=after)))


def test_an_agent_rotates_without_a_statement(world: World) -> None:
    world.key(SignerKind.AGENT)
    assert world.keys.rotate(SignerKind.AGENT).statement is None


def test_keys_that_sign_each_other_trust_nobody(world: World, mia: SigningKey, new: SigningKey) -> None:
    world.propose(successor(mia, new))
    world.propose(successor(new, mia))
    refused("untrusted_key", lambda: world.verify(world.signed(key=mia)))
    refused("untrusted_key", lambda: world.verify(world.signed(key=new)))


def test_rotations_are_followed_up_to_a_number(world: World) -> None:
    keys = [new_key() for _ in range(MAX_ROTATIONS + 2)]
    accepted(world, keys[0])
    for old, new in pairwise(keys):
        world.propose(successor(old, new))
    last = world.verify(world.signed(key=keys[MAX_ROTATIONS])).signer
    assert len(last.before) == MAX_ROTATIONS
    refused("untrusted_key", lambda: world.verify(world.signed(key=keys[MAX_ROTATIONS + 1])))


def test_another_key_under_the_fingerprint_of_the_old_one(
    world: World, mia: SigningKey, new: SigningKey
) -> None:
    """A fingerprint is where to look, never whom to trust."""
    accepted(world, mia)
    thief = new_key()
    document = successor(thief, new)
    assert document.rotation is not None
    posing = replace(document.rotation, old=replace(thief.public, fingerprint=mia.public.fingerprint))
    store = world.trust().store
    assert store.standing_of(replace(document, rotation=posing)) is Standing.UNDECIDED
