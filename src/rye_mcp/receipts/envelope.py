"""DSSE envelopes of in-toto statements, in exactly one form: a line of JSON.

The digest of a receipt is the SHA-256 of that line, signature included. So a chain of digests covers every
byte of every receipt before it.

    >>> pre_authentication("a/b", b"{}")
    b'DSSEv1 3 a/b 2 {}'
"""

from __future__ import annotations

import binascii
import hashlib
from typing import Final, Self

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.trust.trust_document import is_key_id

__all__ = ["MAX_ENVELOPE_BYTES", "PAYLOAD_TYPE", "Envelope", "pre_authentication"]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
"""The type of every payload."""

MAX_ENVELOPE_BYTES: Final = 1 << 20
"""How long a line may be."""

SIGNATURE_BYTES: Final = 64

_HEAD: Final = b"DSSEv1 %d %s " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode("ascii"))
_LINE: Final = (
    b'{"payload":"%s","payloadType":"' + PAYLOAD_TYPE.encode("ascii") + b'",'
    b'"signatures":[{"keyid":"%s","sig":"%s"}]}'
)


class _Signature(msgspec.Struct, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    payload: str
    payloadType: str  # noqa: N815 - its name in DSSE
    signatures: list[_Signature]


_DECODER: Final = msgspec.json.Decoder(_Wire)


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: a payload together with its type."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode("utf-8"), len(payload), payload)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload, and the signature of one key."""

    payload: bytes
    key_id: str
    signature: bytes

    @classmethod
    def sign(cls, payload: bytes, key_id: str, key: Ed25519PrivateKey) -> Self:
        """The envelope of a payload, signed with a key."""
        return cls(payload, key_id, key.sign(_signed(payload)))

    @classmethod
    def parse(cls, line: bytes, place: str) -> Self:
        """The envelope in a line of `place`; RyeError `malformed_receipt` for anything else."""
        try:
            wire = _DECODER.decode(line)
            [signature] = wire.signatures
            found = cls(_decoded(wire.payload), signature.keyid, _decoded(signature.sig))
        except (msgspec.DecodeError, ValueError) as exc:
            what = f"expected a receipt with one signature in {place}, found none: {exc}"
            raise RyeError("malformed_receipt", what) from exc
        is_sound = is_key_id(found.key_id) and len(found.signature) == SIGNATURE_BYTES
        if not is_sound or found.line != line:
            what = f"expected a receipt in the form in which rye-mcp writes it in {place}, found another one"
            raise RyeError("malformed_receipt", what)
        return found

    @property
    def line(self) -> bytes:
        """The envelope as JSON, without a line feed."""
        return _LINE % (_encoded(self.payload), self.key_id.encode("ascii"), _encoded(self.signature))

    @property
    def digest(self) -> str:
        """The SHA-256 of the line."""
        return hashlib.sha256(self.line).hexdigest()

    def require_signed(self, key: Ed25519PublicKey, place: str) -> None:
        """RyeError `bad_signature` unless the owner of this key signed the payload."""
        try:
            key.verify(self.signature, _signed(self.payload))
        except InvalidSignature as exc:
            what = (
                f"expected a receipt that the key {self.key_id} signed in {place}, found one that it did not"
            )
            raise RyeError("bad_signature", what, hint="do not believe what this receipt says") from exc


def _signed(payload: bytes) -> bytes:
    return _HEAD + b"%d %s" % (len(payload), payload)


def _encoded(data: bytes) -> bytes:
    return binascii.b2a_base64(data, newline=False)


def _decoded(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
