"""Whom this user trusts, in which order it is asked, and which keys this user revoked.

A signer is looked up by fingerprint: the user's own agent, then the documents of the user space, then, for
items of the project alone, those of the project. The first one counts, and a revoked key signs nothing. Every
answer comes with the files that it rests on, so a caller can tell when a kept answer is stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import copy
from enum import Enum, auto
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS_WRITE, Tree, make_user_space, translated
from rye_mcp.items import SpaceName
from rye_mcp.trust import _toml
from rye_mcp.trust.approvals import Approvals, Decision, ProjectDecisions
from rye_mcp.trust.scope import AGENT_OWNER, Origin, Scope, SignerKind
from rye_mcp.trust.trust_document import (
    DIRECTORY,
    MAX_DOCUMENT_BYTES,
    MAX_ROTATIONS,
    PublicKey,
    TrustDocument,
    is_key_id,
)

__all__ = [
    "MAX_REVOKED_BYTES",
    "REVOCATIONS_FILE",
    "Candidate",
    "Listing",
    "Moment",
    "Seen",
    "Standing",
    "TrustStore",
    "parse_revocations",
    "require_not_revoked",
    "revoke",
    "write_user_document",
]

REVOCATIONS_FILE: Final = "revoked.toml"
"""The file, directly in the user space."""

MAX_REVOKED_BYTES: Final = 1 << 20
"""How many bytes it may have."""

_VERSION = 1
_MAX_BRACKETS = 20_000
_FILE_MODE = 0o644


def parse_revocations(data: bytes | None, place: Path) -> Mapping[str, str]:
    """The reason for each revoked key, by its id."""
    if data is None:
        return MappingProxyType({})
    table = _toml.require_keys(
        _toml.parse(data, place, max_brackets=_MAX_BRACKETS),
        place,
        "the file",
        required=("version",),
        optional=("revoked",),
    )
    if type(table["version"]) is not int or table["version"] != _VERSION:
        raise _toml.malformed(place, f"version {_VERSION}", _toml.shown(table["version"]))
    entries = table.get("revoked", [])
    if not isinstance(entries, list):
        raise _toml.malformed(place, "[[revoked]]", type(entries).__name__)
    reasons: dict[str, str] = {}
    for entry in entries:
        key_id, reason = _parse_entry(entry, place)
        reasons.setdefault(key_id, reason)
    return MappingProxyType(reasons)


def require_not_revoked(revocations: Mapping[str, str], key_id: str, where: Path, **details: Any) -> None:
    """RyeError `revoked_key` for a key that was."""
    if key_id in revocations:
        what = f"expected a key that is still good as the signer of {where}"
        found = f"the revoked key {key_id} ({revocations[key_id]})"
        raise RyeError("revoked_key", f"{what}, found {found}", where=where, key_id=key_id, **details)


def revoke(user_space: Path, key_id: str, reason: str) -> None:
    """Revoke a key for this user, everywhere and from now on."""
    place = user_space / REVOCATIONS_FILE
    if not is_key_id(key_id):
        raise RyeError(
            "unusable_key", f"expected a key id of 64 hexadecimal digits, found {_toml.shown(key_id)}"
        )
    if not _toml.is_visible_line(reason):
        raise _toml.malformed(place, "one line of visible characters as reason", _toml.shown(reason))
    with translated("write_failed", place):
        make_user_space(user_space)
    tree = Tree(user_space, forbidden=OTHERS_WRITE)
    with (
        translated("write_failed", place),
        tree.opened() as directory,
        whole_files.lock(directory),
    ):
        data = tree.read(REVOCATIONS_FILE, limit=MAX_REVOKED_BYTES)
        reasons = dict(parse_revocations(data, place))
        reasons.setdefault(key_id, reason)
        whole_files.write_whole(place, _render(reasons).encode(), mode=_FILE_MODE, directory=directory)


def _parse_entry(entry: object, place: Path) -> tuple[str, str]:
    fields = _toml.require_keys(entry, place, "[[revoked]]", required=("key_id",), optional=("reason",))
    key_id, reason = fields["key_id"], fields.get("reason", "no reason was given")
    if not is_key_id(key_id):
        raise _toml.malformed(place, "a key_id of 64 hexadecimal digits", _toml.shown(key_id))
    if not _toml.is_visible_line(reason):
        raise _toml.malformed(place, "one line of visible characters as reason", _toml.shown(reason))
    return key_id, reason


def _render(reasons: Mapping[str, str]) -> str:
    lines = [f"version = {_VERSION}"]
    for key_id, reason in reasons.items():
        lines += ["", "[[revoked]]", f"key_id = {_toml.write_value(key_id)}"]
        lines.append(f"reason = {_toml.write_value(reason)}")
    return "\n".join([*lines, ""])


_AGENT_KEY = "keys/agent/public_key.pem"
_MAX_KEPT_DOCUMENTS = 1024
_MAX_LISTED_DOCUMENTS = 1000
_DIRECTORY_MODE = 0o700

Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


class Kept(Protocol[Value_co]):
    """A file, or whatever else trust rests on."""

    def value(self) -> Value_co:
        """What it says now; the same object as before when it is unchanged."""
        ...


class Moment:
    """One look at what trust rests on, for all that is verified together: it is as old as its first use."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Kept[Any], Any] = {}

    def value(self, kept: Kept[Value]) -> Value:
        """Return what it says at this moment."""
        if kept not in self._values:
            self._values[kept] = kept.value()
        value: Value = self._values[kept]
        return value


class Seen:
    """All that an answer rests on, and what it said at one moment."""

    __slots__ = ("_moment", "_said")

    def __init__(self, moment: Moment | None = None) -> None:
        self._moment = moment or Moment()
        self._said: list[tuple[Kept[Any], object]] = []

    def look(self, kept: Kept[Value]) -> Value:
        """Return what a file says, and note that the answer rests on it from now on."""
        value = self._moment.value(kept)
        self._said.append((kept, value))
        return value

    def still_holds(self, moment: Moment) -> bool:
        """Whether every one of them says the very same."""
        return all(moment.value(kept) is value for kept, value in self._said)


class Standing(Enum):
    """Whether a signer is trusted at all."""

    TRUSTED = auto()
    UNDECIDED = auto()
    DENIED = auto()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The owner of a fingerprint: their key, and whether and for what they are trusted.

    `before` are the ids of the keys that the same person had before, the latest first.
    """

    key: PublicKey
    owner: str
    kind: SignerKind
    origin: Origin
    scope: Scope
    standing: Standing
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The documents of a space, and what is wrong with the invalid ones."""

    documents: tuple[TrustDocument, ...]
    problems: tuple[RyeError, ...]


class TrustStore:
    """The keys that one user trusts in one project, or in none."""

    def __init__(
        self,
        user_space: Path,
        *,
        project_space: Path | None = None,
        approvals: Approvals | None = None,
        accepted_keys: frozenset[str] = frozenset(),
    ) -> None:
        self._user_space = user_space
        self._project_space = project_space
        self._approvals = approvals
        self.accepted_keys = accepted_keys
        self._arriving: Mapping[str, TrustDocument] = MappingProxyType({})
        self._documents: dict[tuple[Path, str], KeptFile[TrustDocument | None]] = {}
        tree = Tree(user_space, forbidden=OTHERS_WRITE)
        self._agent = KeptFile(tree, _AGENT_KEY, _parse_key, limit=MAX_DOCUMENT_BYTES)
        self._revoked = KeptFile(
            tree,
            REVOCATIONS_FILE,
            parse_revocations,
            limit=MAX_REVOKED_BYTES,
        )

    def with_arriving(self, documents: Iterable[TrustDocument]) -> TrustStore:
        """The same store, for which these documents are proposals too, behind those of the project."""
        other = copy(self)
        other._arriving = MappingProxyType({each.key.fingerprint: each for each in documents})
        return other

    def revocations(self, seen: Seen | None = None) -> Mapping[str, str]:
        """The reason for each revoked key, by its id."""
        return (seen or Seen()).look(self._revoked)

    def find_signer(self, fingerprint: str, space: SpaceName, seen: Seen) -> Candidate | None:
        """The owner of this fingerprint, as far as it is known."""
        return self._find(fingerprint, space, seen, ())

    def _find(
        self, fingerprint: str, space: SpaceName, seen: Seen, later: tuple[str, ...]
    ) -> Candidate | None:
        """The same; `later` are the ids of the keys that came after it, for which it is looked up."""
        agent = seen.look(self._agent)
        if agent is not None and agent.fingerprint == fingerprint:
            return Candidate(agent, AGENT_OWNER, SignerKind.AGENT, Origin.USER, Scope(), Standing.TRUSTED)
        document = seen.look(self._document(self._user_space, fingerprint, OTHERS_WRITE))
        if document is not None:
            candidate = _candidate(document, Origin.USER, Standing.TRUSTED)
            return self._with_old_key(candidate, document, space, seen, later)
        if self._project_space is None or space is not SpaceName.PROJECT:
            arriving = self._arriving.get(fingerprint)
            return None if arriving is None else _candidate(arriving, Origin.PROJECT, Standing.UNDECIDED)
        document = seen.look(self._document(self._project_space, fingerprint, 0))
        document = document or self._arriving.get(fingerprint)
        if document is None:
            return None
        return self._proposed(document, seen, later)

    def agent_keys(self) -> frozenset[str]:
        """The ids of the keys of all agents that the user trusts."""
        accepted = (each for each in self.proposals().documents if self.standing_of(each) is Standing.TRUSTED)
        documents = (*self.documents().documents, *accepted)
        keys = {each.key.key_id for each in documents if each.kind is SignerKind.AGENT}
        own = Seen().look(self._agent)
        return frozenset(keys | ({own.key_id} if own else set())) - self.revocations().keys()

    def runner_keys(self) -> Mapping[str, PublicKey]:
        """The keys of other machines whose receipts this user believes, by their ids."""
        documents = self.documents().documents
        return {each.key.key_id: each.key for each in documents if each.kind is SignerKind.RUNNER}

    def candidate_of(self, proposal: TrustDocument) -> Candidate:
        """The subject of a document of the project, as far as this user trusts them there."""
        return self._proposed(proposal, Seen(), ())

    def standing_of(self, proposal: TrustDocument) -> Standing:
        """Return the standing of the project's document: the decision about it, or about the key before."""
        return self.candidate_of(proposal).standing

    def _proposed(self, document: TrustDocument, seen: Seen, later: tuple[str, ...]) -> Candidate:
        candidate = _candidate(document, Origin.PROJECT, self._decided(document, seen))
        return self._with_old_key(candidate, document, SpaceName.PROJECT, seen, later)

    def _with_old_key(
        self,
        candidate: Candidate,
        document: TrustDocument,
        space: SpaceName,
        seen: Seen,
        later: tuple[str, ...],
    ) -> Candidate:
        """The candidate, with what follows from the key that the same person had before."""
        old = self._old_key(document, space, seen, later)
        if old is None or old.standing is Standing.UNDECIDED:
            return candidate
        said = old if candidate.standing is Standing.UNDECIDED else candidate
        before = (old.key.key_id, *old.before)
        return Candidate(document.key, said.owner, said.kind, said.origin, said.scope, said.standing, before)

    def _old_key(
        self, document: TrustDocument, space: SpaceName, seen: Seen, later: tuple[str, ...]
    ) -> Candidate | None:
        """The signer of the rotation to this key; None where the rotation does not count."""
        rotation = document.rotation
        later = (*later, document.key.key_id)
        if rotation is None or len(later) > MAX_ROTATIONS or rotation.old.key_id in later:
            return None
        if rotation.old.key_id in self.revocations(seen):
            return None
        old = self._find(rotation.old.fingerprint, space, seen, later)
        if old is None or old.key.key_id != rotation.old.key_id or old.kind is not SignerKind.PERSON:
            return None
        return old

    def _decided(self, proposal: TrustDocument, seen: Seen) -> Standing:
        """Return the decision about a document of the project itself, or about its key."""
        decisions = ProjectDecisions()
        if self._approvals is not None:
            decisions = seen.look(self._approvals)
        decision = decisions.proposals.get(proposal.digest)
        if decision is Decision.DENIED or proposal.key.key_id in decisions.denied_keys:
            return Standing.DENIED
        if decision is Decision.ACCEPTED or proposal.key.key_id in self.accepted_keys:
            return Standing.TRUSTED
        return Standing.UNDECIDED

    def decide(self, proposal: TrustDocument, decision: Decision) -> None:
        """Accept a document of the project exactly as it stands, or deny its key."""
        self.decide_all((proposal,), decision)

    def decide_all(self, proposals: Iterable[TrustDocument], decision: Decision) -> None:
        """Accept documents of the project exactly as they stand, or deny their keys; all of them or none."""
        if self._approvals is None:
            raise RyeError("no_project", "expected a project whose proposal to decide on, found none")
        self._approvals.decide({each.digest: each.key.key_id for each in proposals}, decision)

    def documents(self) -> Listing:
        """The documents of the user space."""
        return _list_documents(self._user_space, OTHERS_WRITE)

    def proposals(self) -> Listing:
        """The documents of the project, decided on or not; see `standing_of`."""
        return Listing((), ()) if self._project_space is None else _list_documents(self._project_space, 0)

    def _document(self, space: Path, fingerprint: str, forbidden: int) -> KeptFile[TrustDocument | None]:
        kept = self._documents.get((space, fingerprint))
        if kept is None:
            if len(self._documents) >= _MAX_KEPT_DOCUMENTS:
                self._documents.clear()
            kept = KeptFile(
                Tree(space, forbidden=forbidden),
                f"{DIRECTORY}/{fingerprint}.toml",
                _parse_document,
                limit=MAX_DOCUMENT_BYTES,
            )
            self._documents[space, fingerprint] = kept
        return kept


def _is_document_name(name: str) -> bool:
    return name.endswith(".toml")


def _list_documents(space: Path, forbidden: int) -> Listing:
    tree = Tree(space, forbidden=forbidden)
    try:
        with tree.opened(DIRECTORY) as directory:
            names = sorted(filter(_is_document_name, os.listdir(directory)))  # noqa: PTH208 - a descriptor
    except FileNotFoundError:
        return Listing((), ())
    documents, problems = [], []
    for name in names[:_MAX_LISTED_DOCUMENTS]:
        try:
            data = tree.read(f"{DIRECTORY}/{name}", limit=MAX_DOCUMENT_BYTES)
            documents.append(TrustDocument.parse(data or b"", space / DIRECTORY / name))
        except RyeError as exc:
            problems.append(exc)
    if len(names) > _MAX_LISTED_DOCUMENTS:
        what = (
            f"expected at most {_MAX_LISTED_DOCUMENTS} documents in {space / DIRECTORY}, found {len(names)}"
        )
        problems.append(RyeError("too_large", what, where=space / DIRECTORY))
    return Listing(tuple(documents), tuple(problems))


def write_user_document(user_space: Path, document: TrustDocument, *, replace: bool = False) -> None:
    """Trust a key: write its document to the user space. One that is there stays, unless told otherwise."""
    path = user_space / DIRECTORY / document.file_name
    make_user_space(user_space)
    with (
        translated("write_failed", path),
        Tree(user_space, forbidden=OTHERS_WRITE).opened(DIRECTORY, create_mode=_DIRECTORY_MODE) as directory,
    ):
        try:
            whole_files.write_whole(
                path, document.data, mode=_FILE_MODE, replace=replace, directory=directory
            )
        except FileExistsError:
            return


def _parse_key(data: bytes | None, place: Path) -> PublicKey | None:
    return None if data is None else PublicKey.from_pem(data, place)


def _parse_document(data: bytes | None, place: Path) -> TrustDocument | None:
    return None if data is None else TrustDocument.parse(data, place)


def _candidate(document: TrustDocument, origin: Origin, standing: Standing) -> Candidate:
    return Candidate(document.key, document.owner, document.kind, origin, document.scope, standing)
