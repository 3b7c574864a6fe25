"""Lists every key with its state, and carries out what a person decides about one.

A decision is about one document, exactly as it was read for this decision. No agent can trust a key: only
commands import this module, which `.importlinter` checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS_WRITE, Tree, translated
from rye_mcp.trust import _toml
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import AGENT_OWNER, Origin, Role, Scope, SignerKind
from rye_mcp.trust.trust_document import (
    DIGEST_DIGITS,
    DIRECTORY,
    MAX_DOCUMENT_BYTES,
    PublicKey,
    TrustDocument,
    is_key_id,
)
from rye_mcp.trust.trust_store import (
    Candidate,
    Listing,
    Standing,
    require_not_revoked,
    revoke,
    write_user_document,
)
from rye_mcp.trust.verify import Trust

__all__ = [
    "Change",
    "KeyState",
    "KeyToAdd",
    "KnownKey",
    "KnownKeys",
    "Undecided",
    "add_key",
    "check_key_id",
    "decide_on",
    "find_proposal",
    "find_undecided",
    "list_keys",
    "make_scope",
    "owner_of",
    "propose_key",
    "revoke_key",
    "scope_as_dict",
]


class KeyState(StrEnum):
    """The decision about a key, and who made it."""

    TRUSTED = "trusted"
    ACCEPTED = "accepted"
    ACCEPTED_BY_ENVIRONMENT = "accepted_by_environment"
    ACCEPTED_BY_ROTATION = "accepted_by_rotation"
    UNDECIDED = "undecided"
    DENIED = "denied"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key, what is said of it, and how it stands.

    `key` and `document` are None for a revoked key of which only the id is known; `document` also for
    the key of this user's agent, which needs none. `yours` is the pair that this user signs with.
    """

    key_id: str
    state: KeyState
    owner: str | None = None
    kind: SignerKind | None = None
    origin: Origin = Origin.USER
    scope: Scope = Scope()
    key: PublicKey | None = None
    document: TrustDocument | None = None
    reason: str | None = None
    yours: bool = False

    @property
    def name(self) -> str:
        """The name of this row in commands; no other document of the same key has it."""
        return self.key_id if self.document is None else f"{self.key_id}@{self.document.short_digest}"

    def as_dict(self) -> dict[str, Any]:
        """Return the row as data, for `--json`."""
        return {
            "key_id": self.key_id,
            "fingerprint": None if self.key is None else self.key.fingerprint,
            "state": self.state.value,
            "owner": self.owner,
            "kind": None if self.kind is None else self.kind.value,
            "origin": self.origin.value,
            "scope": scope_as_dict(self.scope),
            "document": None if self.document is None else self.document.digest,
            "reason": self.reason,
            "yours": self.yours,
        }


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The rows, those of the user first, and what is wrong with documents that give none."""

    rows: tuple[KnownKey, ...]
    problems: tuple[RyeError, ...]

    @property
    def proposals(self) -> tuple[KnownKey, ...]:
        """The rows of the project."""
        return tuple(row for row in self.rows if row.origin is Origin.PROJECT)

    @property
    def undecided(self) -> tuple[KnownKey, ...]:
        """The proposals on which nothing was decided."""
        return tuple(row for row in self.proposals if row.state is KeyState.UNDECIDED)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Everything that waits for a person. `project` is the one whose unsigned files are undecided, if any."""

    project: Path | None
    keys: tuple[KnownKey, ...]
    problems: tuple[RyeError, ...]

    def __bool__(self) -> bool:
        return self.project is not None or bool(self.keys)


def scope_as_dict(scope: Scope) -> dict[str, list[str] | None]:
    """Return the scope of a key as data; None stands for a list that is missing."""
    return {
        "ids": None if scope.ids is None else list(scope.ids),
        "roles": None if scope.roles is None else sorted(role.value for role in scope.roles),
    }


def list_keys(trust: Trust, ring: KeyRing) -> KnownKeys:
    """Every key that is trusted, proposed or revoked; a file of revocations that is malformed is an error."""
    revocations = trust.store.revocations()
    problems: list[RyeError] = []
    own = _own_keys(ring, problems)
    users = _documents(trust.store.documents, problems)
    trusted = {document.key.key_id for document in users}
    rows = [_row_of_user(document, own, revocations) for document in users]
    if (agent := own.get(SignerKind.AGENT)) is not None and agent.key_id not in trusted:
        trusted.add(agent.key_id)
        rows.append(_row_of_agent(agent, revocations))
    proposals = _documents(trust.store.proposals, problems)
    rows += [_row_of_project(document, trust, trusted, own, revocations) for document in proposals]
    known = {row.key_id for row in rows}
    rows += [
        KnownKey(key_id, KeyState.REVOKED, reason=reason)
        for key_id, reason in revocations.items()
        if key_id not in known
    ]
    return KnownKeys(tuple(rows), tuple(problems))


def find_undecided(trust: Trust, ring: KeyRing, *, project: Path | None) -> Undecided:
    """Find everything that waits for a person. `project` is the directory that holds `.ai`, or None."""
    keys = list_keys(trust, ring)
    waiting = project is not None and trust.approvals is not None and not trust.approvals.read().approved
    return Undecided(project if waiting else None, keys.undecided, keys.problems)


def _own_keys(ring: KeyRing, problems: list[RyeError]) -> dict[SignerKind, PublicKey]:
    own = {}
    for kind in (SignerKind.PERSON, SignerKind.AGENT):
        try:
            own[kind] = ring.show(kind)
        except RyeError as exc:
            if exc.code != "no_key":
                problems.append(exc)
    return own


def _documents(listed: Callable[[], Listing], problems: list[RyeError]) -> tuple[TrustDocument, ...]:
    try:
        listing = listed()
    except RyeError as exc:
        problems.append(exc)
        return ()
    problems.extend(listing.problems)
    return listing.documents


def _row_of_user(
    document: TrustDocument, own: Mapping[SignerKind, PublicKey], revocations: Mapping[str, str]
) -> KnownKey:
    return _row(document, KeyState.TRUSTED, Origin.USER, own, revocations, said=document)


def _row_of_agent(agent: PublicKey, revocations: Mapping[str, str]) -> KnownKey:
    reason = revocations.get(agent.key_id)
    state = KeyState.TRUSTED if reason is None else KeyState.REVOKED
    return KnownKey(agent.key_id, state, AGENT_OWNER, SignerKind.AGENT, key=agent, reason=reason, yours=True)


def _row_of_project(
    document: TrustDocument,
    trust: Trust,
    trusted: set[str],
    own: Mapping[SignerKind, PublicKey],
    revocations: Mapping[str, str],
) -> KnownKey:
    candidate = trust.store.candidate_of(document)
    if document.key.key_id in trusted:
        state = KeyState.TRUSTED
    elif candidate.standing is Standing.TRUSTED:
        state = _accepted(document, trust)
    else:
        state = KeyState.DENIED if candidate.standing is Standing.DENIED else KeyState.UNDECIDED
    said = candidate if state is KeyState.ACCEPTED_BY_ROTATION else document
    return _row(document, state, Origin.PROJECT, own, revocations, said=said)


def _accepted(document: TrustDocument, trust: Trust) -> KeyState:
    """By a person when there is a decision of one, else by `RYE_TRUSTED_KEYS`, else by the key before."""
    decided = {} if trust.approvals is None else trust.approvals.read().proposals
    if decided.get(document.digest) is Decision.ACCEPTED:
        return KeyState.ACCEPTED
    is_named = document.key.key_id in trust.store.accepted_keys
    return KeyState.ACCEPTED_BY_ENVIRONMENT if is_named else KeyState.ACCEPTED_BY_ROTATION


def _row(
    document: TrustDocument,
    state: KeyState,
    origin: Origin,
    own: Mapping[SignerKind, PublicKey],
    revocations: Mapping[str, str],
    *,
    said: TrustDocument | Candidate,
) -> KnownKey:
    """The row of a document; `said` names the owner and the scope that count."""
    key_id = document.key.key_id
    reason = revocations.get(key_id)
    return KnownKey(
        key_id,
        state if reason is None else KeyState.REVOKED,
        said.owner,
        document.kind,
        origin,
        said.scope,
        document.key,
        document,
        reason,
        yours=any(key.key_id == key_id for key in own.values()),
    )


_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_DIGITS},64}}", re.ASCII)
_MAX_BRACKETS = 64
_PEM_BEGINS = b"-----BEGIN"
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


class Change(StrEnum):
    """The result for a document."""

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
            Tree(project_space).opened(DIRECTORY, create_mode=_DIRECTORY_MODE) as directory,
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
    """Return the change that writing this document makes; RyeError `document_exists` for a forbidden one."""
    relative = f"{DIRECTORY}/{document.file_name}"
    found = Tree(space, forbidden=forbidden).read(relative, limit=MAX_DOCUMENT_BYTES)
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
