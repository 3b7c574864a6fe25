"""Somebody proposes a key that anybody can sign for."""

from __future__ import annotations

import base64
import hashlib

import pytest

from rye_mcp.trust.approvals import TRUSTED_KEYS_VARIABLE
from rye_mcp.trust.trust_document import PublicKey
from tests.trust_world import World, new_key, refused, stopped

LOW_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    b"\x00" * 31 + b"\x80",
    b"\x01" + bytes(30) + b"\x80",
    b"\xec" + b"\xff" * 30 + b"\x7f",
    b"\xec" + b"\xff" * 31,
    b"\xed" + b"\xff" * 30 + b"\x7f",
    b"\xee" + b"\xff" * 30 + b"\x7f",
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
]
ANY_SIGNATURE = base64.urlsafe_b64encode(b"\x01" + bytes(63)).decode()


def pem_of(raw: bytes) -> bytes:
    body = base64.b64encode(bytes.fromhex("302a300506032b6570032100") + raw)
    return b"-----BEGIN PUBLIC KEY-----\n" + body + b"\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize("raw", LOW_ORDER, ids=bytes.hex)
def test_a_low_order_key_is_refused_wherever_it_comes_from(world: World, raw: bytes) -> None:
    pem = pem_of(raw)
    refused("weak_key", lambda: PublicKey.from_pem(pem, "a test"))
    key_id = hashlib.sha256(b"rye-key-v1:ed25519:" + raw).hexdigest()
    fingerprint = hashlib.sha256(pem).hexdigest()[:16]
    document = (
        f'version = 1\nkey_id = "{key_id}"\nowner = "mallory"\n[public_key]\npem = """\n{pem.decode()}"""\n'
    )
    world.environment[TRUSTED_KEYS_VARIABLE] = key_id
    line = world.signed(key=new_key()).content.split(b"\n", 1)[0].decode().split(":")
    line[-2:] = [ANY_SIGNATURE, fingerprint]
    file = world.file(":".join(line).encode() + b"\n" + world.file().content)
    for space in (world.project / ".ai", world.user_space):
        directory = space / "trusted_keys"
        directory.mkdir(parents=True, exist_ok=True)
        directory.joinpath(f"{fingerprint}.toml").write_text(document)
        stopped(world, "weak_key", file)
