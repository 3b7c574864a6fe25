"""The key pairs that this user signs with: a person's, and that of the agents that act for this user.

They are in `keys/person` and `keys/agent` of the user space. Looser permissions, another owner or a link are
refused, with the command that fixes it. A private key is in no message and no representation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from lilux.primitives import signing
from lilux.primitives.errors import ConfigurationError, IntegrityError
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, OTHERS_WRITE, Tree, make_user_space, translated
from rye_mcp.trust import _toml
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import (
    DIRECTORY,
    MAX_DOCUMENT_BYTES,
    PublicKey,
    RotationStatement,
    TrustDocument,
)
from rye_mcp.trust.trust_store import write_user_document

__all__ = ["PASSPHRASE_VARIABLE", "KeyRing", "Rotation", "SigningKey"]

PASSPHRASE_VARIABLE: Final = "RYE_KEY_PASSPHRASE"  # noqa: S105 - where it is, not what it is
"""The environment variable that holds the passphrase of an encrypted private key."""

_DIRECTORY = "keys"
_DIRECTORY_MODE = 0o700
_PUBLIC_FILE = "public_key.pem"
_PRIVATE_FILE = "private_key.pem"
_MAX_PEM_BYTES = 16 * 1024
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_CODES = {"unsafe_permissions": "unsafe_permissions", "unsafe_path": "unsafe_path", "weak_key": "weak_key"}
_KINDS = frozenset({SignerKind.PERSON, SignerKind.AGENT})


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key pair that is ready to sign."""

    kind: SignerKind
    public: PublicKey
    private_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The public key that was replaced, and the one in its place; `statement` is signed with the old one."""

    old: PublicKey
    new: PublicKey
    statement: RotationStatement | None = None


class KeyRing:
    """The key pairs in a user space."""

    def __init__(self, user_space: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._user_space = Path(os.path.realpath(user_space))
        self._public = Tree(self._user_space, forbidden=OTHERS_WRITE)
        self._private = Tree(self._user_space, forbidden=OTHERS, root_forbidden=OTHERS_WRITE)
        self._environment = environment

    def generate(
        self, kind: SignerKind, *, owner: str | None = None, passphrase: bytes | None = None
    ) -> PublicKey:
        """Make a key pair unless there is one."""
        if self._find(kind) is not None:
            directory = self.directory(kind)
            raise RyeError(
                "unusable_key",
                f"expected no key pair in {directory}, found one",
                where=directory,
                hint="rye keys show, or rye keys rotate for a new one",
            )
        return self.ensure(kind, owner=owner, passphrase=passphrase)

    def ensure(
        self, kind: SignerKind, *, owner: str | None = None, passphrase: bytes | None = None
    ) -> PublicKey:
        """The key pair that is there, or a new one."""
        key = self._find(kind)
        if key is None:
            secret = self._new_passphrase(kind, passphrase)
            with self._translated(kind, "write_failed"):
                self._make_directory()
                pair = signing.ensure_keypair(self.directory(kind), passphrase=secret)
            key = PublicKey.from_pem(pair[1], self.directory(kind))
        if kind is SignerKind.PERSON:
            write_user_document(self._user_space, TrustDocument.create(key, owner or _user_name()))
        return key

    def show(self, kind: SignerKind) -> PublicKey:
        """The public key; no passphrase is needed."""
        key = self._find(kind)
        if key is None:
            raise self._missing(kind)
        return key

    def load(self, kind: SignerKind, *, passphrase: bytes | None = None) -> SigningKey:
        """The key pair, ready to sign."""
        public = self.show(kind)
        secret = self._passphrase(passphrase) if self.is_encrypted(kind) else None
        with self._translated(kind, "read_failed"):
            private_pem, _ = signing.load_keypair(self.directory(kind), passphrase=secret)
        return SigningKey(kind, public, private_pem)

    def rotate(
        self,
        kind: SignerKind,
        *,
        owner: str | None = None,
        passphrase: bytes | None = None,
        old_passphrase: bytes | None = None,
        linked: bool = True,
    ) -> Rotation:
        """Replace the key pair by a new one; what the old one signed stays valid until it is revoked.

        With `linked`, the old key of a person signs the new one, if it can be read.
        """
        old = self.show(kind)
        secret = self._new_passphrase(kind, passphrase)
        if secret is None and self.is_encrypted(kind):
            directory = self.directory(kind)
            what = f"expected a passphrase for the new key in {directory}, as the old one has one, found none"
            raise RyeError("passphrase_required", what, where=directory)
        private_pem, public_pem = signing.generate_keypair()
        new = PublicKey.from_pem(public_pem, self.directory(kind))
        is_readable = not self.is_encrypted(kind) or self._passphrase(old_passphrase) is not None
        statement = None
        if linked and is_readable and kind is SignerKind.PERSON:
            key = self.load(kind, passphrase=old_passphrase)
            statement = RotationStatement.sign(old, key.private_pem, new, datetime.now(UTC))
        kept = new if kind is SignerKind.PERSON else old
        document = TrustDocument.create(kept, owner or _user_name(), kind=kind, rotation=statement)
        write_user_document(self._user_space, document)
        with self._translated(kind, "write_failed"):
            signing.save_keypair(private_pem, public_pem, self.directory(kind), passphrase=secret)
        return Rotation(old, new, statement)

    def change_passphrase(self, kind: SignerKind, *, old: bytes | None, new: bytes | None) -> None:
        """Encrypt the private key with another passphrase, or with `new=None` keep it in the clear."""
        key = self.load(kind, passphrase=old)
        with self._translated(kind, "write_failed"):
            signing.save_keypair(key.private_pem, key.public.pem, self.directory(kind), passphrase=new)

    def export(self, kind: SignerKind, *, owner: str | None = None) -> bytes:
        """The document of the public key, for others to trust."""
        rotation = self.rotation_of(kind)
        return TrustDocument.create(self.show(kind), owner or _user_name(), kind=kind, rotation=rotation).data

    def rotation_of(self, kind: SignerKind) -> RotationStatement | None:
        """The statement with which the key before this one signed it; None without one."""
        name = f"{DIRECTORY}/{self.show(kind).fingerprint}.toml"
        data = self._public.read(name, limit=MAX_DOCUMENT_BYTES)
        return None if data is None else TrustDocument.parse(data, self._user_space / name).rotation

    def is_encrypted(self, kind: SignerKind) -> bool:
        """Whether the private key is; RyeError when others could read it."""
        pem = self._read(kind, _PRIVATE_FILE, self._private)
        return pem is not None and _ENCRYPTED in pem

    def directory(self, kind: SignerKind) -> Path:
        """Where the pair of this kind is kept."""
        if kind not in _KINDS:
            raise ValueError(f"expected the kind person or agent, found {kind!r}")
        return self._user_space / _DIRECTORY / kind.value

    def _find(self, kind: SignerKind) -> PublicKey | None:
        """The public key, when there is a pair."""
        directory = self.directory(kind)
        if not self._has_directory(kind):
            return None
        pem = self._read(kind, _PUBLIC_FILE, self._public)
        if pem is not None:
            return PublicKey.from_pem(pem, directory / _PUBLIC_FILE)
        if not os.path.lexists(directory / _PRIVATE_FILE):
            return None
        raise RyeError(
            "unusable_key",
            f"expected both keys of the pair in {directory}, found the private one alone",
            where=directory,
            hint=f"bring {_PUBLIC_FILE} back, or remove {directory / _PRIVATE_FILE} to start over",
        )

    def _has_directory(self, kind: SignerKind) -> bool:
        """Whether there is one; what is on the way to it has to be this user's alone."""
        try:
            with self._private.opened(f"{_DIRECTORY}/{kind.value}"):
                return True
        except FileNotFoundError:
            return False

    def _read(self, kind: SignerKind, name: str, tree: Tree) -> bytes | None:
        return tree.read(f"{_DIRECTORY}/{kind.value}/{name}", limit=_MAX_PEM_BYTES)

    def _make_directory(self) -> None:
        """Make `keys`, not through a link; `lilux` makes the rest."""
        make_user_space(self._user_space)
        with self._public.opened():
            whole_files.make_directory(self._user_space / _DIRECTORY, mode=_DIRECTORY_MODE)
        with self._private.opened(_DIRECTORY):
            return

    def _passphrase(self, given: bytes | None) -> bytes | None:
        """The argument, else what stands in the environment; None when there is neither."""
        return given or os.fsencode(self._environment.get(PASSPHRASE_VARIABLE, "")) or None

    def _new_passphrase(self, kind: SignerKind, given: bytes | None) -> bytes | None:
        """The one for a new pair: an agent has to sign where nobody set any."""
        return self._passphrase(given) if kind is SignerKind.PERSON else given

    def _missing(self, kind: SignerKind) -> RyeError:
        directory = self.directory(kind)
        return RyeError("no_key", f"expected a key pair in {directory}, found none", where=directory)

    @contextmanager
    def _translated(self, kind: SignerKind, code: str) -> Iterator[None]:
        """Errors of `lilux` about a key pair become those of the table."""
        directory = self.directory(kind)
        try:
            with translated(code, directory):
                yield
        except FileNotFoundError as exc:
            raise RyeError("unusable_key", f"{exc.strerror}: {exc.filename}", where=directory) from exc
        except IntegrityError as exc:
            reason = str(exc.attributes.get("reason"))
            hint = exc.attributes.get("remedy")
            raise RyeError(
                _CODES.get(reason, "unusable_key"), exc.message, where=directory, hint=hint
            ) from exc
        except ConfigurationError as exc:
            problem = "passphrase_required" if exc.field == "passphrase" else "unusable_key"
            raise RyeError(problem, exc.message, where=directory) from exc


def _user_name() -> str:
    """The name of this user, for documents that name no owner."""
    import getpass

    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
    return name if _toml.is_owner(name) else "unknown"
