"""Verifies a whole log: its receipts, that none is missing at either end, and the rows they are about.

Receipts and rows that the log forgets by age are no loss. Anything else that is not there is a problem.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.receipts.envelope import Envelope
from rye_mcp.receipts.statement import STATEMENT_TYPE, row_digest
from rye_mcp.receipts.verification import MAX_PROBLEMS, ChainCheck, Checked, Problem, Signers, missing
from rye_mcp.runs.chain import ChainedReceipt, Mark
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.trust.trust_document import PublicKey

__all__ = [
    "CHECKPOINT_TYPE",
    "check_log",
    "entry_for_rekor",
    "mark_in",
    "payload_of",
]

_REFUSED_RUN = b'"exit":{"kind":"refused"'


def check_log(store: ReceiptStore, signers: Signers, *, every_signature: bool = False) -> Checked:
    """Verify everything; only the problems are kept in memory."""
    mark = store.mark()
    chain = ChainCheck(signers, every_signature=every_signature)
    rows = _RowCheck()
    at_mark: str | None = None
    for receipt, row in store.all_with_rows():
        rows.take(receipt, row, chain.take(receipt))
        if mark is not None and receipt.number == mark.number:
            at_mark = receipt.digest
    found = chain.finish()
    problems = [*_at_the_ends(found, mark, at_mark, store.kept), *rows.finish(store)]
    listed = (*found.problems, *problems)
    more = found.more_problems + rows.more + max(0, len(listed) - MAX_PROBLEMS)
    older = store.older()
    return replace(found, problems=listed[:MAX_PROBLEMS], more_problems=more, without_receipt=older)


def _at_the_ends(found: Checked, mark: Mark | None, at_mark: str | None, kept: int) -> list[Problem]:
    problems = []
    last = 0 if found.last is None else found.last.number
    if found.first is not None and found.first > 1 and last - found.first + 1 < kept:
        problems.append(_broken(found.first, missing(1, found.first - 1)))
    if mark is not None:
        problems += _at_the_mark(mark, at_mark, last)
    elif found.receipts:
        problems.append(
            _broken(last, "the mark of the last receipt is gone: nothing says where the log ends")
        )
    return problems


def _at_the_mark(mark: Mark, at_mark: str | None, last: int) -> Iterator[Problem]:
    if mark.number > last:
        what = f"{missing(last + 1, mark.number)}: the log was cut, or restored from a backup"
        yield _broken(mark.number, what)
    elif at_mark is not None and at_mark != mark.digest:
        yield _broken(mark.number, f"receipt {mark.number} is not the one that was written")


def _broken(number: int | None, message: str) -> Problem:
    return Problem("receipts_broken", number, message)


@dataclass(slots=True)
class _Kind:
    """The rows of one kind: the log forgets each kind by itself, the oldest first."""

    present: int = 0
    forgotten: int = 0


class _RowCheck:
    """Compares the rows of the log with the receipts of their runs."""

    def __init__(self) -> None:
        self.more = 0
        self._problems: list[Problem] = []
        self._kinds = {False: _Kind(), True: _Kind()}

    def take(self, receipt: ChainedReceipt, row: Mapping[str, Any] | None, digest: str | None) -> None:
        if digest is None:
            return
        kind = self._kinds[_REFUSED_RUN in receipt.payload]
        if row is None and kind.present:
            self._add(receipt.number, f"the run {receipt.run_id} was removed from the log")
        elif row is None:
            kind.forgotten += 1
        else:
            kind.present += 1
            if row_digest(row) != digest:
                self._add(receipt.number, f"what the log says of the run {receipt.run_id} was changed")

    def finish(self, store: ReceiptStore) -> list[Problem]:
        rows = store.rows()
        kept = {False: rows.kept_runs, True: rows.kept_refusals}
        found = {False: rows.runs, True: rows.refusals}
        for is_refused, kind in self._kinds.items():
            if kind.forgotten and found[is_refused] < kept[is_refused]:
                self._add(None, f"{kind.forgotten} of the oldest runs were removed from the log")
        for run_id in store.unattested(MAX_PROBLEMS):
            self._add(None, f"the run {run_id} has no receipt")
        return self._problems

    def _add(self, number: int | None, message: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(_broken(number, message))
        else:
            self.more += 1


# --- checkpoints ---
# The state of a chain at one moment, signed, for others to keep: who has it can tell that receipts are gone.
#
# A checkpoint is an in-toto statement about the last receipt, in an envelope as a receipt has.


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
