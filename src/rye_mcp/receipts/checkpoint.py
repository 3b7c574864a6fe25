"""The state of a chain at one moment, signed, for others to keep: who has it can tell that receipts are gone.

A checkpoint is an in-toto statement about the last receipt, in an envelope as a receipt has.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from rye_mcp.errors import RyeError
from rye_mcp.receipts.envelope import Envelope
from rye_mcp.receipts.statement import STATEMENT_TYPE
from rye_mcp.runs.chain import Mark
from rye_mcp.trust.trust_document import PublicKey

__all__ = ["CHECKPOINT_TYPE", "entry_for_rekor", "mark_in", "payload_of"]

CHECKPOINT_TYPE: Final = "urn:rye-mcp:receipt-checkpoint:v1"
"""The form of the predicate, with its version."""


class _Digest(msgspec.Struct):
    sha256: str


class _Subject(msgspec.Struct):
    digest: _Digest


class _Predicate(msgspec.Struct):
    number: int


class _Statement(msgspec.Struct):
    predicateType: str  # noqa: N815 - its name in in-toto
    subject: list[_Subject]
    predicate: _Predicate


_DECODER: Final = msgspec.json.Decoder(_Statement)


def payload_of(mark: Mark) -> bytes:
    """Return the signed payload: it says that this is the last receipt now."""
    whole = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f"receipt:{mark.number}", "digest": {"sha256": mark.digest}}],
        "predicateType": CHECKPOINT_TYPE,
        "predicate": {
            "number": mark.number,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    }
    return msgspec.json.encode(whole)


def mark_in(envelope: Envelope, place: str) -> Mark:
    """The receipt that a checkpoint is about; the caller verifies the signature."""
    try:
        found = _DECODER.decode(envelope.payload)
        [subject] = found.subject
    except (msgspec.DecodeError, ValueError) as exc:
        raise RyeError("malformed_receipt", f"expected a checkpoint in {place}, found none: {exc}") from exc
    if found.predicateType != CHECKPOINT_TYPE:
        what = f"expected {CHECKPOINT_TYPE} in {place}, found {found.predicateType[:100]!a}"
        raise RyeError("malformed_receipt", what)
    return Mark(found.predicate.number, subject.digest.sha256)


def entry_for_rekor(envelope: Envelope, key: PublicKey) -> dict[str, Any]:
    """Return the request that enters an envelope into Sigstore's transparency log (`dsse` 0.0.1)."""
    content = {
        "envelope": envelope.line.decode("ascii"),
        "verifiers": [base64.b64encode(key.pem).decode("ascii")],
    }
    return {"apiVersion": "0.0.1", "kind": "dsse", "spec": {"proposedContent": content}}
