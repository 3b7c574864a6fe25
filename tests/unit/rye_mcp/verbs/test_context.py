"""What all verbs work with: the role of an item is read from the bytes that were verified."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rye_mcp.executor.chain.builder import MetadataRole
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.verbs.context import Context
from tests.trust_world import World
from tests.verb_world import RUNTIME, agent, put, tool

PRIMITIVE = b"name: mine\ntool_type: primitive\nexecutor_id: null\n"


@pytest.mark.parametrize(
    ("content", "role"), [(RUNTIME, Role.RUNTIME), (PRIMITIVE, Role.PRIMITIVE), (b"name: x\n", Role.TOOL)]
)
def test_the_role_is_what_the_bytes_claim(world: World, content: bytes, role: Role) -> None:
    file = world.file(b"name: other\n", extension=".yaml")
    assert MetadataRole.of(file)(content) is role


def test_a_verified_item_has_its_role(world: World) -> None:
    file = put(world, RUNTIME, extension=".yaml", signed=True)
    assert agent(world).verify(file).role is Role.RUNTIME


def test_two_looks_at_one_item_share_their_answer(world: World) -> None:
    file = put(world, tool(), signed=True)
    context = agent(world)
    context.verify(file)
    context.verify(replace(file))
    assert len(context.trust.answers) == 1


def test_nobody_is_a_person_by_default(world: World) -> None:
    context = agent(world)
    assert context.caller is SignerKind.AGENT
    assert not Context(context.spaces, context.trust, context.keys).is_person
