"""Somebody's files are looked at beside those of another project, which trusts them."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from rye_mcp.items import Space, SpaceName
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.scope import Role
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.verify import Trust, verify_item
from tests.trust_world import World, new_key, stopped


def test_what_one_project_trusts_is_nothing_for_the_next(world: World) -> None:
    """Not even when a program mixes them up, and not when the answer is known already."""
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    trust = world.trust()
    trust.store.decide(document, Decision.ACCEPTED)
    file = world.signed(key=mia)
    verify_item(file, trust, role=Role.TOOL)
    other = replace(file, space=Space(SpaceName.PROJECT, world.root / "other/.ai"))
    with pytest.raises(ValueError, match="expected a file of"):
        verify_item(other, trust, role=Role.TOOL)


def test_what_was_accepted_in_one_project_is_undecided_in_the_next(world: World) -> None:
    """The same document, the same signed file, another directory."""
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    file = world.signed(key=mia)
    world.verify(file)
    next_project = world.root / "next"
    shutil.copytree(world.project, next_project)
    trust = Trust(user_space=world.user_space, project=next_project, state=world.state, environment={})
    same = replace(file, space=Space(SpaceName.PROJECT, next_project / ".ai"))
    stopped(world, "untrusted_key", same, trust=trust)
