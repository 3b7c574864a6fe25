"""Somebody who is trusted for one thing signs another."""

from __future__ import annotations

import pytest

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.scope import Origin, Role, Scope, SignerKind, is_id_pattern, require_in_scope
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, refused, stopped

INSIDE = {"mia/*": ["mia/a", "mia/b/c"], "mia/one": ["mia/one"], "*": ["mia/a", "a"]}
OUTSIDE = {"mia/*": ["mia", "miaa/x", "other/mia/x", "Mia/x"], "mia/one": ["mia/one2", "mia/one/x", "one"]}


@pytest.mark.parametrize("pattern", INSIDE)
@pytest.mark.parametrize("where", ["user", "project"])
def test_ids(world: World, pattern: str, where: str) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia", scope=Scope(ids=(pattern,)))
    if where == "user":
        world.trust_key(document)
    else:
        world.propose(document)
        world.trust().store.decide(document, Decision.ACCEPTED)
    for item_id in INSIDE[pattern]:
        world.verify(world.signed(world.file(item_id=item_id), mia))
    for item_id in OUTSIDE.get(pattern, []):
        error = stopped(world, "out_of_scope", world.signed(world.file(item_id=item_id), mia))
        assert pattern in error.message


@pytest.mark.parametrize("named", Role)
@pytest.mark.parametrize("where", ["user", "project"])
def test_roles(world: World, named: Role, where: str) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia", scope=Scope(roles=frozenset({named})))
    if where == "user":
        world.trust_key(document)
    else:
        world.propose(document)
        world.trust().store.decide(document, Decision.ACCEPTED)
    tool = world.signed(key=mia)
    for role in (Role.TOOL, Role.RUNTIME, Role.PRIMITIVE):
        if role is named:
            world.verify(tool, role)
        else:
            stopped(world, "out_of_scope", tool, role)
    for item_type in (ItemType.DIRECTIVE, ItemType.KNOWLEDGE):
        file = world.signed(world.file(item_type=item_type, extension=".md"), mia)
        if named.value == item_type.value:
            world.verify(file)
        else:
            stopped(world, "out_of_scope", file)


def test_a_key_without_a_scope_may_sign_all_where_the_user_trusts_it(world: World) -> None:
    mia = new_key()
    world.trust_key(TrustDocument.create(mia.public, "mia"))
    for role in (Role.TOOL, Role.RUNTIME, Role.PRIMITIVE):
        world.verify(world.signed(world.file(item_id="rye/x", space=SpaceName.USER), mia), role)


@pytest.mark.parametrize("ids", [None, ("*",), ("rye/*",)])
def test_what_a_project_has_to_name_for_its_key(world: World, ids: tuple[str, ...] | None) -> None:
    """Who accepts a proposal that names no runtimes, and no ids below `rye/`, has accepted none."""
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia", scope=Scope(ids=ids))
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    named = world.signed(world.file(item_id="rye/x"), mia)
    for role in (Role.RUNTIME, Role.PRIMITIVE):
        stopped(world, "out_of_scope", named, role)
    if ids == ("rye/*",):
        world.verify(named)
        return
    stopped(world, "out_of_scope", named)
    mine = world.signed(world.file(item_id="mia/x"), mia)
    world.verify(mine)
    stopped(world, "out_of_scope", mine, Role.RUNTIME)


def test_a_key_of_a_project_is_for_that_project(world: World) -> None:
    """The store does not even find it for other spaces; this holds if it did."""
    file = world.file(space=SpaceName.USER)
    refused(
        "out_of_scope",
        lambda: require_in_scope(
            file, Role.TOOL, kind=SignerKind.PERSON, origin=Origin.PROJECT, scope=Scope()
        ),
    )


@pytest.mark.parametrize("text", ["*", "leo", "leo/*", "leo/a/b", "leo/a.b/*", "_x/*"])
def test_what_a_pattern_of_ids_is(text: str) -> None:
    assert is_id_pattern(text)


@pytest.mark.parametrize(
    "text", ["", "/", "/*", "**", "leo/**", "le*", "*/x", "leo/", "../*", "leo /*", "a\n/*", 1]
)
def test_what_no_pattern_of_ids_is(text: object) -> None:
    assert not is_id_pattern(text)
