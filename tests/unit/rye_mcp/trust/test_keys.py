"""The key pairs of a user: made once, shown without a secret, replaced without losing what they signed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from rye_mcp.trust.keys import PASSPHRASE_VARIABLE, KeyRing
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import PublicKey, TrustDocument
from tests.file_helpers import mode_of, names_in
from tests.trust_world import World, new_key, refused

KINDS = [SignerKind.PERSON, SignerKind.AGENT]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_made_once(world: World, kind: SignerKind) -> None:
    key = world.keys.generate(kind, owner="leo")
    assert world.keys.show(kind) == world.keys.ensure(kind) == key
    assert world.keys.load(kind).public == key
    refused("unusable_key", lambda: world.keys.generate(kind))
    assert world.keys.show(kind) == key


def test_its_files_are_where_and_how_they_have_to_be(world: World) -> None:
    for kind in KINDS:
        world.keys.generate(kind)
        directory = world.user_space / "keys" / kind
        assert world.keys.directory(kind) == directory
        assert names_in(directory) == ["private_key.pem", "public_key.pem"]
        assert mode_of(directory) == mode_of(world.user_space / "keys") == 0o700
        assert mode_of(directory / "private_key.pem") == 0o600
        assert mode_of(directory / "public_key.pem") == 0o644


def test_only_a_person_is_written_into_the_trusted_keys(world: World) -> None:
    world.keys.ensure(SignerKind.AGENT)
    assert not (world.user_space / "trusted_keys").exists()
    key = world.keys.ensure(SignerKind.PERSON, owner="leo")
    (document,) = world.trust().store.documents().documents
    assert (document.key, document.owner, document.kind) == (key, "leo", SignerKind.PERSON)


def test_a_document_that_was_narrowed_stays_narrow(world: World) -> None:
    key = world.keys.ensure(SignerKind.PERSON, owner="leo")
    path = world.user_space / "trusted_keys" / f"{key.fingerprint}.toml"
    narrowed = path.read_bytes().replace(b"[public_key]", b'[scope]\nids = ["leo/*"]\n[public_key]')
    path.write_bytes(narrowed)
    world.keys.ensure(SignerKind.PERSON)
    assert path.read_bytes() == narrowed


def test_a_pair_that_is_missing_says_how_to_get_one(world: World) -> None:
    for action in (world.keys.show, world.keys.load, world.keys.rotate, world.keys.export):
        error = refused("no_key", partial(action, SignerKind.PERSON))
        assert error.hint == "rye keys generate"


def test_there_are_two_kinds(world: World) -> None:
    with pytest.raises(ValueError, match="person or agent"):
        world.keys.directory(SignerKind.SYSTEM)


class TestAPassphrase:
    """It encrypts the file of a private key, and nothing else asks for it."""

    def test_is_an_argument_or_stands_in_the_environment(self, world: World) -> None:
        world.keys.generate(SignerKind.PERSON, passphrase=b"secret")
        path = world.keys.directory(SignerKind.PERSON) / "private_key.pem"
        assert b"ENCRYPTED" in path.read_bytes()
        refused("passphrase_required", lambda: world.keys.load(SignerKind.PERSON))
        refused("passphrase_required", lambda: world.keys.load(SignerKind.PERSON, passphrase=b"wrong"))
        by_argument = world.keys.load(SignerKind.PERSON, passphrase=b"secret")
        world.environment[PASSPHRASE_VARIABLE] = "secret"
        assert world.keys.load(SignerKind.PERSON) == by_argument
        world.verify(world.signed(key=by_argument))

    def test_in_the_environment_encrypts_a_new_pair_of_a_person_and_not_of_an_agent(
        self, world: World
    ) -> None:
        world.environment[PASSPHRASE_VARIABLE] = "secret"
        for kind in KINDS:
            world.keys.ensure(kind)
        world.environment.clear()
        refused("passphrase_required", lambda: world.keys.load(SignerKind.PERSON))
        world.keys.load(SignerKind.AGENT)

    def test_in_the_environment_is_no_matter_for_a_key_in_the_clear(self, world: World) -> None:
        world.key()
        world.environment[PASSPHRASE_VARIABLE] = "secret"
        world.keys.load(SignerKind.PERSON)

    def test_can_be_changed_and_taken_away(self, world: World) -> None:
        before = world.key()
        world.keys.change_passphrase(SignerKind.PERSON, old=None, new=b"first")
        refused("passphrase_required", lambda: world.keys.load(SignerKind.PERSON))
        world.keys.change_passphrase(SignerKind.PERSON, old=b"first", new=b"second")
        refused("passphrase_required", lambda: world.keys.load(SignerKind.PERSON, passphrase=b"first"))
        world.keys.change_passphrase(SignerKind.PERSON, old=b"second", new=None)
        assert world.keys.load(SignerKind.PERSON) == before

    def test_is_not_needed_to_show_a_key(self, world: World) -> None:
        key = world.keys.generate(SignerKind.PERSON, passphrase=b"secret")
        assert world.keys.show(SignerKind.PERSON) == key
        assert key.pem.split(b"\n")[1] in world.keys.export(SignerKind.PERSON)

    def test_and_key_are_in_no_message_and_no_representation(self, world: World) -> None:
        world.keys.generate(SignerKind.PERSON, passphrase=b"secret")
        error = refused(
            "passphrase_required", lambda: world.keys.load(SignerKind.PERSON, passphrase=b"Tr0ub4dor")
        )
        assert "Tr0ub4dor" not in str(error.as_dict())
        assert "PRIVATE" not in repr(world.keys.load(SignerKind.PERSON, passphrase=b"secret"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_rotated_key_signed_stays_valid(world: World, kind: SignerKind) -> None:
    before = world.signed(key=world.key(kind))
    rotation = world.keys.rotate(kind, owner="leo")
    assert rotation.old != rotation.new == world.keys.show(kind)
    after = world.signed(key=world.key(kind))
    assert world.verify(before).signer.key_id == rotation.old.key_id
    assert world.verify(after).signer.key_id == rotation.new.key_id
    assert world.verify(before).signer.kind is world.verify(after).signer.kind is kind


@pytest.mark.parametrize("kind", [SignerKind.PERSON, SignerKind.AGENT])
def test_an_encrypted_pair_is_never_replaced_by_one_in_the_clear(world: World, kind: SignerKind) -> None:
    world.keys.generate(kind, owner="leo", passphrase=b"one")
    before = world.keys.show(kind)
    refused("passphrase_required", lambda: world.keys.rotate(kind, owner="leo"))
    assert world.keys.show(kind) == before
    assert len(list(world.user_space.glob("trusted_keys/*"))) == (kind is SignerKind.PERSON)
    world.keys.rotate(kind, owner="leo", passphrase=b"two")
    assert world.keys.is_encrypted(kind)


def test_an_exported_key_is_a_document_that_others_can_trust(world: World) -> None:
    file = world.signed()
    data = world.keys.export(SignerKind.PERSON, owner="leo")
    other = World(world.root / "other")
    cloned = replace(file, space=other.space())
    fingerprint = world.keys.show(SignerKind.PERSON).fingerprint
    document = TrustDocument.parse(data, world.root / f"{fingerprint}.toml")
    refused("untrusted_key", lambda: other.verify(cloned))
    other.trust_key(document)
    assert other.verify(cloned).signer.owner == "leo"


def test_a_pair_of_two_halves_is_refused(world: World) -> None:
    world.key()
    public = world.keys.directory(SignerKind.PERSON) / "public_key.pem"
    public.write_bytes(new_key().public.pem)
    refused("unusable_key", lambda: world.keys.load(SignerKind.PERSON))


@pytest.mark.parametrize("name", ["private_key.pem", "public_key.pem"])
def test_half_a_pair_is_refused_and_never_replaced(world: World, name: str) -> None:
    world.key()
    directory = world.keys.directory(SignerKind.PERSON)
    (directory / name).unlink()
    kept = {path: path.read_bytes() for path in directory.iterdir()}
    refused("unusable_key", lambda: world.keys.load(SignerKind.PERSON))
    for action in (world.keys.generate, world.keys.show):
        if name == "public_key.pem":
            refused("unusable_key", partial(action, SignerKind.PERSON))
    assert {path: path.read_bytes() for path in directory.iterdir()} == kept


@pytest.mark.parametrize("content", [b"", b"no PEM", b"\0" * 100], ids=repr)
def test_a_file_that_holds_no_key_is_refused(world: World, content: bytes) -> None:
    world.key()
    directory = world.keys.directory(SignerKind.PERSON)
    private = (directory / "private_key.pem").read_bytes()
    (directory / "private_key.pem").write_bytes(content)
    refused("unusable_key", lambda: world.keys.load(SignerKind.PERSON))
    (directory / "private_key.pem").write_bytes(private)
    (directory / "public_key.pem").write_bytes(content)
    refused("unusable_key", lambda: world.keys.load(SignerKind.PERSON))
    refused("unusable_key", lambda: world.keys.show(SignerKind.PERSON))


def test_every_way_to_write_a_key_down_has_one_fingerprint() -> None:
    key = new_key().public
    body = b"".join(key.pem.split(b"\n")[1:-2])
    written = (
        b"-----BEGIN PUBLIC KEY-----\n" + body[:20] + b"\n" + body[20:] + b"\n-----END PUBLIC KEY-----\n\n"
    )
    assert written != key.pem
    assert PublicKey.from_pem(written, "a test") == key


def test_signing_with_a_key_that_nothing_trusts_says_what_helps(world: World) -> None:
    key, file = world.key(), world.stored(world.file())
    next((world.user_space / "trusted_keys").iterdir()).unlink()
    error = refused("untrusted_key", lambda: sign_item(file, key, world.trust(), role=Role.TOOL))
    assert "rye init" in (error.hint or "")
    assert file.path.read_bytes() == file.content
    KeyRing(world.user_space, environment={}).ensure(SignerKind.PERSON)
    sign_item(file, key, world.trust(), role=Role.TOOL)
