"""The signature line and what it signs, compared with both written out by hand."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.items import ItemFile, ItemType
from rye_mcp.trust import signature
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.trust_document import PublicKey
from tests.trust_world import NOW, World, refused

SEED = bytes(range(32))

LINES = {
    ".py": (b"# ", b""),
    ".sh": (b"# ", b""),
    ".yaml": (b"# ", b""),
    ".rb": (b"# ", b""),
    ".pl": (b"# ", b""),
    "": (b"# ", b""),
    ".js": (b"// ", b""),
    ".mjs": (b"// ", b""),
    ".ts": (b"// ", b""),
    ".go": (b"// ", b""),
    ".rs": (b"// ", b""),
    ".lua": (b"-- ", b""),
    ".sql": (b"-- ", b""),
}


def public_pem(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def known_key() -> SigningKey:
    """A key that is no secret."""
    key = Ed25519PrivateKey.from_private_bytes(SEED)
    public = PublicKey.from_pem(public_pem(key), "a test")
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return SigningKey(SignerKind.PERSON, public, private)


@pytest.mark.parametrize("extension", LINES)
@pytest.mark.parametrize("shebang", [b"", b"#!/usr/bin/env thing\n"], ids=["plain", "shebang"])
def test_a_signed_file_is_what_the_contract_says(world: World, extension: str, shebang: bytes) -> None:
    content = b"first\nsecond"
    file = world.file(shebang + content, extension=extension)
    key = Ed25519PrivateKey.from_private_bytes(SEED)
    raw = key.public_key().public_bytes_raw()
    digest = hashlib.sha256(shebang + content).hexdigest()
    body = (
        f"item-type: tool\nitem-id: demo/hello\nitem-ext: {extension}\nsigned-at: 2026-11-18T10:00:00Z\n"
        f"key-id: {hashlib.sha256(b'rye-key-v1:ed25519:' + raw).hexdigest()}\n"
        f"content-sha256: {digest}\ncontent-length: {len(shebang + content)}\n"
    )
    kind = "application/vnd.rye.item-signature.v1"
    encoded = f"DSSEv1 {len(kind)} {kind} {len(body)} {body}".encode()
    value = base64.urlsafe_b64encode(key.sign(hashlib.sha256(encoded).hexdigest().encode())).decode()
    fingerprint = hashlib.sha256(public_pem(key)).hexdigest()[:16]
    opening, closing = LINES[extension]
    line = opening + f"rye:signed:2026-11-18T10:00:00Z:{digest}:{value}:{fingerprint}".encode() + closing
    assert sign_content(file, known_key(), now=NOW) == shebang + line + b"\n" + content


def test_markup_is_signed_in_a_comment_of_its_own(world: World) -> None:
    file = world.file(b"---\nname: x\n---\n", item_type=ItemType.DIRECTIVE, extension=".md")
    line, rest = sign_content(file, known_key(), now=NOW).split(b"\n", 1)
    assert line.startswith(b"<!-- rye:signed:2026-11-18T10:00:00Z:")
    assert line.endswith(b" -->")
    assert rest == file.content


def test_a_line_is_read_as_it_was_written(world: World) -> None:
    file = replace(world.file(), content=sign_content(world.file(), known_key(), now=NOW))
    claim = signature.locate(file)
    line = signature.parse(file, claim)
    assert (line.timestamp, line.content_hash) == ("2026-11-18T10:00:00Z", claim.digest)
    assert line.fingerprint == known_key().public.fingerprint
    assert claim.length == len(world.file().content)
    assert signature.attach(file, signature.detach(file), line) == file.content


def test_a_moment_is_written_in_universal_time() -> None:
    moment = datetime(2026, 11, 18, 1, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=-9)))
    assert signature.format_timestamp(moment) == "2026-11-18T10:00:00Z"
    assert signature.format_timestamp(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05Z"
    with pytest.raises(ValueError, match="with a time zone"):
        signature.format_timestamp(datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is refused


def test_a_shebang_without_an_end_has_no_room_for_a_signature(world: World) -> None:
    refused("invalid_item", lambda: world.signed(world.file(b"#!/bin/sh", extension=".sh")))


def test_a_file_that_can_hold_no_comment_is_not_signed(world: World) -> None:
    file = replace(world.file(b"{}"), extension=".json")
    refused("invalid_id", lambda: world.signed(file))


@given(
    fields=st.lists(st.sampled_from(["item_id", "extension", "item_type", "digest", "key"]), min_size=1),
    length=st.integers(0, 5),
)
def test_no_two_statements_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, fields: list[str], length: int
) -> None:
    world = World(tmp_path_factory.getbasetemp() / "statements")
    file = world.file()
    changed: ItemFile = file
    digest, key_id = "0" * 64, "1" * 64
    if "item_id" in fields:
        changed = replace(changed, item_id="demo/other")
    if "extension" in fields:
        changed = replace(changed, extension=".sh")
    if "item_type" in fields:
        changed = replace(changed, item_type=ItemType.KNOWLEDGE, extension=".md")
    other_digest = "2" * 64 if "digest" in fields else digest
    other_key = "3" * 64 if "key" in fields else key_id
    one = signature.statement_digest(file, timestamp="t", key_id=key_id, digest=digest, length=0)
    other = signature.statement_digest(
        changed, timestamp="t", key_id=other_key, digest=other_digest, length=length
    )
    assert one != other
