"""Somebody has a key accepted, and then changes the document of it."""

from __future__ import annotations

import pytest

from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.scope import Role, Scope
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, stopped


def test_another_scope_is_another_proposal(world: World) -> None:
    mia = new_key()
    narrow = TrustDocument.create(mia.public, "mia", scope=Scope(ids=("mia/*",)))
    world.propose(narrow)
    world.trust().store.decide(narrow, Decision.ACCEPTED)
    world.verify(world.signed(world.file(item_id="mia/tool"), mia))
    wide = TrustDocument.create(mia.public, "mia", scope=Scope(roles=frozenset(Role)))
    world.propose(wide)
    stopped(world, "untrusted_key", world.signed(key=mia), Role.RUNTIME)
    stopped(world, "untrusted_key", world.signed(world.file(item_id="mia/tool"), mia))


@pytest.mark.parametrize("change", [b"\n", b"# a comment\n", b" "], ids=repr)
def test_another_byte_is_another_proposal(world: World, change: bytes) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    trust = world.trust()
    trust.store.decide(document, Decision.ACCEPTED)
    file = world.signed(key=mia)
    world.verify(file, trust=trust)
    world.propose(document, document.data + change)
    stopped(world, "untrusted_key", file, trust=trust)
    world.propose(document)
    world.verify(file, trust=trust)
