"""Somebody has a key that was revoked."""

from __future__ import annotations

import pytest

from rye_mcp.trust.approvals import TRUSTED_KEYS_VARIABLE, Decision
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import REVOCATIONS_FILE, revoke
from tests.trust_world import World, new_key, refused, stopped


@pytest.mark.parametrize("kind", [SignerKind.PERSON, SignerKind.AGENT])
def test_what_it_signed_is_refused_whenever_that_was(world: World, kind: SignerKind) -> None:
    key = world.key(kind)
    file = world.signed(key=key)
    world.verify(file)
    revoke(world.user_space, key.public.key_id, "the laptop was stolen")
    error = stopped(world, "revoked_key", file)
    assert "the laptop was stolen" in error.message


def test_it_wins_over_every_kind_of_trust(world: World) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    world.trust().store.decide(document, Decision.ACCEPTED)
    world.environment[TRUSTED_KEYS_VARIABLE] = mia.public.key_id
    revoke(world.user_space, mia.public.key_id, "gone")
    stopped(world, "revoked_key", world.signed(key=mia))
    world.trust_key(document)
    stopped(world, "revoked_key", world.signed(key=mia))


def test_it_signs_nothing_more(world: World) -> None:
    key, file = world.key(), world.stored(world.file())
    revoke(world.user_space, key.public.key_id, "gone")
    refused("revoked_key", lambda: sign_item(file, key, world.trust(), role=Role.TOOL))
    assert file.path.read_bytes() == file.content


def test_a_second_revocation_keeps_the_first_and_its_reason(world: World) -> None:
    first, second = (new_key().public.key_id for _ in range(2))
    revoke(world.user_space, first, 'the "first" \\ reason')
    revoke(world.user_space, second, "another")
    revoke(world.user_space, first, "a third")
    assert dict(world.trust().store.revocations()) == {first: 'the "first" \\ reason', second: "another"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version = 2\n",
        "version = 1\nrevoked = 1\n",
        "version = 1\n[[revoked]]\n",
        'version = 1\n[[revoked]]\nkey_id = "0"\n',
        'version = 1\n[[revoked]]\nkey_id = "' + "0" * 64 + '"\nreson = "typo"\n',
        'version = 1\n[[revoke]]\nkey_id = "' + "0" * 64 + '"\n',
        "version = 1\nrevoked = " + "[" * 10_000,
        "version = 1\nrevoked = " + "[" * 30_000,
    ],
    ids=lambda text: text[:40],
)
def test_a_list_that_cannot_be_read_lets_nobody_through(world: World, text: str) -> None:
    file = world.signed()
    (world.user_space / REVOCATIONS_FILE).write_text(text)
    stopped(world, "malformed_trust", file)


def test_a_list_that_others_may_write_lets_nobody_through(world: World) -> None:
    file = world.signed()
    revoke(world.user_space, "0" * 64, "gone")
    (world.user_space / REVOCATIONS_FILE).chmod(0o666)
    error = stopped(world, "unsafe_permissions", file)
    assert (error.hint or "").startswith("chmod 0644 ")


def test_a_list_that_is_a_link_lets_nobody_through(world: World) -> None:
    file = world.signed()
    (world.user_space / REVOCATIONS_FILE).symlink_to("/dev/null")
    stopped(world, "unsafe_path", file)


@pytest.mark.parametrize("key_id", ["", "0" * 16, "../../etc", "0" * 64 + "\n"])
def test_what_is_no_key_id_cannot_be_revoked(world: World, key_id: str) -> None:
    refused("unusable_key", lambda: revoke(world.user_space, key_id, "gone"))
    refused("malformed_trust", lambda: revoke(world.user_space, "0" * 64, "two\nlines"))
    assert not (world.user_space / REVOCATIONS_FILE).exists()
