"""A public key, and the two names that it has.

Rules:

- The key id is the identity: the SHA256 of `rye-key-v1:ed25519:` and the 32 bytes of the key. The
  fingerprint, 16 digits of the SHA256 of its PEM, is only where to look first.
- A key has many PEMs and here only one: whichever was read, the fingerprint is that of the usual form.
- Bytes that are no Ed25519 key are `unusable_key`; a key of low order is `weak_key`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from lilux import _keys
from lilux.primitives.errors import ConfigurationError, IntegrityError
from lilux.primitives.signing import compute_key_fingerprint
from rye_mcp.errors import RyeError

__all__ = ["PublicKey", "is_fingerprint", "is_key_id"]

_KEY_ID_PREFIX = b"rye-key-v1:ed25519:"
_KEY_ID = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that only its owner can sign for."""

    pem: bytes
    key_id: str
    fingerprint: str

    @classmethod
    def from_pem(cls, pem: bytes, place: str | Path) -> PublicKey:
        """The key that stands in `pem`, which was taken from `place`."""
        try:
            key = _keys.load_public(pem, str(place))
        except IntegrityError as exc:
            raise RyeError("weak_key", f"{exc.message}, in {place}", where=place) from exc
        except ConfigurationError as exc:
            raise RyeError("unusable_key", exc.message, where=place) from exc
        usual = _keys.public_pem(key)
        key_id = hashlib.sha256(_KEY_ID_PREFIX + key.public_bytes_raw()).hexdigest()
        return cls(usual, key_id, compute_key_fingerprint(usual))


def is_key_id(text: object) -> bool:
    """Whether this has the form of a key id."""
    return isinstance(text, str) and _KEY_ID.fullmatch(text) is not None


def is_fingerprint(text: object) -> bool:
    """Whether this has the form of a fingerprint."""
    return isinstance(text, str) and _FINGERPRINT.fullmatch(text) is not None
