"""The gate: what passes, who is said to have signed it, and how long an answer is kept."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.trust import verify as verify_module
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.scope import Evidence, Origin, Role, Scope, SignerKind, signer_in_words
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from rye_mcp.trust.verify import verify_item
from tests.trust_world import CONTENT, NOW, World, new_key, old, refused

SOURCE = Path(verify_module.__file__).parents[1]


def test_what_a_person_signed_passes_and_says_who_it_was(world: World) -> None:
    file = world.signed()
    item = world.verify(file)
    key = world.keys.show(SignerKind.PERSON)
    assert item.file is file
    assert item.digest == hashlib.sha256(CONTENT).hexdigest()
    assert (item.timestamp, item.evidence, item.role) == (
        "2026-11-18T10:00:00Z",
        Evidence.SIGNATURE,
        Role.TOOL,
    )
    assert item.signer.as_dict() == {"kind": "person", "owner": "leo", "fingerprint": key.fingerprint}
    assert (item.signer.key_id, item.signer.origin) == (key.key_id, Origin.USER)


def test_what_an_agent_signed_passes_and_says_so(world: World) -> None:
    item = world.verify(world.signed(key=world.key(SignerKind.AGENT)))
    assert (item.signer.kind, item.signer.owner) == (SignerKind.AGENT, "your agent")


@pytest.mark.parametrize(
    ("item_type", "extension"),
    [
        (ItemType.TOOL, ".js"),
        (ItemType.TOOL, ".sql"),
        (ItemType.DIRECTIVE, ".md"),
        (ItemType.KNOWLEDGE, ".md"),
    ],
)
@pytest.mark.parametrize("space", [SpaceName.PROJECT, SpaceName.USER])
def test_items_of_every_type_pass(
    world: World, item_type: ItemType, extension: str, space: SpaceName
) -> None:
    file = world.signed(world.file(b"text\n", item_type=item_type, extension=extension, space=space))
    assert world.verify(file).role == (Role.TOOL if item_type is ItemType.TOOL else Role(item_type))


def test_a_copy_in_another_space_stays_validly_signed(world: World) -> None:
    file = world.signed()
    copy = replace(file, space=world.space(SpaceName.USER))
    assert world.verify(copy).signer == world.verify(file).signer


def test_an_accepted_proposal_of_the_project_counts_there_and_nowhere_else(world: World) -> None:
    mia = new_key()
    document = TrustDocument.create(mia.public, "mia")
    world.propose(document)
    file = world.signed(key=mia)
    world.trust().store.decide(document, Decision.ACCEPTED)
    assert world.verify(file).signer.origin is Origin.PROJECT
    refused("untrusted_key", lambda: world.verify(replace(file, space=world.space(SpaceName.USER))))


def test_the_role_is_told_from_exactly_the_verified_bytes(world: World) -> None:
    asked: list[bytes] = []

    def role_of(content: bytes) -> Role:
        asked.append(content)
        return Role.RUNTIME

    file = world.signed()
    assert world.verify(file, role_of).role is Role.RUNTIME
    assert asked == [file.content]


def test_nobody_parses_what_is_not_authentic(world: World) -> None:
    file = world.signed()
    changed = replace(file, content=file.content + b"#")

    def role_of(content: bytes) -> Role:
        raise AssertionError("parsed")

    refused("content_changed", lambda: world.verify(changed, role_of))


@given(content=st.binary(max_size=300), shebang=st.booleans())
def test_signing_then_verifying_always_passes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, shebang: bool
) -> None:
    world = World(tmp_path_factory.getbasetemp() / "always")
    file = world.file((b"#!/usr/bin/env python3\n" if shebang else b"") + content)
    try:
        signed = world.signed(file)
    except RyeError as error:
        assert error.code in {"not_text", "invalid_item", "malformed_signature"}  # noqa: PT017
        return
    item = world.verify(signed)
    assert item.digest == hashlib.sha256(file.content).hexdigest()
    assert sign_content(signed, world.key(), now=NOW) == signed.content


@given(data=st.data())
def test_no_mutation_of_a_signed_file_passes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    world = World(tmp_path_factory.getbasetemp() / "never")
    shebang = data.draw(st.sampled_from([b"", b"#!/bin/sh\n"]))
    content = world.signed(world.file(shebang + CONTENT)).content
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 100)))
    new = data.draw(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from([content[start:end] * 2, content[start:end][::-1], b"\n", b"\xe2\x80\xa8", b""]),
        )
    )
    mutated = content[:start] + new + content[end:]
    if mutated != content:
        with pytest.raises(RyeError):
            world.verify(world.file(mutated))


@pytest.mark.usefixtures("quick_clock")
class TestAKeptAnswer:
    """The second time costs less, and is as true as the first."""

    def test_is_given_for_the_same_bytes_without_verifying_them_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file, trust = world.signed(), world.trust()
        first = verify_item(file, trust, role=Role.TOOL)
        old(world.user_space, world.user_space / "trusted_keys")
        monkeypatch.setattr(verify_module, "verify_signature", None)
        again = replace(file, path=file.path.with_name("elsewhere"))
        second = verify_item(again, trust, role=Role.TOOL)
        assert second == replace(first, file=again)

    @pytest.mark.parametrize("waiting", [False, True], ids=["at once", "later"])
    def test_does_not_outlive_a_revocation(self, world: World, waiting: bool) -> None:
        file, trust = world.signed(), world.trust()
        verify_item(file, trust, role=Role.TOOL)
        if waiting:
            old(world.user_space, world.user_space / "trusted_keys")
            verify_item(file, trust, role=Role.TOOL)
        revoke(world.user_space, world.keys.show(SignerKind.PERSON).key_id, "lost")
        refused("revoked_key", lambda: verify_item(file, trust, role=Role.TOOL))

    def test_does_not_outlive_the_document_of_its_key(self, world: World) -> None:
        file, trust = world.signed(), world.trust()
        verify_item(file, trust, role=Role.TOOL)
        key = world.keys.show(SignerKind.PERSON)
        path = world.user_space / "trusted_keys" / f"{key.fingerprint}.toml"
        old(path, path.parent)
        verify_item(file, trust, role=Role.TOOL)
        path.unlink()
        refused("untrusted_key", lambda: verify_item(file, trust, role=Role.TOOL))

    def test_does_not_outlive_a_change_of_scope(self, world: World) -> None:
        mia = new_key()
        world.trust_key(TrustDocument.create(mia.public, "mia"))
        file, trust = world.signed(key=mia), world.trust()
        verify_item(file, trust, role=Role.TOOL)
        world.trust_key(TrustDocument.create(mia.public, "mia", scope=Scope(ids=("mia/*",))))
        refused("out_of_scope", lambda: verify_item(file, trust, role=Role.TOOL))

    def test_does_not_outlive_an_acceptance(self, world: World) -> None:
        mia = new_key()
        document = TrustDocument.create(mia.public, "mia")
        world.propose(document)
        file, trust = world.signed(key=mia), world.trust()
        trust.store.decide(document, Decision.ACCEPTED)
        verify_item(file, trust, role=Role.TOOL)
        world.trust().store.decide(document, Decision.DENIED)
        refused("untrusted_key", lambda: verify_item(file, trust, role=Role.TOOL))

    def test_is_for_one_role(self, world: World) -> None:
        file, trust = world.signed(key=world.key(SignerKind.AGENT)), world.trust()
        verify_item(file, trust, role=Role.TOOL)
        refused("out_of_scope", lambda: verify_item(file, trust, role=Role.RUNTIME))

    @pytest.mark.parametrize(
        "other",
        [
            {"item_id": "demo/other"},
            {"extension": ".sh"},
            {"item_type": ItemType.KNOWLEDGE, "extension": ".md"},
        ],
        ids=str,
    )
    def test_is_for_one_item(self, world: World, other: dict[str, object]) -> None:
        file, trust = world.signed(), world.trust()
        verify_item(file, trust, role=Role.TOOL)
        moved: ItemFile = replace(file, **other)  # type: ignore[arg-type]
        with pytest.raises(RyeError):
            verify_item(moved, trust, role=Role.TOOL)


@pytest.mark.parametrize(
    ("kind", "owner", "fingerprint", "words"),
    [
        (SignerKind.PERSON, "ada", "f" * 16, f"ada ({'f' * 16})"),
        (SignerKind.AGENT, "your agent", "f" * 16, f"an agent ({'f' * 16})"),
        (SignerKind.AGENT, "ci", "f" * 16, f"an agent: ci ({'f' * 16})"),
        (SignerKind.SYSTEM, "rye-mcp 0.1.0", None, "the system (rye-mcp 0.1.0)"),
    ],
)
def test_the_signer_is_told_in_words(
    kind: SignerKind, owner: str, fingerprint: str | None, words: str
) -> None:
    assert signer_in_words(kind, owner, fingerprint) == words
