"""What tests of trust share: a user with keys, a project, and files signed in it.

A `World` is real: directories, key pairs, documents. Its time is fixed where a test needs it to be, and its
environment is empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lilux.primitives.signing import generate_keypair, sign_hash
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName, relative_path
from rye_mcp.trust import signature
from rye_mcp.trust.keys import KeyRing, SigningKey
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.trust_document import PublicKey, TrustDocument
from rye_mcp.trust.trust_store import write_user_document
from rye_mcp.trust.verify import RoleOf, Trust, VerifiedItem, verify_item

__all__ = ["CONTENT", "NOW", "World", "new_key", "old", "refused", "stopped"]

NOW = datetime(2026, 11, 18, 10, 0, 0, tzinfo=UTC)
_MARGIN_NS = 20_000_000
CONTENT = b'"""Says hello."""\n\nprint("hello")\n'


@dataclass
class World:
    """One user, with a project and a state directory, below one directory."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def lift(self, items: str) -> None:
        """Let tools run unconfined for this user, so that their own guards have to hold."""
        settings = self.user_space / "config/rye.yaml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f"isolation: {{lift: [{items}]}}\n")

    @property
    def user_space(self) -> Path:
        return self.root / "home/.ai"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def state(self) -> Path:
        return self.root / "state/rye"

    @property
    def keys(self) -> KeyRing:
        return KeyRing(self.user_space, environment=self.environment)

    def space(self, name: SpaceName = SpaceName.PROJECT) -> Space:
        return Space(name, self.user_space if name is SpaceName.USER else self.project / ".ai")

    def trust(self) -> Trust:
        """The trust of this user as a new process would have it."""
        return Trust(
            user_space=self.user_space,
            project=self.project,
            state=self.state,
            environment=self.environment,
        )

    def key(self, kind: SignerKind = SignerKind.PERSON) -> SigningKey:
        self.keys.ensure(kind, owner="leo")
        return self.keys.load(kind)

    def file(
        self,
        content: bytes = CONTENT,
        *,
        item_id: str = "demo/hello",
        extension: str = ".py",
        item_type: ItemType = ItemType.TOOL,
        space: SpaceName = SpaceName.PROJECT,
    ) -> ItemFile:
        """An item as it was read, which need not be on the disk."""
        where = self.space(space)
        path = where.root / relative_path(item_type, item_id, extension)
        return ItemFile(where, item_type, item_id, extension, path, content)

    def signed(self, file: ItemFile | None = None, key: SigningKey | None = None) -> ItemFile:
        """An item with a signature, of this user's unless told otherwise; not written."""
        file = self.file() if file is None else file
        return replace(file, content=sign_content(file, key or self.key(), now=NOW))

    def signed_by_another_program(self, file: ItemFile, key: SigningKey | None = None) -> ItemFile:
        """The same for content that this program signs for nobody: who has a key need not use it."""
        key = key or self.key()
        timestamp, digest = signature.format_timestamp(NOW), signature.content_digest(file.content)
        statement = signature.statement_digest(
            file, timestamp=timestamp, key_id=key.public.key_id, digest=digest, length=len(file.content)
        )
        line = signature.SignatureLine(
            timestamp, digest, sign_hash(statement, key.private_pem), key.public.fingerprint
        )
        return replace(file, content=signature.attach(file, file.content, line))

    def stored(self, file: ItemFile) -> ItemFile:
        """The same item, written to the disk as well."""
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_bytes(file.content)
        return file

    def propose(self, document: TrustDocument, data: bytes | None = None) -> Path:
        """Put a document into the project, as a clone of it would have it."""
        path = self.project / ".ai/trusted_keys" / document.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document.data if data is None else data)
        return path

    def trust_key(self, document: TrustDocument) -> None:
        """Trust somebody's key, as a person does."""
        write_user_document(self.user_space, document, replace=True)

    def verify(self, file: ItemFile, role: RoleOf = Role.TOOL, trust: Trust | None = None) -> VerifiedItem:
        return verify_item(file, trust or self.trust(), role=role)


def new_key(kind: SignerKind = SignerKind.PERSON) -> SigningKey:
    """The key pair of somebody else."""
    private_pem, public_pem = generate_keypair()
    return SigningKey(kind, PublicKey.from_pem(public_pem, "a test"), private_pem)


def refused(code: str | None, do: Callable[[], object]) -> RyeError:
    """The error that this ends with, when it has this code (None: any) and says enough to go on."""
    with pytest.raises(RyeError) as caught:
        do()
    error = caught.value
    assert code in (None, error.code), error.message
    assert "expected" in error.message
    assert error.hint
    return error


def old(*paths: Path) -> None:
    """Wait until what was written is old enough to be kept."""
    import time

    from lilux._stamps import SETTLED_NS

    latest = max(os.lstat(path).st_ctime_ns for path in paths)
    while time.time_ns() < latest + SETTLED_NS + _MARGIN_NS:
        time.sleep(0.01)


def stopped(
    world: World, code: str | None, file: ItemFile, role: RoleOf = Role.TOOL, *, trust: Trust | None = None
) -> RyeError:
    """The refusal of a file that, once through the gate, would change the canary."""
    canary = world.root / "canary"
    canary.write_bytes(b"alive")

    def run() -> None:
        canary.write_bytes(world.verify(file, role, trust).file.content)

    error = refused(code, run)
    assert canary.read_bytes() == b"alive"
    return error
