"""An agent signs something that decides how other things run, or that stands in for something trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.trust.approvals import TRUSTED_KEYS_VARIABLE, Decision
from rye_mcp.trust.scope import Role, Scope, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from tests.space_helpers import Ground
from tests.space_helpers import refused as refused_in
from tests.trust_world import World, new_key, refused, stopped

EVERYTHING = Scope(ids=("*", "rye/*"), roles=frozenset(Role))


@pytest.mark.parametrize("role", [Role.RUNTIME, Role.PRIMITIVE])
def test_a_runtime_or_a_primitive(world: World, role: Role) -> None:
    agent = world.key(SignerKind.AGENT)
    file = world.signed(key=agent)
    error = stopped(world, "out_of_scope", file, role)
    assert "rye sign demo/hello" in (error.hint or "")
    stopped(world, "out_of_scope", file, lambda content: role)


@pytest.mark.parametrize("item_id", ["rye/bash/bash", "rye/new", "RYE/bash/bash", "Rye/x"])
def test_what_would_shadow_the_system(world: World, item_id: str) -> None:
    agent = world.key(SignerKind.AGENT)
    stopped(world, "out_of_scope", world.signed(world.file(item_id=item_id), agent))
    world.verify(world.signed(world.file(item_id=item_id)))


def test_an_item_of_the_user_space(world: World) -> None:
    agent = world.key(SignerKind.AGENT)
    file = world.signed(key=agent)
    world.verify(file)
    stopped(world, "out_of_scope", replace(file, space=world.space(SpaceName.USER)))


def test_the_gate_holds_while_it_signs_too(world: World) -> None:
    agent = world.key(SignerKind.AGENT)
    file = world.stored(world.file())
    refused("out_of_scope", lambda: sign_item(file, agent, world.trust(), role=Role.RUNTIME))
    assert file.path.read_bytes() == file.content


def test_no_document_makes_an_agent_more_than_it_is(world: World) -> None:
    agent = world.key(SignerKind.AGENT)
    document = TrustDocument.create(agent.public, "leo", scope=EVERYTHING)
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    world.environment[TRUSTED_KEYS_VARIABLE] = agent.public.key_id
    world.trust_key(document)
    stopped(world, "out_of_scope", world.signed(key=agent), Role.RUNTIME)


def test_an_agent_whose_key_was_rotated_stays_an_agent(world: World) -> None:
    agent = world.key(SignerKind.AGENT)
    file = world.signed(key=agent)
    world.keys.rotate(SignerKind.AGENT)
    assert world.verify(file).signer.kind is SignerKind.AGENT
    stopped(world, "out_of_scope", file, Role.RUNTIME)
    stopped(world, "out_of_scope", world.signed(world.file(item_id="rye/x"), agent))


def test_somebody_elses_agent_is_an_agent(world: World) -> None:
    other = new_key(SignerKind.AGENT)
    document = TrustDocument.create(other.public, "mia's agent", scope=EVERYTHING, kind=SignerKind.AGENT)
    world.propose(document)
    error = stopped(world, "untrusted_key", world.signed(key=other))
    assert "rye sign demo/hello" in (error.hint or "")
    world.trust().store.decide(document, Decision.ACCEPTED)
    world.verify(world.signed(key=other))
    stopped(world, "out_of_scope", world.signed(key=other), Role.RUNTIME)
    stopped(world, "out_of_scope", world.signed(world.file(item_id="rye/x"), other))


PRIMITIVE = "rye/core/primitives/subprocess"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground.in_directory(tmp_path)
    ground.write("system", f"tools/{PRIMITIVE}.py", b"the real one")
    return ground


@pytest.mark.parametrize("space", ["project", "user"])
@pytest.mark.parametrize("path", ["zzz/subprocess.py", "subprocess.py", "subprocess.yaml", "a/subprocess.sh"])
@pytest.mark.parametrize("seen_from", [None, *SpaceName])
def test_a_bare_name_of_the_system_means_the_file_of_the_system(
    ground: Ground, space: str, path: str, seen_from: SpaceName | None
) -> None:
    canary = ground.write(space, f"tools/{path}", b"evil")
    found = ground.spaces.find_executor("subprocess", seen_from=seen_from)
    assert (found.item.item_id, found.item.content) == (PRIMITIVE, b"the real one")
    assert canary.read_bytes() == b"evil"


def test_several_of_that_name_in_the_system_are_ambiguous_and_no_way_to_the_project(ground: Ground) -> None:
    ground.write("system", "tools/rye/other/subprocess.py")
    ground.write("project", "tools/zzz/subprocess.py", b"evil")
    with refused_in("ambiguous_item", ground):
        ground.canary.write_bytes(ground.spaces.find_executor("subprocess").item.content)


def test_a_link_of_that_name_in_the_system_is_no_way_to_the_project(ground: Ground) -> None:
    real = ground.space("system") / f"tools/{PRIMITIVE}.py"
    real.unlink()
    real.symlink_to(ground.canary)
    ground.write("project", "tools/zzz/subprocess.py", b"evil")
    with refused_in("unsafe_path", ground):
        ground.canary.write_bytes(ground.spaces.find_executor("subprocess").item.content)


def test_a_whole_id_is_looked_for_by_precedence(ground: Ground) -> None:
    ground.write("user", f"tools/{PRIMITIVE}.py", b"of the user")
    assert ground.spaces.find_executor(PRIMITIVE).item.content == b"of the user"
    assert ground.spaces.find_executor(PRIMITIVE, seen_from=SpaceName.SYSTEM).item.content == b"the real one"
