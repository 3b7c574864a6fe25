"""Which keys there are, and how each of them stands."""

import json
import shutil

import pytest

from rye_mcp.trust.approvals import TRUSTED_KEYS_VARIABLE, Decision
from rye_mcp.trust.decisions import KeyState, KnownKey, KnownKeys, find_undecided, list_keys
from rye_mcp.trust.scope import Origin, Role, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from tests.trust_world import World, new_key, refused


def keys(world: World) -> KnownKeys:
    return list_keys(world.trust(), world.keys)


def only(world: World) -> KnownKey:
    [row] = keys(world).rows
    return row


def proposal(world: World, owner: str = "mia") -> TrustDocument:
    document = TrustDocument.create(new_key().public, owner)
    world.propose(document)
    return document


def test_nobody_is_known_where_nothing_is(world: World) -> None:
    assert keys(world) == KnownKeys((), ())
    assert not find_undecided(world.trust(), world.keys, project=None)


def test_your_own_pair_is_trusted_and_yours(world: World) -> None:
    world.key()
    row = only(world)
    assert (row.state, row.origin, row.owner, row.yours) == (KeyState.TRUSTED, Origin.USER, "leo", True)


def test_the_key_of_your_agent_is_a_row_without_a_document(world: World) -> None:
    world.key(SignerKind.AGENT)
    row = only(world)
    assert (row.kind, row.state, row.document, row.yours) == (SignerKind.AGENT, KeyState.TRUSTED, None, True)


def test_somebody_elses_key_is_trusted_and_not_yours(world: World) -> None:
    world.key()
    mia = TrustDocument.create(new_key().public, "mia")
    world.trust_key(mia)
    [row] = [row for row in keys(world).rows if row.owner == "mia"]
    assert (row.state, row.yours) == (KeyState.TRUSTED, False)


@pytest.mark.parametrize(
    ("decision", "state"),
    [
        (None, KeyState.UNDECIDED),
        (Decision.ACCEPTED, KeyState.ACCEPTED),
        (Decision.DENIED, KeyState.DENIED),
    ],
)
def test_a_proposal_stands_as_it_was_decided(
    world: World, decision: Decision | None, state: KeyState
) -> None:
    document = proposal(world)
    if decision is not None:
        world.trust().store.decide(document, decision)
    row = only(world)
    assert (row.state, row.origin) == (state, Origin.PROJECT)
    waiting = find_undecided(world.trust(), world.keys, project=world.project).keys
    assert bool(waiting) is (decision is None)


def test_a_proposal_that_the_environment_accepts_says_so(world: World) -> None:
    document = proposal(world)
    world.environment[TRUSTED_KEYS_VARIABLE] = document.key.key_id
    assert only(world).state is KeyState.ACCEPTED_BY_ENVIRONMENT
    world.trust().store.decide(document, Decision.ACCEPTED)
    assert only(world).state is KeyState.ACCEPTED
    world.trust().store.decide(document, Decision.DENIED)
    assert only(world).state is KeyState.DENIED


def test_a_changed_proposal_is_undecided_again(world: World) -> None:
    document = proposal(world)
    world.trust().store.decide(document, Decision.ACCEPTED)
    world.propose(document, document.data + b"# another byte\n")
    assert only(world).state is KeyState.UNDECIDED


def test_a_proposal_of_a_key_that_is_trusted_anyway_is_no_question(world: World) -> None:
    key = world.key()
    world.propose(TrustDocument.create(key.public, "leo"))
    known = keys(world)
    assert [row.state for row in known.rows] == [KeyState.TRUSTED, KeyState.TRUSTED]
    assert known.undecided == ()


def test_a_revoked_key_is_revoked_in_every_row_and_no_question(world: World) -> None:
    key = world.key()
    world.propose(TrustDocument.create(key.public, "leo"))
    mia = proposal(world)
    for key_id in (key.public.key_id, mia.key.key_id, "f" * 64):
        revoke(world.user_space, key_id, "lost")
    known = keys(world)
    assert {row.state for row in known.rows} == {KeyState.REVOKED}
    assert {row.reason for row in known.rows} == {"lost"}
    assert [row.key_id for row in known.rows][-1] == "f" * 64
    assert known.undecided == ()


def test_an_invalid_document_is_a_problem_and_hides_no_other(world: World) -> None:
    mia = proposal(world)
    (world.project / ".ai/trusted_keys" / f"{'0' * 16}.toml").write_text("owner = '\\u001b'")
    known = keys(world)
    assert [row.key_id for row in known.rows] == [mia.key.key_id]
    assert [problem.code for problem in known.problems] == ["malformed_trust"]


def test_a_directory_of_documents_that_is_a_link_is_a_problem(world: World) -> None:
    world.key()
    proposal(world)
    place = world.project / ".ai/trusted_keys"
    place.rename(world.root / "elsewhere")
    place.symlink_to(world.root / "elsewhere")
    known = keys(world)
    assert [row.origin for row in known.rows] == [Origin.USER]
    assert [problem.code for problem in known.problems] == ["unsafe_path"]


def test_half_a_key_pair_is_a_problem(world: World) -> None:
    world.key()
    (world.user_space / "keys/person/public_key.pem").unlink()
    assert [problem.code for problem in keys(world).problems] == ["unusable_key"]


def test_revocations_that_cannot_be_read_end_it(world: World) -> None:
    world.key()
    (world.user_space / "revoked.toml").write_text("version = 2")
    refused("malformed_trust", lambda: keys(world))


def test_the_project_itself_is_undecided_until_it_is_approved(world: World) -> None:
    world.project.mkdir(parents=True, exist_ok=True)
    trust = world.trust()
    assert find_undecided(trust, world.keys, project=world.project).project == world.project
    assert trust.approvals is not None
    trust.approvals.approve_project()
    assert not find_undecided(trust, world.keys, project=world.project)
    shutil.rmtree(world.state)
    assert find_undecided(trust, world.keys, project=world.project)


def test_a_row_is_json_and_holds_no_private_key(world: World) -> None:
    world.key()
    document = TrustDocument.create(
        new_key().public, "mia", scope=Scope(ids=("mia/*",), roles=frozenset({Role.TOOL, Role.RUNTIME}))
    )
    world.propose(document)
    rows = json.loads(json.dumps([row.as_dict() for row in keys(world).rows]))
    assert rows[1] == {
        "key_id": document.key.key_id,
        "fingerprint": document.key.fingerprint,
        "state": "undecided",
        "owner": "mia",
        "kind": "person",
        "origin": "project",
        "scope": {"ids": ["mia/*"], "roles": ["runtime", "tool"]},
        "document": document.digest,
        "reason": None,
        "yours": False,
    }
    assert "PRIVATE" not in json.dumps(rows)
