"""The one gate: `verify_item` decides whether a file is authentic, and whether its signer may have signed it.

What passes is a `VerifiedItem`, which nothing else makes; what does not is a RyeError. An answer is kept
while the same bytes, id and role meet the same trust: the files it rests on are looked at again each time, or
once for all that is verified at one `Moment`. Refusals are not kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from lilux._dataclasses import dataclass
from lilux._footprints import Remembered, unnoted
from lilux.primitives.signing import verify_signature
from rye_mcp.errors import RyeError
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, ItemFile, ItemType, SpaceName, relative_path, signed_path
from rye_mcp.own_directories import state_directory
from rye_mcp.trust import signature
from rye_mcp.trust.approvals import Approvals, trusted_keys_of
from rye_mcp.trust.claims import (
    AgreedPermissions,
    claim_by_lockfile,
    claim_by_user_space,
    hint_for_changed,
    hint_for_renamed,
    whose_unsigned,
)
from rye_mcp.trust.directories import Directories
from rye_mcp.trust.listing import require_as_listed
from rye_mcp.trust.manifest import SystemManifest
from rye_mcp.trust.scope import Evidence, Origin, Role, Signer, SignerKind, require_in_scope
from rye_mcp.trust.sealed import MANIFEST_SHA256
from rye_mcp.trust.signature import Claim, SignatureLine, require_text
from rye_mcp.trust.signers import ACCEPTED, COMMITTED, Fact, SignerRecord
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import Candidate, Moment, Seen, Standing, TrustStore, require_not_revoked

__all__ = ["Moment", "RoleOf", "Trust", "VerifiedItem", "verify_item", "verify_listing"]

_MAX_KEPT_ANSWERS = 16_384

RoleOf = Role | Callable[[bytes], Role]
"""A role, or what tells it from the verified bytes of an item."""


@dataclass(frozen=True, slots=True)
class VerifiedItem:
    """An item that passed the gate.

    `digest` is the SHA256 of the content without its signature line; `timestamp` is when the signer says that
    it was signed, None for an item of the system space.
    """

    file: ItemFile
    digest: str
    signer: Signer
    timestamp: str | None
    evidence: Evidence
    role: Role


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer about a file, and the files that it rests on."""

    signer: Signer
    timestamp: str
    role: Role
    seen: Seen


class Trust:
    """Everything that the gate decides by: what this user trusts, in one project or in none."""

    def __init__(
        self,
        *,
        user_space: Path,
        project: Path | None = None,
        system_space: Path | None = None,
        state: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        system_pin: str = MANIFEST_SHA256,
    ) -> None:
        """`user_space` and `system_space` are the directories that hold `tools/`, `project` is the one that
        holds `.ai/`; `state` is where decisions are kept.
        """
        self.approvals = None if project is None else Approvals(project, state or state_directory())
        self.directories = Directories(
            user=user_space.parent,
            state=lambda: state or state_directory(),
            project=self.approvals,
            root=project,
            environment=environment,
        )
        own_space = self._own_space = Path(os.path.realpath(user_space))
        project_space = None if project is None else Path(os.path.realpath(project / ".ai"))
        self._roots = {SpaceName.USER: own_space, SpaceName.PROJECT: project_space}
        self.store = TrustStore(
            own_space,
            project_space=project_space,
            approvals=self.approvals,
            accepted_keys=trusted_keys_of(environment),
        )
        self.libraries: Remembered[Any] = Remembered()
        """What libraries of runtimes of the system space consist of, as the manifest lists it."""
        self._system_space = system_space
        self._system_pin = system_pin
        self.records, self._shared_record = _records_of(
            own_space, self.approvals, lambda: state or state_directory()
        )
        self.agreed_permissions = AgreedPermissions(lambda: state or state_directory())
        self.unrecorded: str | None = None
        self.is_recording = True
        """Whether it is written down who vouches for what passes the gate."""
        self.noted_commits: set[str] = set()
        self.unread_commits: set[str] = set()
        self.answers: dict[tuple[object, ...], _Answer] = {}

    @cached_property
    def manifest(self) -> SystemManifest:
        """The manifest of the system space; read when it is asked for first."""
        if self._system_space is None:
            raise RyeError("not_in_manifest", "expected a system space, found none")
        return SystemManifest.load(Path(os.path.realpath(self._system_space)), pin=self._system_pin)

    def require_own(self, file: ItemFile) -> None:
        """ValueError for a file of a space that this trust does not know."""
        if file.space.root != self._roots.get(file.space.name):
            expected = self._roots.get(file.space.name)
            raise ValueError(f"expected a file of {expected}, which this trust is for, found {file.path}")

    @property
    def all_records(self) -> tuple[SignerRecord, ...]:
        """All known records: of the user space, the project, and the repository that it is a worktree of."""
        own = tuple(self.records.values())
        return own if self._shared_record is None else (*own, self._shared_record)

    def with_arriving(self, documents: Iterable[TrustDocument]) -> Trust:
        """The same trust, which knows these keys, as they came with what is verified, and trusts none.

        It records nothing: what arrives is not there yet, and may be refused.
        """
        other = copy(self)
        other.is_recording = False
        other.store = self.store.with_arriving(documents)
        other.answers = {}
        return other

    def note(self, file: ItemFile, fact: Fact) -> None:
        """Write down who vouched for a file, for its space and for every worktree of the same repository."""
        with unnoted():  # no answer rests on what is written
            for record in self.records_of(file.space.name):
                record.note(fact)

    def records_of(self, space: SpaceName) -> tuple[SignerRecord, ...]:
        """Where facts about a space are written: for itself, and for every worktree of its repository."""
        own = self.records[space]
        if space is not SpaceName.PROJECT or self._shared_record is None:
            return (own,)
        return own, self._shared_record

    @property
    def is_record_full(self) -> bool:
        """Whether there is no room to write down what a person vouches for: then no agent signs."""
        return any(record.kept().value().is_full for record in self.all_records)

    def persons_claim(
        self, file: ItemFile, digest: str | None = None, seen: Seen | None = None
    ) -> Fact | None:
        """The person who vouched for an item of this id, or under another id for this content, if known.

        What a person vouched for in the user space is theirs in every project.
        """
        seen = seen or Seen()
        for record in self.all_records:
            for fact in seen.look(record.kept()).claims(file, digest):
                if fact.kind != COMMITTED or not self.is_agents(fact.key_id, file.space.name, seen):
                    return fact
        return None

    def is_agents(self, fingerprint: str, space: SpaceName, seen: Seen | None = None) -> bool:
        """Whether this is the key of an agent that the user trusts."""
        seen = seen or Seen()
        try:
            signer = self.store.find_signer(fingerprint, space, seen)
            revoked = self.store.revocations(seen)
        except RyeError:
            return False  # nobody can tell whose it is
        if signer is None or signer.kind is not SignerKind.AGENT:
            return False
        return signer.standing is Standing.TRUSTED and signer.key.key_id not in revoked

    def is_own(self, signer: Signer) -> bool:
        """Whether this user has signed, with the key of today or one that it replaced, or tries a draft."""
        if self.is_draft(signer):
            return True
        if signer.kind is not SignerKind.PERSON or signer.key_id is None:
            return False
        from rye_mcp.trust.keys import KeyRing  # only where something has changed

        try:
            own = KeyRing(self._own_space).show(SignerKind.PERSON)
            known = self.store.find_signer(own.fingerprint, SpaceName.PROJECT, Seen())
        except RyeError:
            return False  # nobody can tell which keys are this user's
        return signer.key_id == own.key_id or (known is not None and signer.key_id in known.before)

    def is_draft(self, signer: Signer) -> bool:
        """Whether this is the key of a draft, which nobody has signed."""
        return signer.key_id is not None and signer.key_id == self.unrecorded

    def ids_of_persons(self, item_type: ItemType) -> frozenset[str]:
        """The ids of this type that a person is known to have vouched for; none where nobody can tell."""
        ids: set[str] = set()
        for record in self.all_records:
            with suppress(RyeError):
                ids |= record.kept().value().ids_of_persons(item_type)
        return frozenset(ids)

    def other_claim(self, file: ItemFile) -> str | None:
        """How the user space, or a lockfile, tells that this id is a person's: the end of a sentence.

        What lists the files of a directory is no item, and rests on the record alone.
        """
        if signed_path(file.item_type, file.item_id, file.extension).endswith(f"/{DEPENDENCY_MANIFEST_NAME}"):
            return None
        spaces = [root for root in self._roots.values() if root is not None]
        return claim_by_user_space(file, self._own_space) or claim_by_lockfile(
            file, spaces, self.store.agent_keys
        )

    def was_accepted(self, file: ItemFile, digest: str, moment: Moment) -> bool:
        """Whether a person agreed to run exactly this, which an agent signed."""
        return any(moment.value(record.kept()).is_accepted(file, digest) for record in self.all_records)

    def was_signed_with(self, file: ItemFile, key_ids: Collection[str]) -> bool:
        """Whether one of these keys is known to have vouched for a file of this name in the same space."""
        try:
            known = self.records[file.space.name].all_facts()
        except RyeError:
            return False  # what nobody knows of has to be named
        return any(not facts.keys_of(file).isdisjoint(key_ids) for facts in known)

    def accept_agents_work(self, file: ItemFile) -> None:
        """Let what an agent signed in place of a person's work run, as it is; a person has agreed to it."""
        digest = signature.locate(file).digest
        fact = Fact.of(file, digest, kind=ACCEPTED, key_id="-", owner="-")
        self.records[file.space.name].write((fact,))

    @cached_property
    def system_signer(self) -> Signer:
        """The signer of the system space."""
        from importlib.metadata import version

        owner = f"rye-mcp {version('rye-mcp')}"
        return Signer(SignerKind.SYSTEM, owner, None, None, Origin.SYSTEM)


def _records_of(
    user_space: Path, project: Approvals | None, state: Callable[[], Path]
) -> tuple[dict[SpaceName, SignerRecord], SignerRecord | None]:
    """The record of each space, and that of the repository that the project is a worktree of."""
    records = {SpaceName.USER: SignerRecord(user_space, state)}
    if project is None:
        return records, None
    # By its own path: the file that says of which repository it is a worktree can be changed.
    records[SpaceName.PROJECT] = SignerRecord(project.root, state)
    is_own = project.repository == project.root
    return records, None if is_own else SignerRecord(project.repository, state)


def verify_item(file: ItemFile, trust: Trust, *, role: RoleOf, moment: Moment | None = None) -> VerifiedItem:
    """The item, when its bytes are authentic and its signer is trusted for it; RyeError otherwise.

    1. a file of the system space: what the manifest says
    2. the signature line, in its one form and place
    3. an answer that is kept, when nothing that it rests on has changed
    4. the bytes are text, and are those whose hash was signed
    5. the signature is good, for this item, under the key of this fingerprint
    6. the key was not revoked, its owner is trusted, and for this item in its role
    7. no agent signed it in place of what a person had vouched for
    8. the files of a skill are those that were signed
    """
    relative = relative_path(file.item_type, file.item_id, file.extension)
    return _verify(file, relative, trust, role, moment or Moment())


def verify_listing(file: ItemFile, trust: Trust, *, role: Role, moment: Moment | None = None) -> VerifiedItem:
    """The list of the files of a directory, when it is authentic; RyeError otherwise.

    Its role is that of the item which rests on these files: who may not sign that, may not exchange them.
    """
    relative = signed_path(file.item_type, file.item_id, file.extension)
    if relative.rpartition("/")[2] != DEPENDENCY_MANIFEST_NAME:
        raise RyeError("invalid_id", f"expected {DEPENDENCY_MANIFEST_NAME} of a directory, found {relative}")
    return _verify(file, relative, trust, role, moment or Moment())


def _verify(file: ItemFile, relative: str, trust: Trust, role: RoleOf, moment: Moment) -> VerifiedItem:
    if file.space.name is SpaceName.SYSTEM:
        return _verify_system_item(file, relative, trust, role)
    claim = _located(file, trust)
    key = (file.space, file.item_type, file.item_id, file.extension, role, claim)
    answer = trust.answers.get(key)
    if answer is None or not answer.seen.still_holds(moment):
        answer = _verify_signed_item(file, claim, trust, role, moment)
        if len(trust.answers) >= _MAX_KEPT_ANSWERS:
            trust.answers.clear()
        trust.answers[key] = answer
    if answer.signer.kind is SignerKind.AGENT:
        _require_unclaimed(file, claim, trust, moment)
    require_as_listed(file)
    return VerifiedItem(file, claim.digest, answer.signer, answer.timestamp, Evidence.SIGNATURE, answer.role)


def _located(file: ItemFile, trust: Trust) -> Claim:
    """The signature line; without one, the refusal says who is known to have signed the item before."""
    try:
        return signature.locate(file)
    except RyeError as exc:
        before = whose_unsigned(file, trust) if exc.code == "unsigned" else None
        if before is not None:
            exc.details["signed_before_by"], exc.hint = before
        raise


def _verify_system_item(file: ItemFile, relative: str, trust: Trust, role: RoleOf) -> VerifiedItem:
    digest = trust.manifest.require_listed(relative, file.content, file.path)
    return VerifiedItem(file, digest, trust.system_signer, None, Evidence.MANIFEST, _role_of(file, role))


def _verify_signed_item(file: ItemFile, claim: Claim, trust: Trust, role: RoleOf, moment: Moment) -> _Answer:
    trust.require_own(file)
    require_text(file)
    line = signature.parse(file, claim)
    if line.content_hash != claim.digest:
        raise RyeError(
            "content_changed",
            f"expected the content of {file.path} with the SHA256 {line.content_hash}, as it was signed, "
            f"found {claim.digest}",
            where=file.path,
            item_id=file.item_id,
            hint=hint_for_changed(file, line, trust),
        )
    seen = Seen(moment)
    candidate = trust.store.find_signer(line.fingerprint, file.space.name, seen)
    if candidate is None:
        raise _unknown_signer(file, line)
    _require_good_signature(file, claim, line, candidate, trust)
    key_id = candidate.key.key_id
    require_not_revoked(trust.store.revocations(seen), key_id, file.path, item_id=file.item_id)
    _require_trusted(file, candidate)
    item_role = _role_of(file, role)
    require_in_scope(file, item_role, kind=candidate.kind, origin=candidate.origin, scope=candidate.scope)
    signer = Signer(
        candidate.kind,
        candidate.owner,
        candidate.key.fingerprint,
        key_id,
        candidate.origin,
        candidate.before,
    )
    if signer.kind is SignerKind.AGENT:
        _require_not_a_persons(file, claim, trust, seen)
    if trust.is_recording and key_id != trust.unrecorded:
        fact = Fact.of(file, claim.digest, kind=signer.kind, key_id=key_id, owner=signer.owner)
        trust.note(file, fact)
    return _Answer(signer, line.timestamp, item_role, seen)


def _require_good_signature(
    file: ItemFile, claim: Claim, line: SignatureLine, candidate: Candidate, trust: Trust
) -> None:
    if _is_signed_as(file, claim, line, candidate):
        return
    hint = hint_for_renamed(file, claim, line, trust, partial(_is_signed_as, candidate=candidate))
    raise RyeError(
        "bad_signature",
        f"expected a signature of {file.item_type} {file.item_id}{file.extension} by "
        f"{candidate.owner} ({candidate.key.fingerprint}) in {file.path}, found an invalid one",
        where=file.path,
        item_id=file.item_id,
        hint=hint,
        key_id=candidate.key.key_id,
    )


def _is_signed_as(file: ItemFile, claim: Claim, line: SignatureLine, candidate: Candidate) -> bool:
    statement = signature.statement_digest(
        file,
        timestamp=line.timestamp,
        key_id=candidate.key.key_id,
        digest=claim.digest,
        length=claim.length,
    )
    return verify_signature(statement, line.signature, candidate.key.pem)


def _require_not_a_persons(file: ItemFile, claim: Claim, trust: Trust, seen: Seen) -> None:
    fact = trust.persons_claim(file, seen=seen)
    if fact is None or any(
        seen.look(record.kept()).is_accepted(file, claim.digest) for record in trust.all_records
    ):
        return
    raise RyeError(
        "signer_changed",
        f"expected {file.path} as {fact.owner} signed {fact.item_id} before, or signed again by a person, "
        "found that an agent has signed it since",
        where=file.path,
        item_id=file.item_id,
        signed_before_by=fact.owner,
    )


def _require_unclaimed(file: ItemFile, claim: Claim, trust: Trust, moment: Moment) -> None:
    whose = trust.other_claim(file)
    if whose is None or trust.was_accepted(file, claim.digest, moment):
        return
    raise RyeError(
        "signer_changed",
        f"expected the signature of a person in {file.path}, which {whose}, found that of an agent",
        where=file.path,
        item_id=file.item_id,
    )


def _require_trusted(file: ItemFile, candidate: Candidate) -> None:
    if candidate.standing is Standing.TRUSTED:
        return
    denied = candidate.standing is Standing.DENIED
    decided = "which you denied" if denied else "which you have not accepted"
    hint = "rye trust review"
    if candidate.kind is SignerKind.AGENT:
        hint = f"an agent signed it: read it, and sign it if it is good: rye sign {file.item_id}"
    raise RyeError(
        "untrusted_key",
        f"expected a signer that you trust for {file.path}, found the key {candidate.key.key_id}, "
        f"{decided}; the project says that it belongs to {candidate.owner}",
        where=file.path,
        item_id=file.item_id,
        hint=hint,
        key_id=candidate.key.key_id,
        fingerprint=candidate.key.fingerprint,
        owner=candidate.owner,
        proposed=True,
        denied=denied,
    )


def _unknown_signer(file: ItemFile, line: SignatureLine) -> RyeError:
    return RyeError(
        "untrusted_key",
        f"expected a signer that you trust for {file.path}, found the fingerprint {line.fingerprint}, "
        "which no document has",
        where=file.path,
        item_id=file.item_id,
        hint=f"if you or your agent wrote it: rye sign {file.item_id}; if not: rye trust add, with its key",
        fingerprint=line.fingerprint,
        proposed=False,
    )


def _role_of(file: ItemFile, role: RoleOf) -> Role:
    if file.item_type is not ItemType.TOOL:
        return Role(file.item_type.value)
    return role if isinstance(role, Role) else role(file.content)
