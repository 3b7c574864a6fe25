"""Receipts of runs: shown, verified, exported, and the state of their chain for others to keep.

with ReceiptStore(state) as store:
    verify_everything(ReceiptSources(state, trust.store), store).problems
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.receipts.envelope import MAX_ENVELOPE_BYTES, Envelope
from rye_mcp.receipts.log_check import check_log, entry_for_rekor, mark_in, payload_of
from rye_mcp.receipts.runner import RunnerKeys, RunnerNotary
from rye_mcp.receipts.verification import ChainCheck, Checked, Problem, Signers, receipt_in
from rye_mcp.runs.chain import ChainedReceipt, Mark
from rye_mcp.runs.ids import first_id_at, parse_handle
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.spaces import Spaces
from rye_mcp.trust.trust_document import PublicKey
from rye_mcp.trust.trust_store import TrustStore

__all__ = [
    "AtHand",
    "ReceiptSources",
    "ShownReceipt",
    "checkpoint_of",
    "export_all",
    "export_day",
    "export_run",
    "items_at_hand",
    "read_key",
    "rekor_entry",
    "runner_key",
    "show_receipt",
    "verify_checkpoint",
    "verify_everything",
    "verify_file",
    "verify_run",
]

MAX_TREE: Final = 10_000
"""How many runs below one are exported with it."""

AtHand = Literal["as it was", "changed since", "not here"]
"""The state of an item compared with the one that ran."""

_ITEM: Final = "item:"
_MAX_KEY_BYTES: Final = 16 * 1024
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]+-----END PUBLIC KEY-----\n")


@dataclass(frozen=True, slots=True)
class ReceiptSources:
    """Where receipts and keys are: the state directory, what this user trusts, and keys that were named."""

    state: Path
    trust: TrustStore
    keys: tuple[PublicKey, ...] = ()

    def signers(self) -> Signers:
        """The keys that receipts may be signed with: of this machine, trusted ones, and named ones."""
        known = dict(self.trust.runner_keys()) | dict(RunnerKeys(self.state).known())
        return Signers(known | {key.key_id: key for key in self.keys}, self.trust.revocations())

    def notary(self) -> RunnerNotary:
        """The notary of this machine."""
        return RunnerNotary(self.state, revoked=self.trust.revocations)


@dataclass(frozen=True, slots=True)
class ShownReceipt:
    """A receipt, and what is wrong with it by itself; None where it is as it was signed."""

    receipt: ChainedReceipt
    problem: Problem | None

    @property
    def statement(self) -> Mapping[str, Any]:
        """The statement of the receipt."""
        statement: Mapping[str, Any] = msgspec.json.decode(self.receipt.payload)
        return statement

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "status": "success" if self.problem is None else "error",
            "run_id": self.receipt.run_id,
            "sha256": self.receipt.digest,
            "key_id": self.receipt.key_id,
            "problem": None if self.problem is None else self.problem.as_dict(),
            "statement": dict(self.statement),
        }


def read_key(path: Path) -> PublicKey:
    """The public key in a file: a PEM, or a document that holds one."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_KEY_BYTES)
    except OSError as exc:
        raise RyeError("read_failed", f"expected a key in {path}, found: {exc.strerror}", where=path) from exc
    found = _PEM.findall(data)
    if len(found) != 1:
        what = f"expected one public key as PEM in {path}, found {len(found)}"
        raise RyeError("unusable_key", what, where=path, hint="rye receipt key, on the machine that ran it")
    return PublicKey.from_pem(found[0], path)


def runner_key(sources: ReceiptSources) -> PublicKey:
    """The public key of this machine's runner, which is made if it is missing."""
    return sources.notary().public


def show_receipt(run_id: str, sources: ReceiptSources, store: ReceiptStore) -> ShownReceipt:
    """The receipt of one run, and whether it is as it was signed."""
    receipt = store.of(parse_handle(run_id)[0])
    problems = _alone(receipt, sources).problems
    return ShownReceipt(receipt, problems[0] if problems else None)


def items_at_hand(run_id: str, store: ReceiptStore, spaces: Spaces) -> dict[str, AtHand]:
    """For each item of a run's chain, whether the file that has its id here is the one that ran."""
    statement = msgspec.json.decode(store.of(parse_handle(run_id)[0]).payload)
    named = ((each["name"], each["digest"]["sha256"]) for each in statement["subject"])
    items = {name.removeprefix(_ITEM): digest for name, digest in named if name.startswith(_ITEM)}
    return {item_id: _at_hand(item_id, digest, spaces) for item_id, digest in items.items()}


def _at_hand(item_id: str, digest: str, spaces: Spaces) -> AtHand:
    try:
        content = spaces.find(item_id, ItemType.TOOL).item.content
    except RyeError:
        return "not here"
    return "as it was" if hashlib.sha256(content).hexdigest() == digest else "changed since"


def verify_run(run_id: str, sources: ReceiptSources, store: ReceiptStore) -> Checked:
    """Verify one receipt of the log by itself."""
    return _alone(store.of(parse_handle(run_id)[0]), sources)


def verify_everything(
    sources: ReceiptSources, store: ReceiptStore, *, every_signature: bool = False
) -> Checked:
    """Verify the whole log: that nothing is missing, and nothing was changed."""
    return check_log(store, sources.signers(), every_signature=every_signature)


def verify_file(file: IO[bytes], name: str, sources: ReceiptSources) -> Checked:
    """Verify receipts that were exported, a line each. Runs may be left out between them."""
    check = ChainCheck(sources.signers(), selected=True)
    for number, line in enumerate(_lines(file, name), 1):
        place = f"line {number} of {name}"
        check.take(receipt_in(Envelope.parse(line, place), place))
    found = check.finish()
    if not found.receipts:
        raise RyeError("malformed_receipt", f"expected a receipt in {name}, found an empty file", where=name)
    return found


def verify_checkpoint(path: Path, sources: ReceiptSources, store: ReceiptStore) -> Mark:
    """The receipt that a checkpoint is about; RyeError `receipts_broken` unless the log still has it."""
    place = str(path)
    try:
        line = path.read_bytes()
    except OSError as exc:
        what = f"expected a checkpoint in {place}, found: {exc.strerror}"
        raise RyeError("read_failed", what, where=path) from exc
    envelope = Envelope.parse(line.removesuffix(b"\n"), place)
    sources.signers().require_signed(envelope, place)
    mark = mark_in(envelope, place)
    found = store.page(before=mark.number + 1, limit=1)
    if not found or found[0].mark != mark:
        what = f"expected receipt {mark.number} with the SHA-256 {mark.digest} in the log, found "
        what += "another one" if found and found[0].number == mark.number else "that it is gone"
        raise RyeError("receipts_broken", what)
    return mark


def export_run(run_id: str, store: ReceiptStore) -> Iterator[bytes]:
    """The receipts of a run and of all that it asked for, in the order in which they were written."""
    root = parse_handle(run_id)[0]
    found = {root: store.of(root)}
    waiting = [root]
    while waiting and len(found) < MAX_TREE:
        for receipt in store.below(waiting.pop()):
            found[receipt.run_id] = receipt
            waiting.append(receipt.run_id)
    for receipt in sorted(found.values(), key=lambda each: each.number):
        yield _line_of(receipt)


def export_day(day: date, store: ReceiptStore) -> Iterator[bytes]:
    """The receipts of the runs that began on a day, in UTC; in the order in which they were written."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    first, behind = first_id_at(midnight), first_id_at(midnight + timedelta(days=1))
    return (_line_of(receipt) for receipt in store.all() if first <= receipt.run_id < behind)


def export_all(store: ReceiptStore) -> Iterator[bytes]:
    """All receipts, in the order in which they were written."""
    return map(_line_of, store.all())


def checkpoint_of(sources: ReceiptSources, store: ReceiptStore) -> Envelope:
    """The state of the chain now, signed; RyeError `receipt_not_found` where there is no receipt."""
    last = store.page(limit=1)
    if not last:
        raise RyeError("receipt_not_found", "expected a receipt in the log, found none", hint="rye run ID")
    return sources.notary().sign(payload_of(last[0].mark))


def rekor_entry(envelope: Envelope, sources: ReceiptSources) -> dict[str, Any]:
    """Return the request that gives a checkpoint to a transparency log."""
    return entry_for_rekor(envelope, runner_key(sources))


def _alone(receipt: ChainedReceipt, sources: ReceiptSources) -> Checked:
    check = ChainCheck(sources.signers(), every_signature=True)
    check.take(receipt)
    return check.finish()


def _lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    while line := file.readline(MAX_ENVELOPE_BYTES + 1):
        if len(line) > MAX_ENVELOPE_BYTES:
            what = f"expected lines of at most {MAX_ENVELOPE_BYTES} bytes in {name}, found a longer one"
            raise RyeError("too_large", what, where=name)
        yield line.removesuffix(b"\n")


def _line_of(receipt: ChainedReceipt) -> bytes:
    return Envelope(receipt.payload, receipt.key_id, receipt.signature).line + b"\n"
