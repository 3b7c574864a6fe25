"""Ed25519 signatures of content hashes, and the files that hold a key pair. It has no policy: callers decide.

A hash is 64 lowercase hexadecimal digits, a signature 86 characters of url-safe base64 and `==`, keys are
PEM. `verify_signature` returns False for every invalid signature, and raises for an invalid key.

    >>> private_pem, public_pem = generate_keypair()
    >>> digest = hashlib.sha256(b"content").hexdigest()
    >>> verify_signature(digest, sign_hash(digest, private_pem), public_pem)
    True
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lilux import _files, _keys, _trees
from lilux.primitives.errors import ConfigurationError, IntegrityError

__all__ = [
    "compute_key_fingerprint",
    "ensure_keypair",
    "generate_keypair",
    "load_keypair",
    "public_key_bytes",
    "save_keypair",
    "sign_hash",
    "verify_signature",
]

_PRIVATE_KEY_FILE = "private_key.pem"
_PUBLIC_KEY_FILE = "public_key.pem"
_DIRECTORY_MODE = 0o700
_PRIVATE_KEY_MODE = 0o600
_PUBLIC_KEY_MODE = 0o644

_FINGERPRINT_DIGITS = 16
_HASH = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[A-Za-z0-9_-]{86}==")


def generate_keypair() -> tuple[bytes, bytes]:
    """A new key pair, as `(private_pem, public_pem)`."""
    key = Ed25519PrivateKey.generate()
    return _keys.private_pem(key), _keys.public_pem(key.public_key())


def sign_hash(content_hash: str, private_key_pem: bytes) -> str:
    """The signature of a SHA256, given as 64 lowercase hexadecimal digits."""
    if not _is_hash(content_hash):
        raise ConfigurationError(
            f"expected 64 lowercase hexadecimal digits as content_hash, found {content_hash!r:.80}",
            field="content_hash",
        )
    key = _keys.load_private(private_key_pem, "private_key_pem")
    return base64.urlsafe_b64encode(key.sign(content_hash.encode("ascii"))).decode("ascii")


def verify_signature(content_hash: str, sig_b64: str, public_key_pem: bytes) -> bool:
    """Whether `sig_b64` is the signature of this hash by the owner of this key."""
    key = _keys.load_public(public_key_pem, "public_key_pem")
    signature = _decode_signature(sig_b64)
    if signature is None or not _is_hash(content_hash):
        return False
    try:
        key.verify(signature, content_hash.encode("ascii"))
    except InvalidSignature:
        return False
    return True


def compute_key_fingerprint(public_key_pem: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA256 of the PEM: for looking a key up, never its identity."""
    _keys.require_bytes(public_key_pem, "public_key_pem")
    return hashlib.sha256(public_key_pem).hexdigest()[:_FINGERPRINT_DIGITS]


def public_key_bytes(public_key_pem: bytes) -> bytes:
    """The 32 bytes of a public key, checked: the same for every PEM of that key."""
    return _keys.load_public(public_key_pem, "public_key_pem").public_bytes_raw()


def save_keypair(
    private_pem: bytes, public_pem: bytes, key_dir: Path, *, passphrase: bytes | None = None
) -> None:
    """Write a key pair to `key_dir`, in place of one that is there; with `passphrase`, encrypted."""
    key = _keys.load_private(private_pem, "private_pem")
    _require_pair(key, _keys.load_public(public_pem, "public_pem"), "private_pem and public_pem")
    stored = private_pem if passphrase is None else _keys.private_pem(key, passphrase)
    path = Path(key_dir)
    _files.make_directory(path, mode=_DIRECTORY_MODE)
    with _trees.Tree(path).opened() as directory, _files.lock(directory):
        _trees.require_private(directory, path, forbidden=0)
        os.fchmod(directory, _DIRECTORY_MODE)
        _write_pair(directory, path, stored, public_pem, replace=True)


def load_keypair(key_dir: Path, *, passphrase: bytes | None = None) -> tuple[bytes, bytes]:
    """The key pair in `key_dir`, as `(private_pem, public_pem)`; FileNotFoundError for what is missing."""
    path = Path(key_dir)
    with (
        _trees.Tree(path, forbidden=0o777 & ~_DIRECTORY_MODE).opened() as directory,
        _files.lock(directory, shared=True),
    ):
        return _read_pair(directory, path, passphrase)


def ensure_keypair(key_dir: Path, *, passphrase: bytes | None = None) -> tuple[bytes, bytes]:
    """The key pair in `key_dir`, made there if need be, as `(private_pem, public_pem)`."""
    _keys.require_passphrase(passphrase)
    path = Path(key_dir)
    _files.make_directory(path, mode=_DIRECTORY_MODE)
    with _trees.Tree(path).opened() as directory, _files.lock(directory):
        _trees.require_private(directory, path, forbidden=0)
        found = _present(directory)
        if not found:
            os.fchmod(directory, _DIRECTORY_MODE)
            _create_pair(directory, path, passphrase)
            found = _present(directory)
        _trees.require_private(directory, path, forbidden=0o777 & ~_DIRECTORY_MODE)
        if found == {_PRIVATE_KEY_FILE}:
            _restore_public_key(directory, path, passphrase)
        return _read_pair(directory, path, passphrase)


def _is_hash(content_hash: object) -> bool:
    return isinstance(content_hash, str) and _HASH.fullmatch(content_hash) is not None


def _decode_signature(sig_b64: object) -> bytes | None:
    """The 64 bytes, or None when the text is not exactly what they encode to."""
    if not isinstance(sig_b64, str) or _SIGNATURE.fullmatch(sig_b64) is None:
        return None
    signature = base64.urlsafe_b64decode(sig_b64)
    return signature if base64.urlsafe_b64encode(signature) == sig_b64.encode("ascii") else None


# --- key files --------------------------------------------------------------------


def _create_pair(directory: int, path: Path, passphrase: bytes | None) -> None:
    """Make a pair if it is missing; where locks do not work another process may be faster, and then wins."""
    key = Ed25519PrivateKey.generate()
    with suppress(FileExistsError):
        _write_pair(
            directory,
            path,
            _keys.private_pem(key, passphrase),
            _keys.public_pem(key.public_key()),
            replace=False,
        )


def _write_pair(directory: int, path: Path, private_pem: bytes, public_pem: bytes, *, replace: bool) -> None:
    """Write both files or none; a reader in between finds one key alone, never two that differ."""
    private, public = path / _PRIVATE_KEY_FILE, path / _PUBLIC_KEY_FILE
    with (
        _files.staged(private, private_pem, mode=_PRIVATE_KEY_MODE, directory=directory) as staged_private,
        _files.staged(public, public_pem, mode=_PUBLIC_KEY_MODE, directory=directory) as staged_public,
    ):
        if replace:
            with suppress(FileNotFoundError):
                os.unlink(_PUBLIC_KEY_FILE, dir_fd=directory)
        _files.publish(staged_private, private, directory=directory, replace=replace)
        _files.publish(staged_public, public, directory=directory)
    _files.sync_directory(directory)


def _restore_public_key(directory: int, path: Path, passphrase: bytes | None) -> None:
    key = _read_private_key(directory, path, passphrase)[1]
    public_pem = _keys.public_pem(key.public_key())
    _files.write_whole(path / _PUBLIC_KEY_FILE, public_pem, mode=_PUBLIC_KEY_MODE, directory=directory)


def _read_pair(directory: int, path: Path, passphrase: bytes | None) -> tuple[bytes, bytes]:
    _require_both(_present(directory), path)
    private_pem, key = _read_private_key(directory, path, passphrase)
    public = path / _PUBLIC_KEY_FILE
    public_pem = _read_key(directory, public, _PUBLIC_KEY_MODE)
    _require_pair(key, _keys.load_public(public_pem, str(public)), str(path))
    return private_pem if passphrase is None else _keys.private_pem(key), public_pem


def _read_private_key(
    directory: int, path: Path, passphrase: bytes | None
) -> tuple[bytes, Ed25519PrivateKey]:
    private = path / _PRIVATE_KEY_FILE
    pem = _read_key(directory, private, _PRIVATE_KEY_MODE)
    return pem, _keys.load_private(pem, str(private), passphrase)


def _read_key(directory: int, path: Path, mode: int) -> bytes:
    return _trees.read_in(directory, path, limit=_keys.MAX_PEM_BYTES, forbidden=0o777 & ~mode)


def _present(directory: int) -> set[str]:
    """Return which of the two names are taken, by a file of any kind."""
    return {_PRIVATE_KEY_FILE, _PUBLIC_KEY_FILE} & set(os.listdir(directory))


def _require_both(found: set[str], path: Path) -> None:
    if not found:
        missing, what = _PRIVATE_KEY_FILE, "expected a key pair, found none"
    elif _PUBLIC_KEY_FILE not in found:
        missing, what = _PUBLIC_KEY_FILE, "expected the public key too; ensure_keypair derives it again"
    elif _PRIVATE_KEY_FILE not in found:
        missing = _PRIVATE_KEY_FILE
        what = f"expected the private key too; bring it back, or remove {_PUBLIC_KEY_FILE} to make a new pair"
    else:
        return
    raise FileNotFoundError(errno.ENOENT, what, str(path / missing))


def _require_pair(private_key: Ed25519PrivateKey, public_key: Ed25519PublicKey, place: str) -> None:
    if private_key.public_key().public_bytes_raw() != public_key.public_bytes_raw():
        raise IntegrityError(
            f"expected a private key and its public key in {place}, found keys of two pairs",
            reason="key_mismatch",
        )
