"""Somebody publishes a repository whose files are signed by a key that it brings along as trusted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.items import Space, SpaceName
from rye_mcp.own_directories import state_directory
from rye_mcp.trust.approvals import TRUSTED_KEYS_VARIABLE, Approvals, Decision
from rye_mcp.trust.scope import Role, Scope
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import Standing
from rye_mcp.trust.verify import Trust
from tests.trust_world import CONTENT, World, new_key, refused, stopped


def test_a_clone_trusts_nobody(world: World) -> None:
    mallory = new_key()
    document = TrustDocument.create(mallory.public, "mallory")
    world.propose(document)
    error = stopped(world, "untrusted_key", world.signed(key=mallory))
    assert error.hint == "rye trust review"
    assert error.details["owner"] == "mallory"
    assert error.details["key_id"] == mallory.public.key_id
    assert mallory.public.key_id in error.message


def test_approving_the_project_accepts_none_of_its_keys(world: World) -> None:
    mallory = new_key()
    world.propose(TrustDocument.create(mallory.public, "mallory"))
    trust = world.trust()
    assert trust.approvals is not None
    trust.approvals.approve_project()
    stopped(world, "untrusted_key", world.signed(key=mallory))
    assert world.trust().approvals.read().approved  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "place", ["state", ".ai", ".ai/state", ".ai/state/rye", ".ai/rye", ".rye", ".local/state/rye"]
)
def test_decisions_that_the_project_brings_along_count_for_nothing(world: World, place: str) -> None:
    """They are about this very project, as somebody can make them who knows where it is going to be."""
    mallory = new_key()
    document = TrustDocument.create(mallory.public, "mallory")
    world.propose(document)
    file = world.signed(key=mallory)
    made = world.root / "made"
    theirs = Trust(user_space=world.user_space, project=world.project, state=made, environment={})
    theirs.store.decide(document, Decision.ACCEPTED)
    world.verify(file, trust=theirs)
    brought = world.project / place
    brought.mkdir(0o700, parents=True, exist_ok=True)
    (made / "projects").rename(brought / "projects")
    stopped(world, "untrusted_key", file)


def test_a_key_that_was_accepted_for_one_project_is_not_for_its_copy(world: World) -> None:
    mallory = new_key()
    document = TrustDocument.create(mallory.public, "mallory")
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    file = world.signed(key=mallory)
    world.verify(file)
    copied = world.root / "copied"
    world.project.rename(copied)
    trust = Trust(user_space=world.user_space, project=copied, state=world.state, environment={})
    moved = replace(file, space=Space(SpaceName.PROJECT, copied / ".ai"))
    stopped(world, "untrusted_key", moved, trust=trust)


def test_a_denied_key_stays_denied_whatever_the_environment_says(world: World) -> None:
    mallory = new_key()
    document = TrustDocument.create(mallory.public, "mallory")
    world.propose(document)
    file = world.signed(key=mallory)
    world.environment[TRUSTED_KEYS_VARIABLE] = mallory.public.key_id
    world.verify(file)
    world.trust().store.decide(document, Decision.DENIED)
    stopped(world, "untrusted_key", file)


def test_the_environment_accepts_exactly_the_keys_that_it_names(world: World) -> None:
    mia, mallory = new_key(), new_key()
    for key, owner in ((mia, "mia"), (mallory, "mallory")):
        world.propose(TrustDocument.create(key.public, owner))
    world.environment[TRUSTED_KEYS_VARIABLE] = f"{'0' * 64}, {mia.public.key_id}"
    world.verify(world.signed(key=mia))
    stopped(world, "untrusted_key", world.signed(key=mallory))


def test_the_environment_names_whole_key_ids(world: World) -> None:
    for text in ("*", "all", "0" * 16, "0" * 63, "0" * 64 + "x"):
        world.environment[TRUSTED_KEYS_VARIABLE] = text
        refused("malformed_trust", world.trust)


def test_the_environment_accepts_no_key_that_the_project_does_not_propose(world: World) -> None:
    mallory = new_key()
    world.environment[TRUSTED_KEYS_VARIABLE] = mallory.public.key_id
    stopped(world, "untrusted_key", world.signed(key=mallory))


def test_an_accepted_key_signs_nothing_that_its_document_does_not_name(world: World) -> None:
    mia, leo = new_key(), new_key()
    plain = TrustDocument.create(mia.public, "mia")
    named = TrustDocument.create(
        leo.public, "leo", scope=Scope(ids=("*", "rye/x"), roles=frozenset({Role.TOOL, Role.RUNTIME}))
    )
    for document in (plain, named):
        world.propose(document)
        world.trust().store.decide(document, Decision.ACCEPTED)
    world.verify(world.signed(key=mia))
    stopped(world, "out_of_scope", world.signed(key=mia), Role.RUNTIME)
    stopped(world, "out_of_scope", world.signed(key=mia), Role.PRIMITIVE)
    stopped(world, "out_of_scope", world.signed(world.file(item_id="rye/x"), mia))
    world.verify(world.signed(key=leo), Role.RUNTIME)
    world.verify(world.signed(world.file(item_id="rye/x"), leo))
    stopped(world, "out_of_scope", world.signed(world.file(item_id="rye/y"), leo))
    stopped(world, "out_of_scope", world.signed(key=leo), Role.PRIMITIVE)


def test_an_accepted_key_signs_nothing_outside_the_project(world: World) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    stopped(world, "untrusted_key", world.signed(world.file(space=SpaceName.USER), mia))


def test_a_proposal_takes_nothing_from_what_the_user_trusts(world: World) -> None:
    """The project says that the user's own key may sign less, or belongs to somebody else."""
    key = world.key()
    document = TrustDocument.create(key.public, "mallory", scope=Scope(ids=("other/*",)))
    world.propose(document)
    assert world.verify(world.signed()).signer.owner == "leo"


def test_everything_undecided_is_listed(world: World) -> None:
    mallory = new_key()
    path = world.propose(TrustDocument.create(mallory.public, "mallory"))
    path.with_name("0" * 16 + ".toml").write_bytes(CONTENT)
    store = world.trust().store
    listing = store.proposals()
    assert [document.owner for document in listing.documents] == ["mallory"]
    assert [problem.code for problem in listing.problems] == ["malformed_trust"]
    assert store.standing_of(listing.documents[0]) is Standing.UNDECIDED


@pytest.mark.parametrize("relative", ["state", ".", "./state", "~/state"])
def test_decisions_are_never_looked_for_in_the_current_directory(
    world: World, relative: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project.mkdir()
    monkeypatch.chdir(world.project)
    canary = Approvals(world.project, world.project / relative / "rye")
    canary.approve_project()
    monkeypatch.setenv("XDG_STATE_HOME", relative)
    error = refused("malformed_trust", lambda: Trust(user_space=world.user_space, project=world.project))
    assert error.hint == "unset XDG_STATE_HOME"
    assert canary.read().approved


@pytest.mark.parametrize("empty", ["", "absolute"])
def test_an_absolute_one_and_none_are_fine(
    tmp_path: Path, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", empty and os.fspath(tmp_path))
    assert state_directory().is_absolute()
