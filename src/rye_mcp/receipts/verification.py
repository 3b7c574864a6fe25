"""Verifies receipts in the order of their numbers, as a stream: what is wrong, and where.

Each receipt has the digest of the one before it, signature included. So one good signature vouches for
everything before it that is unbroken and by the same key, and only the last signature of such a stretch is
computed. `every_signature` computes all of them, which takes several times as long and finds nothing more.

    check = ChainCheck(Signers(keys))
    for receipt in receipts:
        check.take(receipt)
    check.finish().problems
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from lilux import _keys
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.receipts.envelope import Envelope
from rye_mcp.receipts.statement import PREDICATE_TYPE, STATEMENT_TYPE
from rye_mcp.runs.chain import ChainedReceipt, Mark
from rye_mcp.trust.trust_document import PublicKey

__all__ = [
    "MAX_PROBLEMS",
    "ChainCheck",
    "Checked",
    "Place",
    "Problem",
    "Signers",
    "missing",
    "read_receipt",
    "receipt_in",
]

MAX_PROBLEMS: Final = 100
"""How many problems are listed; the rest is counted."""


class Place(msgspec.Struct, frozen=True):
    """Where a receipt stands."""

    number: int
    previous: str | None
    broken: dict[str, Any] | None = None
    unmarked: bool = False


class _Verified(msgspec.Struct):
    receipt: Place
    run_id: str
    row_sha256: str


class _Predicate(msgspec.Struct):
    verified: _Verified


class _Statement(msgspec.Struct):
    _type: str
    predicateType: str  # noqa: N815 - its name in in-toto
    predicate: _Predicate


_DECODER: Final = msgspec.json.Decoder(_Statement)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, by a code of `rye_mcp.errors`. `number` is the receipt where it shows."""

    code: str
    number: int | None
    message: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {"code": self.code, "number": self.number, "message": self.message}


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a verification: `signatures` were computed, and cover all receipts without a problem.

    `without_receipt` counts runs of the log that are older than its receipts: nothing is known about them.
    """

    receipts: int = 0
    signatures: int = 0
    first: int | None = None
    last: Mark | None = None
    problems: tuple[Problem, ...] = ()
    more_problems: int = 0
    without_receipt: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        last = None if self.last is None else {"number": self.last.number, "sha256": self.last.digest}
        return {
            "receipts": self.receipts,
            "signatures": self.signatures,
            "first": self.first,
            "last": last,
            "problems": [each.as_dict() for each in self.problems],
            "more_problems": self.more_problems,
            "without_receipt": self.without_receipt,
        }


def read_receipt(payload: bytes, place: str) -> tuple[Place, str, str]:
    """Where a receipt stands, the id of its run, and the digest of that run's row."""
    try:
        found = _DECODER.decode(payload)
    except (msgspec.DecodeError, ValueError) as exc:
        raise RyeError("malformed_receipt", f"expected a receipt in {place}, found none: {exc}") from exc
    if found._type != STATEMENT_TYPE or found.predicateType != PREDICATE_TYPE:
        what = f"expected {PREDICATE_TYPE} in {place}, found {found.predicateType[:100]!a}"
        raise RyeError("malformed_receipt", what)
    verified = found.predicate.verified
    return verified.receipt, verified.run_id, verified.row_sha256


def receipt_in(envelope: Envelope, place: str) -> ChainedReceipt:
    """The receipt in an envelope that comes from a file, as the log would keep it."""
    where, run_id, _ = read_receipt(envelope.payload, place)
    facts = (where.number, run_id, envelope.digest, envelope.payload, envelope.key_id, envelope.signature)
    return ChainedReceipt(*facts)


class Signers:
    """The keys that may sign receipts, and those that may not any more."""

    def __init__(self, keys: Mapping[str, PublicKey], revoked: Mapping[str, str] | None = None) -> None:
        self._keys = keys
        self._revoked = revoked or {}
        self._loaded: dict[str, Ed25519PublicKey] = {}

    def require_signed(self, envelope: Envelope, place: str) -> None:
        """RyeError unless a key that may do so signed this."""
        key_id = envelope.key_id
        if key_id in self._revoked:
            what = f"expected a good key of a runner in {place}, found the revoked key {key_id}"
            raise RyeError(
                "revoked_key", what, hint="believe none of its receipts that you had not seen before"
            )
        if key_id not in self._loaded:
            if key_id not in self._keys:
                what = f"expected the key of a known runner in {place}, found {key_id}"
                hint = "get its public key from the machine (rye receipt key), and name it with --key"
                raise RyeError("untrusted_key", what, hint=hint)
            self._loaded[key_id] = _keys.load_public(self._keys[key_id].pem, place)
        envelope.require_signed(self._loaded[key_id], place)


@dataclass(slots=True)
class _Findings:
    receipts: int = 0
    signatures: int = 0
    first: int | None = None
    problems: list[Problem] = field(default_factory=list)
    more: int = 0

    def add(self, code: str, number: int | None, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(code, number, message))
        else:
            self.more += 1


class ChainCheck:
    """Looks at one receipt after the other.

    With `selected`, numbers may be left out, as in an export of some runs.
    """

    def __init__(self, signers: Signers, *, every_signature: bool = False, selected: bool = False) -> None:
        self._signers = signers
        self._every = every_signature
        self._selected = selected
        self._found = _Findings()
        self._last: ChainedReceipt | None = None
        self._is_vouched_for = True

    def take(self, receipt: ChainedReceipt) -> str | None:
        """Look at the next receipt; the digest of its run's row, None where it cannot be read."""
        number, found = receipt.number, self._found
        found.receipts += 1
        if found.first is None:
            found.first = number
        envelope = Envelope(receipt.payload, receipt.key_id, receipt.signature)
        try:
            place, run_id, row = read_receipt(receipt.payload, f"receipt {number}")
        except RyeError as exc:
            found.add(exc.code, number, exc.message)
            self._end_stretch()
            self._last, self._is_vouched_for = receipt, True
            return None
        is_whole = self._is_itself(receipt, envelope, place, run_id)
        is_next = self._follows(receipt, place)
        if self._last is not None and not (is_next and self._last.key_id == receipt.key_id):
            self._end_stretch()
        self._last, self._is_vouched_for = receipt, False
        if self._every or not is_whole:
            self._end_stretch()
        return row

    def finish(self) -> Checked:
        """Return the result."""
        self._end_stretch()
        found, last = self._found, self._last
        return Checked(
            found.receipts,
            found.signatures,
            found.first,
            None if last is None else last.mark,
            tuple(found.problems),
            found.more,
        )

    def _is_itself(self, receipt: ChainedReceipt, envelope: Envelope, place: Place, run_id: str) -> bool:
        """Whether a receipt is what its row says."""
        is_whole = envelope.digest == receipt.digest
        if not is_whole:
            self._found.add("receipts_broken", receipt.number, f"receipt {receipt.number} was changed")
        if (place.number, run_id) != (receipt.number, receipt.run_id):
            what = (
                f"receipt {receipt.number} is in the place of another one: it is number {place.number}, "
                f"of the run {run_id[:40]!a}"
            )
            self._found.add("receipts_broken", receipt.number, what)
            return False
        return is_whole

    def _follows(self, receipt: ChainedReceipt, place: Place) -> bool:
        """Whether a receipt continues the one before it; what is missing between them is a problem."""
        last, number = self._last, receipt.number
        self._look_at_break(place)
        if last is None:
            return True
        if number != last.number + 1:
            if number <= last.number:
                self._found.add(
                    "receipts_broken", number, f"receipt {number} comes after receipt {last.number}"
                )
            elif not self._selected:
                self._found.add("receipts_broken", number, missing(last.number + 1, number - 1))
            if self._selected:
                return False
        if place.previous == last.digest:
            return True
        what = f"receipt {number} follows another one than receipt {last.number}: one was changed or removed"
        self._found.add("receipts_broken", number, what)
        return False

    def _look_at_break(self, place: Place) -> None:
        """Report problems that the program itself noticed when it wrote a receipt."""
        if place.broken is not None:
            what = (
                f"when receipt {place.number} was written, the log did not hold receipt "
                f"{place.broken.get('number')} as it had been: it was cut, or restored from a backup"
            )
            self._found.add("receipts_broken", place.number, what)
        if place.unmarked:
            what = f"when receipt {place.number} was written, the mark of the last receipt was gone"
            self._found.add("receipts_broken", place.number, what)

    def _end_stretch(self) -> None:
        """Verify the signature that vouches for everything since the last break."""
        last = self._last
        if last is None or self._is_vouched_for:
            return
        self._is_vouched_for = True
        self._found.signatures += 1
        try:
            envelope = Envelope(last.payload, last.key_id, last.signature)
            self._signers.require_signed(envelope, f"receipt {last.number}")
        except RyeError as exc:
            self._found.add(exc.code, last.number, exc.message)


def missing(first: int, last: int) -> str:
    """That receipts are missing, in words."""
    return f"receipt {first} is missing" if first == last else f"receipts {first} to {last} are missing"
