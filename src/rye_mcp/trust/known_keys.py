"""Every key that this user trusts, revoked, or is asked to trust, and what was decided about each.

Rules:

- One row for a key and the document that names it. What a project says of a key, its owner above all, is a
  claim until this user has accepted it.
- A revoked key is revoked in every row. What a project proposes and this user trusts already, everywhere, is
  no question any more.
- A key that an accepted key has signed as its successor is accepted by that rotation, with the owner and the
  scope of the accepted one.
- Undecided is what waits for a person: proposals on which nothing was decided, and the project itself when
  its unsigned files may not be used yet.
- A document that cannot be read as one, and a directory of them that cannot be, is a problem beside the rows;
  it hides no other row.
- Nothing is decided here; `rye_mcp.trust.decisions` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.public_key import PublicKey
from rye_mcp.trust.scope import Origin, Scope, SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import AGENT_OWNER, Listing, Standing
from rye_mcp.trust.verify import Trust

__all__ = ["KeyState", "KnownKey", "KnownKeys", "Undecided", "find_undecided", "list_keys", "scope_as_dict"]


class KeyState(StrEnum):
    """What was decided about a key, and by whom."""

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

    `key` and `document` are None for a revoked key of which nothing but the id is known; `document` also for
    the key of this user's agent, which needs none. `yours` is the pair that this user signs with.
    """

    key_id: str
    state: KeyState
    owner: str | None = None
    kind: SignerKind | None = None
    origin: Origin = Origin.USER
    scope: Scope = Scope()  # noqa: RUF009 - a frozen value
    key: PublicKey | None = None
    document: TrustDocument | None = None
    reason: str | None = None
    yours: bool = False

    @property
    def name(self) -> str:
        """What commands take for this row, and for no other document of the same key."""
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
    """What waits for a person. `project` is the project whose unsigned files may not be used yet, if any."""

    project: Path | None
    keys: tuple[KnownKey, ...]
    problems: tuple[RyeError, ...]

    def __bool__(self) -> bool:
        return self.project is not None or bool(self.keys)


def scope_as_dict(scope: Scope) -> dict[str, list[str] | None]:
    """What a key is trusted for, as data; None stands for a list that is missing."""
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
    """What waits for a person. `project` is the directory that holds `.ai`, None when there is none."""
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
    return _row(document, KeyState.TRUSTED, Origin.USER, own, revocations)


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
    row = _row(document, state, Origin.PROJECT, own, revocations)
    if state is KeyState.ACCEPTED_BY_ROTATION:
        return replace(row, owner=candidate.owner, scope=candidate.scope)
    return row


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
) -> KnownKey:
    key_id = document.key.key_id
    reason = revocations.get(key_id)
    return KnownKey(
        key_id,
        state if reason is None else KeyState.REVOKED,
        document.owner,
        document.kind,
        origin,
        document.scope,
        document.key,
        document,
        reason,
        yours=any(key.key_id == key_id for key in own.values()),
    )
