"""Loads Ed25519 keys from PEM, in one place.

Anything but exactly one PEM block of the right kind is a ConfigurationError whose `field` is the place that
the caller names. A public key of low order, for which anybody could sign, is an IntegrityError (`weak_key`).
No message quotes a private key, and none is kept.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lilux import _ed25519
from lilux.primitives.errors import ConfigurationError, IntegrityError

__all__ = [
    "MAX_PEM_BYTES",
    "load_private",
    "load_public",
    "private_pem",
    "public_pem",
    "require_bytes",
    "require_passphrase",
]

MAX_PEM_BYTES = 16 * 1024
"""An Ed25519 key has about a hundred bytes; up to this size, keys of other kinds are told by their name."""

MAX_PASSPHRASE_BYTES = 1023
"""The longest passphrase that `cryptography` takes."""

_CACHED_KEYS = 256
_PEM = re.compile(rb"\s*-----BEGIN ([A-Z0-9 ]+)-----\s[A-Za-z0-9+/=\s]+-----END \1-----\s*")
_PLAIN_PUBLIC = re.compile(rb"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/]{59}=)\n-----END PUBLIC KEY-----\n")
_PLAIN_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""How every SubjectPublicKeyInfo of an Ed25519 key begins; its 32 bytes follow."""

_PLAIN_PRIVATE = re.compile(
    rb"-----BEGIN PRIVATE KEY-----\n([A-Za-z0-9+/]{64})\n-----END PRIVATE KEY-----\n"  # it holds none
)
_PLAIN_PRIVATE_PREFIX = bytes.fromhex("302e020100300506032b657004220420")
"""How every PKCS8 of an Ed25519 key without attributes begins; its 32 bytes follow."""

_PUBLIC_LABEL = b"PUBLIC KEY"
_PRIVATE_LABEL = b"PRIVATE KEY"
_ENCRYPTED_LABEL = b"ENCRYPTED PRIVATE KEY"


def private_pem(key: Ed25519PrivateKey, passphrase: bytes | None = None) -> bytes:
    """A private key as PKCS8, encrypted when there is a passphrase."""
    from cryptography.hazmat.primitives import serialization

    require_passphrase(passphrase)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def public_pem(key: Ed25519PublicKey) -> bytes:
    """A public key as SubjectPublicKeyInfo; `serialization` writes the same, and takes long to load."""
    encoded = base64.b64encode(_PLAIN_PREFIX + key.public_bytes_raw())
    return b"-----BEGIN PUBLIC KEY-----\n%b\n-----END PUBLIC KEY-----\n" % encoded


def load_public(pem: bytes, place: str) -> Ed25519PublicKey:
    """The key that stands in `pem`, which the caller took from `place`."""
    require_bytes(pem, place)
    try:
        return _parse_public_key(pem)
    except ValueError as exc:
        raise ConfigurationError(
            f"expected an Ed25519 public key as PEM in {place}, found {exc}", field=place
        ) from exc


@lru_cache(maxsize=_CACHED_KEYS)
def _parse_public_key(pem: bytes) -> Ed25519PublicKey:
    """The key; ValueError with what was found instead. Kept, because a check costs as much as a signature."""
    key = _plain_public_key(pem) or _loaded_public_key(pem)
    _require_sound_point(key.public_bytes_raw())
    return key


def _plain_public_key(pem: bytes) -> Ed25519PublicKey | None:
    """A key in the form that `public_pem` writes; what reads all other forms takes long to load."""
    found = _PLAIN_PUBLIC.fullmatch(pem)
    der = b"" if found is None else base64.b64decode(found[1])
    if found is None or base64.b64encode(der) != found[1] or not der.startswith(_PLAIN_PREFIX):
        return None
    return Ed25519PublicKey.from_public_bytes(der.removeprefix(_PLAIN_PREFIX))


def _loaded_public_key(pem: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives import serialization

    if (label := _label(pem)) != _PUBLIC_LABEL:
        raise ValueError(_described(label))
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise ValueError("content that is no public key") from exc
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"a key of another kind ({type(key).__name__.removesuffix('PublicKey')})")
    return key


def _require_sound_point(encoded: bytes) -> None:
    if _ed25519.is_low_order(encoded):
        raise IntegrityError(
            f"expected a public key that only its owner can sign for, "
            f"found a point of low order ({encoded.hex()})",
            reason="weak_key",
        )
    if not _ed25519.is_canonical_point(encoded):
        raise ValueError(f"bytes that are no point of the curve ({encoded.hex()})")


def load_private(pem: bytes, place: str, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """The key that stands in `pem`, which the caller took from `place`."""
    require_bytes(pem, place)
    key = None if passphrase is not None else _plain_private_key(pem)
    return key or _loaded_private_key(pem, place, passphrase)


def _plain_private_key(pem: bytes) -> Ed25519PrivateKey | None:
    """A key in the form that `private_pem` writes; what reads all other forms takes long to load."""
    found = _PLAIN_PRIVATE.fullmatch(pem)
    der = b"" if found is None else base64.b64decode(found[1])
    if found is None or base64.b64encode(der) != found[1] or not der.startswith(_PLAIN_PRIVATE_PREFIX):
        return None
    return Ed25519PrivateKey.from_private_bytes(der.removeprefix(_PLAIN_PRIVATE_PREFIX))


def _loaded_private_key(pem: bytes, place: str, passphrase: bytes | None) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives import serialization

    label = _label(pem)
    if label not in (_PRIVATE_LABEL, _ENCRYPTED_LABEL):
        raise _not_a_private_key(place, _described(label))
    _require_fitting(passphrase, place, encrypted=label == _ENCRYPTED_LABEL)
    try:
        key = serialization.load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        if passphrase is not None:
            what = f"expected the passphrase of {place}, found a wrong one (or the file is damaged)"
            raise ConfigurationError(what, field="passphrase") from exc
        raise _not_a_private_key(place, "content that is no private key") from exc
    if not isinstance(key, Ed25519PrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey")
        raise _not_a_private_key(place, f"a key of another kind ({kind})")
    return key


def _not_a_private_key(place: str, found: str) -> ConfigurationError:
    return ConfigurationError(
        f"expected an Ed25519 private key as PEM in {place}, found {found}", field=place
    )


def _require_fitting(passphrase: bytes | None, place: str, *, encrypted: bool) -> None:
    require_passphrase(passphrase)
    if encrypted and passphrase is None:
        what = f"expected a passphrase: the private key in {place} is encrypted"
        raise ConfigurationError(what, field="passphrase")
    if passphrase is not None and not encrypted:
        what = (
            f"expected an encrypted private key in {place}, as there is a passphrase, found one in the clear"
        )
        remedy = "load it without, and save it with the passphrase"
        raise ConfigurationError(f"{what}; {remedy}", field="passphrase")


def require_passphrase(passphrase: object) -> None:
    """Refuse what could not encrypt anything; None is no passphrase."""
    if passphrase is None or (isinstance(passphrase, bytes) and 1 <= len(passphrase) <= MAX_PASSPHRASE_BYTES):
        return
    raise ConfigurationError(f"expected 1 to {MAX_PASSPHRASE_BYTES} bytes as passphrase", field="passphrase")


def require_bytes(pem: object, place: str) -> None:
    """Refuse text, and everything else that is no bytes."""
    if not isinstance(pem, bytes):
        raise ConfigurationError(f"expected PEM as bytes in {place}, found {type(pem).__name__}", field=place)


def _label(pem: bytes) -> bytes | None:
    """Return the label of the PEM block; None when there is not exactly one block."""
    if len(pem) > MAX_PEM_BYTES:
        return None
    block = _PEM.fullmatch(pem)
    return block[1] if block else None


def _described(label: bytes | None) -> str:
    return "no single PEM block" if label is None else f"a block called {label.decode('ascii')}"
