"""The statement with which a person's old key signs their new one, so that both count as the same person.

Rules:

- The statement names both key ids, the time, and that a person rotates: an agent's key never does. It is
  signed in an encoding of its own, so it passes for no signature of an item, nor the other way round.
- It stands in the document of the new key (`[rotation]`), and is checked when that document is read: one that
  the old key did not sign makes the document `malformed_trust`.
- A statement trusts nobody by itself. Whoever trusts the old key, and has not revoked it, trusts the new one
  for the same (see `rye_mcp.trust.trust_store`), in the same project and for nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from lilux.primitives.signing import sign_hash, verify_signature
from rye_mcp.errors import RyeError
from rye_mcp.trust import _toml
from rye_mcp.trust.public_key import PublicKey
from rye_mcp.trust.signature import format_timestamp, pre_authentication_digest

__all__ = ["MAX_ROTATIONS", "RotationStatement"]

MAX_ROTATIONS: Final = 16
"""How many rotations are followed from a key to the ones before it."""

_PAYLOAD_TYPE: Final = b"application/vnd.rye.key-rotation.v1"
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]{86}==", re.ASCII)


@dataclass(frozen=True, slots=True)
class RotationStatement:
    """That the owner of `old` signs with another key since `at`: the one of the document that holds it."""

    old: PublicKey
    at: str
    signature: str

    @classmethod
    def sign(cls, old: PublicKey, private_pem: bytes, new: PublicKey, moment: datetime) -> RotationStatement:
        """The statement about a new key, signed with the old private key."""
        at = format_timestamp(moment)
        return cls(old, at, sign_hash(_digest(old, new, at), private_pem))

    @classmethod
    def parse(cls, table: object, new: PublicKey, place: Path) -> RotationStatement:
        """The statement in a table of a document; RyeError `malformed_trust` unless the old key signed it."""
        fields = _toml.require_keys(table, place, "[rotation]", required=("at", "signature", "old_key"))
        old = _old_key(fields, place)
        at, signature = fields["at"], fields["signature"]
        if not _is_time(at):
            raise _toml.malformed(place, "a time such as 2026-11-18T10:00:00Z as at", _toml.shown(at))
        if old.key_id == new.key_id:
            raise _toml.malformed(place, "another key as old_key", "the key itself")
        if not isinstance(signature, str) or not _SIGNATURE.fullmatch(signature):
            raise _toml.malformed(place, "a signature in [rotation]", _toml.shown(signature))
        if not verify_signature(_digest(old, new, at), signature, old.pem):
            raise _toml.malformed(
                place, f"a rotation that the key {old.key_id} signed", "one that it did not"
            )
        return cls(old, at, signature)

    def render(self) -> list[str]:
        """The lines of the table."""
        return [
            "[rotation]",
            f"at = {_toml.write_value(self.at)}",
            f"signature = {_toml.write_value(self.signature)}",
            f'old_key = """\n{self.old.pem.decode("ascii")}"""',
        ]


def _digest(old: PublicKey, new: PublicKey, at: str) -> str:
    """The SHA256 of what is signed."""
    body = f"kind: person\nold-key-id: {old.key_id}\nnew-key-id: {new.key_id}\nrotated-at: {at}\n"
    return pre_authentication_digest(_PAYLOAD_TYPE, body.encode("ascii"))


def _old_key(fields: Mapping[str, Any], place: Path) -> PublicKey:
    pem = fields["old_key"]
    if not isinstance(pem, str) or not pem.isascii():
        raise _toml.malformed(place, "a PEM as old_key", type(pem).__name__)
    try:
        return PublicKey.from_pem(pem.encode("ascii"), place)
    except RyeError as exc:
        if exc.code != "unusable_key":
            raise
        raise RyeError("malformed_trust", exc.message, where=place) from exc


def _is_time(text: object) -> bool:
    try:
        return isinstance(text, str) and format_timestamp(datetime.fromisoformat(text)) == text
    except ValueError:
        return False
