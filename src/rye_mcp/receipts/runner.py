"""The key with which this machine signs receipts for this user, and the public keys that were used before.

The pair is in `keys/runner` of the state directory, made when the first run ends. It has no passphrase, since
runs end when nobody is there to type one. It signs receipts, and what this machine says as a node
(`rye_mcp.nodes`); the gate takes no item from it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lilux import _files as whole_files
from lilux import _keys
from lilux._dataclasses import dataclass
from lilux.primitives import signing
from lilux.primitives.errors import ConfigurationError, IntegrityError
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree, translated
from rye_mcp.receipts.envelope import Envelope
from rye_mcp.receipts.statement import RunFacts, statement
from rye_mcp.runs.chain import ChainedReceipt, Link
from rye_mcp.runs.records import RunRecord
from rye_mcp.trust.trust_document import PublicKey

__all__ = ["RunnerKey", "RunnerKeys", "RunnerNotary"]

_KEYS: Final = "keys"
_PAIR: Final = "runner"
_KNOWN: Final = "runners"
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_MAX_PEM_BYTES: Final = 16 * 1024
_MAX_KNOWN: Final = 1000
_CONTEXT: Final = b"rye-mcp receipt: parameters, version 1\0"
_NOTHING: Final = RunFacts()


@dataclass(frozen=True, slots=True)
class RunnerKey:
    """The pair, ready to sign, and a secret of its own for digests that nobody can guess values from."""

    public: PublicKey
    private: Ed25519PrivateKey
    secret: bytes


class RunnerKeys:
    """The keys of one state directory."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._tree = Tree(state, forbidden=OTHERS)

    def ready(self, revoked: Mapping[str, str]) -> RunnerKey:
        """The existing pair, or a new one if it is missing or revoked."""
        key = self._pair()
        if key.public.key_id in revoked:
            self._retire(key.public)
            key = self._pair()
        self._note(key.public)
        return key

    def known(self) -> Mapping[str, PublicKey]:
        """Every key that ever signed receipts here, by its id. A key under another name is left out."""
        try:
            with self._tree.opened(f"{_KEYS}/{_KNOWN}") as directory:
                names = sorted(os.listdir(directory))[:_MAX_KNOWN]  # noqa: PTH208 - a descriptor
        except FileNotFoundError:
            return {}
        found = {}
        for name in names:
            pem = self._tree.read(f"{_KEYS}/{_KNOWN}/{name}", limit=_MAX_PEM_BYTES)
            key = PublicKey.from_pem(pem or b"", self._directory(_KNOWN) / name)
            if name == f"{key.key_id}.pem":
                found[key.key_id] = key
        return found

    def _pair(self) -> RunnerKey:
        directory = self._directory(_PAIR)
        try:
            with translated("write_failed", directory):
                for path in (self._state, self._state / _KEYS):
                    whole_files.make_directory(path, mode=_DIRECTORY_MODE)
                private_pem, public_pem = signing.ensure_keypair(directory)
            private = _keys.load_private(private_pem, str(directory))
        except FileNotFoundError as exc:
            raise _unusable(directory, str(exc)) from exc
        except (ConfigurationError, IntegrityError) as exc:
            raise _unusable(directory, exc.message) from exc
        secret = hashlib.sha256(_CONTEXT + private.private_bytes_raw()).digest()
        return RunnerKey(PublicKey.from_pem(public_pem, directory), private, secret)

    def _retire(self, key: PublicKey) -> None:
        """Move a pair out of the way, unless another process has done so already."""
        directory = self._directory(_PAIR)
        with (
            translated("write_failed", directory),
            self._tree.opened(_KEYS) as above,
            whole_files.lock(above),
        ):
            if self._pair().public.key_id == key.key_id:
                directory.rename(directory.with_name(f"{_PAIR}-{key.fingerprint}"))

    def _note(self, key: PublicKey) -> None:
        """Keep the public key for as long as there are receipts."""
        path = self._directory(_KNOWN) / f"{key.key_id}.pem"
        if self._tree.read(f"{_KEYS}/{_KNOWN}/{path.name}", limit=_MAX_PEM_BYTES) == key.pem:
            return
        with (
            translated("write_failed", path),
            self._tree.opened(f"{_KEYS}/{_KNOWN}", create_mode=_DIRECTORY_MODE) as directory,
        ):
            whole_files.write_whole(path, key.pem, mode=_FILE_MODE, directory=directory)

    def _directory(self, name: str) -> Path:
        return self._state / _KEYS / name


class RunnerNotary:
    """Writes receipts with the key of this state directory; `revoked` gives the keys that no longer count."""

    def __init__(self, state: Path, *, revoked: Callable[[], Mapping[str, str]] = dict) -> None:
        self._keys = RunnerKeys(state)
        self._revoked = revoked
        self._key: RunnerKey | None = None

    def open(self) -> None:
        """Load the key, or make one. What is revoked later counts from the next start on."""
        if self._key is None:
            self._key = self._keys.ready(self._revoked())

    def attest(self, record: RunRecord, row: Mapping[str, Any], link: Link, facts: Any) -> ChainedReceipt:
        """The receipt of a run that is over."""
        key = self._opened()
        told: RunFacts = facts or _NOTHING
        payload = statement(
            record,
            row,
            link,
            told,
            parameters=self._parameters(record.run_id, told, key.secret),
            node=self._node,
            server=self._server,
        )
        envelope = Envelope.sign(payload, key.public.key_id, key.private)
        return ChainedReceipt(
            link.number, record.run_id, envelope.digest, payload, envelope.key_id, envelope.signature
        )

    def sign(self, payload: bytes) -> Envelope:
        """The envelope of something else that this key vouches for: the state of the chain."""
        key = self._opened()
        return Envelope.sign(payload, key.public.key_id, key.private)

    @property
    def public(self) -> PublicKey:
        """The public key of the pair, which is made if it is missing."""
        return self._opened().public

    def _opened(self) -> RunnerKey:
        self.open()
        if self._key is None:
            raise ValueError("expected a key after it was opened, found none")
        return self._key

    @cached_property
    def _node(self) -> str:
        return os.uname().nodename

    @cached_property
    def _server(self) -> str:
        return f"rye-mcp {version('rye-mcp')}"

    @staticmethod
    def _parameters(run_id: str, facts: RunFacts, secret: bytes) -> str | None:
        """The keyed digest: the same values have another one in every run."""
        if facts.parameters is None:
            return None
        return hmac.digest(secret, run_id.encode("ascii") + b"\0" + facts.parameters, "sha256").hex()


def _unusable(directory: Path, found: str) -> RyeError:
    what = f"expected the key pair of the runner in {directory}, found: {found}"
    hint = f"move {directory} away: the next run makes a new pair, and old receipts stay valid"
    return RyeError("unusable_key", what, where=directory, hint=hint)
