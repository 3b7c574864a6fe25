"""What a person decides about keys: to accept, deny, add, propose and revoke them.

Rules:

- A proposal is named by its whole key id; a fingerprint is where to look, never whom to trust. What is
  decided on is one document, exactly as it was read for this decision: who shows it and then asks hands the
  same document over, so that nothing can take its place in between. Who decides in another process names the
  digest besides, `KEY_ID@DIGEST`, and any other document is `document_changed`.
- A revoked key is accepted, added and proposed by nobody, this user included.
- A document that is there already, and says something else, is replaced only when that was asked for.
- To propose is to write this user's public key into a project, not through a link. It trusts nobody: whoever
  clones the project decides for themselves.
- A private key is never read here, and one that is handed over in place of a public one is refused unread.

Only commands call this module, which `.importlinter` checks: no agent can trust a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.trust import _toml
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.files import OTHERS_WRITE, opened_directory, read_below, translated
from rye_mcp.trust.public_key import PublicKey, is_key_id
from rye_mcp.trust.revocation import require_not_revoked, revoke
from rye_mcp.trust.scope import Role, Scope
from rye_mcp.trust.trust_document import DIGEST_DIGITS, DIRECTORY, MAX_DOCUMENT_BYTES, TrustDocument
from rye_mcp.trust.trust_store import write_user_document
from rye_mcp.trust.verify import Trust

__all__ = [
    "Change",
    "KeyToAdd",
    "add_key",
    "check_key_id",
    "decide_on",
    "find_proposal",
    "make_scope",
    "owner_of",
    "propose_key",
    "revoke_key",
]

_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_DIGITS},64}}", re.ASCII)
_MAX_BRACKETS = 64
_PEM_BEGINS = b"-----BEGIN"
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


class Change(StrEnum):
    """What became of a document."""

    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class KeyToAdd:
    """A public key as it was handed over: its document or its PEM, and what the person says of it.

    What the person says wins over the document. `source` is where it came from, for messages.
    """

    data: bytes
    source: Path
    owner: str | None = None
    scope: Scope | None = None

    def as_document(self) -> TrustDocument:
        """The document to trust; RyeError `malformed_trust` or `unusable_key` for what is no public key."""
        if len(self.data) > MAX_DOCUMENT_BYTES:
            what = f"expected at most {MAX_DOCUMENT_BYTES} bytes in {self.source}, found more"
            raise RyeError("too_large", what, where=self.source)
        if self.data.lstrip().startswith(_PEM_BEGINS):
            return self._from_pem()
        document = _parse_anywhere(self.data, self.source)
        if self.owner is None and self.scope is None:
            return document
        scope = document.scope if self.scope is None else self.scope
        return TrustDocument.create(
            document.key,
            self.owner or document.owner,
            scope=scope,
            kind=document.kind,
            rotation=document.rotation,
        )

    def _from_pem(self) -> TrustDocument:
        key = PublicKey.from_pem(self.data, self.source)
        if self.owner is None:
            what = f"expected the owner of the key in {self.source}, since a PEM names none"
            raise RyeError("malformed_trust", what, where=self.source, hint="add --owner NAME")
        return TrustDocument.create(key, self.owner, scope=self.scope or Scope())


def check_key_id(text: str) -> str:
    """The key id, when it is a whole one."""
    if is_key_id(text):
        return text
    what = f"expected a whole key id of 64 hexadecimal digits, found {ascii(text)[:80]}"
    raise RyeError("unknown_key", what)


def make_scope(ids: Iterable[str], roles: Iterable[str]) -> Scope | None:
    """The scope that a person names; None when they name none. Patterns are checked by the document."""
    patterns, named = tuple(ids), tuple(roles)
    for role in named:
        if role not in set(Role):
            what = f"expected roles out of {', '.join(Role)}, found {ascii(role)[:80]}"
            raise RyeError("malformed_trust", what, hint="--role tool")
    if not patterns and not named:
        return None
    return Scope(patterns or None, frozenset(map(Role, named)) or None)


def find_proposal(trust: Trust, name: str) -> TrustDocument:
    """The document by which the project proposes a key, as it stands now; `name` is KEY_ID, or KEY_ID@DIGEST
    for this document and no other.
    """
    key_id, is_pinned, digest = name.partition("@")
    check_key_id(key_id)
    if is_pinned and not _DIGEST.fullmatch(digest):
        what = f"expected {DIGEST_DIGITS} digits or more of a digest behind @, found {ascii(digest)[:80]}"
        raise RyeError("unknown_key", what, key_id=key_id, hint="rye trust review")
    listing = trust.store.proposals()
    for document in listing.documents:
        if document.key.key_id == key_id:
            return _require_digest(document, digest)
    found = f"{len(listing.documents)} others"
    if listing.problems:
        found += f", and {len(listing.problems)} that cannot be read: {listing.problems[0].message}"
    what = f"expected a document of the project that proposes the key {key_id}, found {found}"
    raise RyeError("unknown_key", what, key_id=key_id, hint="rye trust review")


def decide_on(trust: Trust, proposals: Iterable[TrustDocument], decision: Decision) -> None:
    """Accept or deny proposals, exactly as they stand in these documents; all of them or none."""
    decided = tuple(proposals)
    if decision is Decision.ACCEPTED:
        for proposal in decided:
            _require_not_revoked(trust, proposal)
    if decided:
        trust.store.decide_all(decided, decision)


def add_key(trust: Trust, user_space: Path, document: TrustDocument, *, replace: bool = False) -> Change:
    """Trust a key in every project of this user."""
    _require_not_revoked(trust, document)
    change = _change(user_space, document, forbidden=OTHERS_WRITE, replace=replace)
    if change is not Change.UNCHANGED:
        write_user_document(user_space, document, replace=True)
    return change


def propose_key(
    trust: Trust, project_space: Path, document: TrustDocument, *, replace: bool = False
) -> Change:
    """Write a document into a project, for those who clone it to decide on."""
    _require_not_revoked(trust, document)
    if not project_space.is_dir():
        what = f"expected the space of a project at {project_space}, found none"
        raise RyeError("no_project", what, where=project_space)
    change = _change(project_space, document, forbidden=0, replace=replace)
    if change is not Change.UNCHANGED:
        path = project_space / DIRECTORY / document.file_name
        with (
            translated("write_failed", path),
            opened_directory(project_space, DIRECTORY, create_mode=_DIRECTORY_MODE) as directory,
        ):
            whole_files.write_whole(path, document.data, mode=_FILE_MODE, directory=directory)
    return change


def revoke_key(user_space: Path, key_id: str, reason: str) -> None:
    """Revoke a key: here and in every project of this user."""
    revoke(user_space, check_key_id(key_id), reason)


def owner_of(trust: Trust, key: PublicKey) -> str | None:
    """The owner that this user's own documents name for a key; None when none does."""
    for document in trust.store.documents().documents:
        if document.key.key_id == key.key_id:
            return document.owner
    return None


def _require_digest(document: TrustDocument, digest: str) -> TrustDocument:
    if document.digest.startswith(digest):
        return document
    what = (
        f"expected the document {digest} for the key {document.key.key_id}, as it was looked at, "
        f"found {document.short_digest}"
    )
    raise RyeError("document_changed", what, key_id=document.key.key_id)


def _require_not_revoked(trust: Trust, document: TrustDocument) -> None:
    revocations = trust.store.revocations()
    require_not_revoked(revocations, document.key.key_id, Path(document.file_name))


def _change(space: Path, document: TrustDocument, *, forbidden: int, replace: bool) -> Change:
    """What writing this document would change; RyeError `document_exists` for what it may not."""
    relative = f"{DIRECTORY}/{document.file_name}"
    found = read_below(space, relative, limit=MAX_DOCUMENT_BYTES, forbidden=forbidden)
    if found is None:
        return Change.WRITTEN
    if found == document.data:
        return Change.UNCHANGED
    if replace:
        return Change.REPLACED
    path = space / relative
    what = f"expected no other document for the key {document.key.key_id}, found {path}"
    raise RyeError("document_exists", what, where=path, key_id=document.key.key_id)


def _parse_anywhere(data: bytes, source: Path) -> TrustDocument:
    """A document whatever its file is called: only in a space does the name have to be that of the key."""
    table = _toml.parse(data, source, max_brackets=_MAX_BRACKETS)
    public_key = table.get("public_key")
    pem = public_key.get("pem") if isinstance(public_key, dict) else None
    if not isinstance(pem, str) or not pem.isascii():
        raise _toml.malformed(source, "a public key as PEM, or its document", "neither")
    key = PublicKey.from_pem(pem.encode("ascii"), source)
    return TrustDocument.parse(data, source.with_name(f"{key.fingerprint}.toml"))
