"""Lets a person run a draft at a terminal before signing it.

A draft is signed in memory, with a key that is made for these bytes and thrown away. One `Trust`, made for
this draft and this id, trusts that key; everything else is decided as always. No agent reaches this module.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Final

from lilux._dataclasses import dataclass
from lilux.primitives.signing import generate_keypair
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import Origin, Role, Scope, SignerKind
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.trust_document import PublicKey
from rye_mcp.trust.trust_store import Candidate, Seen, Standing, TrustStore
from rye_mcp.trust.verify import Trust

__all__ = ["DRAFT_CODES", "DRAFT_OWNER", "Draft", "as_draft"]

DRAFT_OWNER: Final = "nobody: a draft"
"""The signer of a draft, in results and in the log."""

DRAFT_CODES: Final = frozenset({"unsigned", "content_changed"})
"""The refusals of the gate that make a file a draft."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A file as it was looked at (`source`), the same with its signature, and the one trust that it passes.

    `code` is what the gate says of the file as it is.
    """

    source: ItemFile
    file: ItemFile
    trust: Trust
    code: str


def as_draft(source: ItemFile, trust: Trust, refusal: RyeError) -> Draft:
    """A draft of a file that the gate has refused; the refusal itself, when that makes it none."""
    if refusal.code not in DRAFT_CODES:
        raise refusal
    private, public = generate_keypair()
    key = SigningKey(SignerKind.PERSON, PublicKey.from_pem(public, "a draft"), private)
    file = replace(source, content=sign_content(source, key))
    scope = Scope(ids=(source.item_id,), roles=frozenset({Role.TOOL}))
    nobody = Candidate(key.public, DRAFT_OWNER, key.kind, Origin.USER, scope, Standing.TRUSTED)
    trusted = copy(trust)
    trusted.store = _DraftStore(trust.store, nobody)
    trusted.answers = {}
    trusted.unrecorded = key.public.key_id
    return Draft(source, file, trusted, refusal.code)


class _DraftStore(TrustStore):
    """The trust of a user, plus the key of one draft."""

    def __init__(self, known: TrustStore, draft: Candidate) -> None:
        self.__dict__.update(known.__dict__)
        self._draft = draft

    def find_signer(self, fingerprint: str, space: SpaceName, seen: Seen) -> Candidate | None:
        """The owner of this fingerprint."""
        if fingerprint == self._draft.key.fingerprint:
            return self._draft
        return super().find_signer(fingerprint, space, seen)
