"""Signing and verifying, beside `cryptography` and `hashlib` alone with a key that is loaded already."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lilux.primitives.signing import generate_keypair, load_keypair, save_keypair, sign_hash, verify_signature
from sections.case import Case

FILE_BYTES = 10 * 1024
STRANGERS = 600
"""More keys than are kept: each look-up of one finds it gone."""


@contextmanager
def cases(directory: Path) -> Iterator[Sequence[Case]]:
    """The cases, on a key pair and a file in `directory`."""
    pair = _Pair(directory)
    strangers = cycle([generate_keypair()[1] for _ in range(STRANGERS)])
    yield [
        Case("sign a hash", pair.sign, pair.sign_bare, is_right=lambda found: found == pair.signature),
        Case("verify a signature", pair.verify, pair.verify_bare, is_right=_is_true, max_ratio=1.3),
        Case(
            "hash and verify a file of 10 KB",
            pair.verify_file,
            pair.verify_file_bare,
            is_right=_is_true,
            max_ratio=1.3,
        ),
        Case(
            "verify under a key that was not seen before",
            lambda: not verify_signature(pair.digest, pair.signature, next(strangers)),
            pair.verify_bare,
            is_right=_is_true,
        ),
        Case(
            "load a key pair",
            lambda: load_keypair(directory / "keys"),
            is_right=lambda found: found == pair.pems,
        ),
    ]


def _is_true(answer: Any) -> bool:
    return answer is True


class _Pair:
    """A key pair, a file, and the signature of one by the other."""

    def __init__(self, directory: Path) -> None:
        self.pems = generate_keypair()
        save_keypair(*self.pems, directory / "keys")
        self.file = directory / "file"
        self.file.write_bytes(bytes(range(256)) * (FILE_BYTES // 256))
        self.digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        self.signature = sign_hash(self.digest, self.pems[0])
        private = serialization.load_pem_private_key(self.pems[0], None)
        public = serialization.load_pem_public_key(self.pems[1])
        assert isinstance(private, Ed25519PrivateKey)
        assert isinstance(public, Ed25519PublicKey)
        self.public = public

    def sign(self) -> str:
        return sign_hash(self.digest, self.pems[0])

    def sign_bare(self) -> str:
        key = serialization.load_pem_private_key(self.pems[0], None)
        assert isinstance(key, Ed25519PrivateKey)
        return base64.urlsafe_b64encode(key.sign(self.digest.encode())).decode()

    def verify(self) -> bool:
        return verify_signature(self.digest, self.signature, self.pems[1])

    def verify_bare(self) -> bool:
        self.public.verify(base64.urlsafe_b64decode(self.signature), self.digest.encode())
        return True

    def verify_file(self) -> bool:
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        return verify_signature(digest, self.signature, self.pems[1])

    def verify_file_bare(self) -> bool:
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        self.public.verify(base64.urlsafe_b64decode(self.signature), digest.encode())
        return True
