"""What a person decides about keys, below the commands."""

from pathlib import Path

import pytest

from lilux.primitives.signing import generate_keypair
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.decisions import (
    Change,
    KeyToAdd,
    add_key,
    check_key_id,
    decide_on,
    find_proposal,
    make_scope,
    owner_of,
    propose_key,
    revoke_key,
)
from rye_mcp.trust.scope import Role, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import World, new_key, refused

SOURCE = Path("mia.pub")


def mia(scope: Scope | None = None) -> TrustDocument:
    return TrustDocument.create(new_key().public, "mia", scope=scope or Scope())


@pytest.mark.parametrize("text", ["", "abc", "0" * 16, "0" * 63, "0" * 65, "G" * 64, "\x1b[31m" + "0" * 59])
def test_a_key_is_named_by_its_whole_id(text: str) -> None:
    error = refused("unknown_key", lambda: check_key_id(text))
    assert error.message.isprintable()


def test_a_proposal_is_found_by_its_key_id_alone(world: World) -> None:
    document = mia()
    world.propose(document)
    assert find_proposal(world.trust(), document.key.key_id) == document
    refused("unknown_key", lambda: find_proposal(world.trust(), "0" * 64))


def test_a_digest_names_one_document_of_a_key(world: World) -> None:
    shown = mia()
    world.propose(shown)
    for digest in (shown.short_digest, shown.digest[:40], shown.digest):
        assert find_proposal(world.trust(), f"{shown.key.key_id}@{digest}") == shown
    wide = TrustDocument.create(shown.key, "mia", scope=Scope(roles=frozenset({Role.RUNTIME})))
    world.propose(wide)
    name = f"{shown.key.key_id}@{shown.short_digest}"
    refused("document_changed", lambda: find_proposal(world.trust(), name))


@pytest.mark.parametrize("form", ["", "{:.16}", "{:.31}", "{}0", "{}\n", "@{}", "x{}"])
def test_what_is_no_digest_of_enough_digits_names_no_document(world: World, form: str) -> None:
    document = mia()
    world.propose(document)
    name = f"{document.key.key_id}@{form.format(document.digest)}"
    refused("unknown_key", lambda: find_proposal(world.trust(), name))


def test_why_a_proposal_is_not_found_names_one_that_cannot_be_read(world: World) -> None:
    document = mia()
    world.propose(document, document.data.replace(b"owner", b"owned"))
    error = refused("unknown_key", lambda: find_proposal(world.trust(), document.key.key_id))
    assert "1 that cannot be read" in error.message


def test_what_is_accepted_is_the_document_that_was_shown(world: World) -> None:
    key = new_key()
    shown = TrustDocument.create(key.public, "mia", scope=Scope(ids=("mia/*",)))
    world.propose(shown)
    trust = world.trust()
    read = find_proposal(trust, key.public.key_id)
    world.propose(TrustDocument.create(key.public, "mia"))  # while the person was reading
    decide_on(trust, [read], Decision.ACCEPTED)
    assert dict(world.trust().approvals.read().proposals) == {  # type: ignore[union-attr]
        shown.digest: Decision.ACCEPTED
    }


def test_a_revoked_key_is_not_accepted_added_or_proposed(world: World) -> None:
    document = mia()
    world.propose(document)
    world.key()
    revoke_key(world.user_space, document.key.key_id, "stolen")
    trust = world.trust()
    for do in (
        lambda: decide_on(trust, [document], Decision.ACCEPTED),
        lambda: add_key(trust, world.user_space, document),
        lambda: propose_key(trust, world.project / ".ai", document, replace=True),
    ):
        refused("revoked_key", do)
    assert not (world.user_space / "trusted_keys" / document.file_name).exists()
    assert not world.state.exists()
    decide_on(trust, [document], Decision.DENIED)


def test_of_several_proposals_all_are_accepted_or_none(world: World) -> None:
    good, revoked = mia(), mia()
    world.propose(good)
    world.propose(revoked)
    revoke_key(world.user_space, revoked.key.key_id, "stolen")
    trust = world.trust()
    refused("revoked_key", lambda: decide_on(trust, [good, revoked], Decision.ACCEPTED))
    assert not world.state.exists()


def test_a_document_is_added_whatever_its_file_is_called(world: World) -> None:
    document = mia(Scope(ids=("mia/*",), roles=frozenset({Role.TOOL})))
    added = KeyToAdd(document.data, SOURCE).as_document()
    assert added == document
    assert add_key(world.trust(), world.user_space, added) is Change.WRITTEN
    assert (world.user_space / "trusted_keys" / document.file_name).read_bytes() == document.data
    assert add_key(world.trust(), world.user_space, added) is Change.UNCHANGED


def test_what_the_person_says_wins_over_the_document() -> None:
    document = TrustDocument.create(new_key().public, "claims to be leo", kind=SignerKind.AGENT)
    said = KeyToAdd(document.data, SOURCE, owner="mia", scope=Scope(ids=("mia/*",))).as_document()
    assert (said.owner, said.scope.ids, said.kind) == ("mia", ("mia/*",), SignerKind.AGENT)
    narrowed = KeyToAdd(document.data, SOURCE, scope=Scope(ids=("mia/*",))).as_document()
    assert (narrowed.owner, narrowed.key) == ("claims to be leo", document.key)


def test_a_pem_needs_an_owner() -> None:
    key = new_key().public
    refused("malformed_trust", KeyToAdd(key.pem, SOURCE).as_document)
    document = KeyToAdd(b"\n" + key.pem, SOURCE, owner="mia").as_document()
    assert (document.key, document.owner, document.scope) == (key, "mia", Scope())


def test_a_private_key_is_refused_and_not_quoted() -> None:
    private_pem, _ = generate_keypair()
    error = refused("unusable_key", KeyToAdd(private_pem, SOURCE, owner="mia").as_document)
    assert private_pem.decode().splitlines()[1] not in error.message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "malformed_trust"),
        (b"version = 1", "malformed_trust"),
        (b"\xff\xfe", "malformed_trust"),
        (b"a" * 17_000, "too_large"),
        (b"[public_key]\npem = 1", "malformed_trust"),
        (b"[public_key]\npem = 'no key'", "unusable_key"),
        (b"public_key = [" + b"[" * 4000, "malformed_trust"),
        (b"a" + b".a" * 8000 + b" = 1", "malformed_trust"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else value,
)
def test_what_is_no_key_is_not_added(data: bytes, code: str) -> None:
    refused(code, KeyToAdd(data, SOURCE, owner="mia").as_document)


def test_a_document_that_says_something_else_is_replaced_only_when_asked(world: World) -> None:
    key = new_key()
    narrow = TrustDocument.create(key.public, "mia", scope=Scope(ids=("mia/*",)))
    wide = TrustDocument.create(key.public, "mia")
    space = world.project / ".ai"
    world.propose(narrow)
    world.trust_key(narrow)
    trust = world.trust()
    error = refused("document_exists", lambda: add_key(trust, world.user_space, wide))
    assert "--replace" in error.hint
    refused("document_exists", lambda: propose_key(trust, space, wide))
    for directory in (world.user_space, space):
        assert (directory / "trusted_keys" / wide.file_name).read_bytes() == narrow.data
    assert add_key(trust, world.user_space, wide, replace=True) is Change.REPLACED
    assert propose_key(trust, space, wide, replace=True) is Change.REPLACED
    for directory in (world.user_space, space):
        assert (directory / "trusted_keys" / wide.file_name).read_bytes() == wide.data


def test_a_key_is_proposed_only_where_there_is_a_project(world: World) -> None:
    world.project.mkdir()
    refused("no_project", lambda: propose_key(world.trust(), world.project / ".ai", mia()))
    assert not (world.project / ".ai").exists()
    (world.project / ".ai").mkdir()
    document = mia()
    assert propose_key(world.trust(), world.project / ".ai", document) is Change.WRITTEN
    assert find_proposal(world.trust(), document.key.key_id) == document


@pytest.mark.parametrize("linked", ["directory", "file"])
def test_nothing_is_proposed_through_a_link(world: World, linked: str) -> None:
    document = mia()
    outside = world.root / "outside"
    outside.mkdir()
    canary = outside / document.file_name
    canary.write_text("alive")
    place = world.project / ".ai/trusted_keys"
    if linked == "directory":
        place.parent.mkdir(parents=True)
        place.symlink_to(outside)
    else:
        place.mkdir(parents=True)
        (place / document.file_name).symlink_to(canary)
    refused("unsafe_path", lambda: propose_key(world.trust(), world.project / ".ai", document, replace=True))
    assert canary.read_text() == "alive"


@pytest.mark.parametrize(
    ("ids", "roles", "scope"),
    [
        ((), (), None),
        (("mia/*",), (), Scope(ids=("mia/*",))),
        ((), ("tool",), Scope(roles=frozenset({Role.TOOL}))),
    ],
)
def test_a_scope_is_what_was_named(ids: tuple[str, ...], roles: tuple[str, ...], scope: Scope | None) -> None:
    assert make_scope(ids, roles) == scope


def test_a_role_that_there_is_not_is_refused() -> None:
    assert "runtime" in refused("malformed_trust", lambda: make_scope((), ("root",))).message


def test_an_invalid_pattern_is_refused_by_the_document() -> None:
    scope = make_scope(("../*",), ())
    refused("malformed_trust", lambda: mia(scope))


def test_the_owner_of_a_key_is_the_one_that_this_user_knows(world: World) -> None:
    key = world.key()
    world.propose(TrustDocument.create(key.public, "mallory"))
    assert owner_of(world.trust(), key.public) == "leo"
    assert owner_of(world.trust(), new_key().public) is None
