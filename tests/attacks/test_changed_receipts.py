"""Attack: somebody who can write to the log, and has no key, hides or changes what has run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rye_mcp.receipts.envelope import Envelope
from rye_mcp.receipts.runner import RunnerKeys, RunnerNotary
from rye_mcp.receipts.verification import Signers
from rye_mcp.runs.chain import MARK_NAME
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import write_user_document
from tests.receipt_world import Ledger, run
from tests.trust_world import World, refused


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "state")
    made.write(*(run(client=f"client {number}") for number in range(1, 7)))
    assert made.problems() == []
    return made


_SWAP = (
    "UPDATE receipts SET number = -1 WHERE number = 3",
    "UPDATE receipts SET number = 3 WHERE number = 4",
    "UPDATE receipts SET number = 4 WHERE number = -1",
)
_CHANGE_PAYLOAD = (
    "UPDATE receipts SET payload = CAST(replace(CAST(payload AS TEXT), 'client 3', 'client 9') AS BLOB) "
    "WHERE number = 3"
)


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        ((_CHANGE_PAYLOAD,), "receipt 3 was changed"),
        (("UPDATE receipts SET signature = zeroblob(64) WHERE number = 3",), "receipt 3 was changed"),
        (("UPDATE receipts SET signature = zeroblob(64) WHERE number = 6",), "receipt 6 was changed"),
        (("DELETE FROM receipts WHERE number = 3",), "receipt 3 is missing"),
        (("DELETE FROM receipts WHERE number BETWEEN 2 AND 4",), "receipts 2 to 4 are missing"),
        (("DELETE FROM receipts WHERE number = 1",), "receipt 1 is missing"),
        (_SWAP, "receipt 3 is in the place of another one"),
        (("UPDATE receipts SET run_id = 'x' WHERE number = 3",), "receipt 3 is in the place of another one"),
        (("UPDATE receipts SET payload = x'7b7d' WHERE number = 3",), "expected a receipt in receipt 3"),
        (("UPDATE runs SET code = 'timeout' WHERE client = 'client 3'",), "what the log says of the run"),
        (("UPDATE runs SET client = NULL WHERE client = 'client 3'",), "what the log says of the run"),
        (("DELETE FROM runs WHERE client = 'client 3'",), "was removed from the log"),
        (("DELETE FROM runs WHERE client < 'client 3'",), "2 of the oldest runs were removed"),
        (("DELETE FROM receipts WHERE number > 4",), "receipts 5 to 6 are missing: the log was cut"),
        (("DELETE FROM receipts",), "receipts 1 to 6 are missing: the log was cut"),
    ],
)
def test_a_change_of_the_file_is_found(ledger: Ledger, statements: tuple[str, ...], found: str) -> None:
    ledger.edit(*statements)
    assert any(found in problem for problem in ledger.problems()), ledger.problems()


@pytest.mark.parametrize("rows", [True, False])
def test_an_end_that_was_cut_off_is_found_though_more_was_written_since(ledger: Ledger, rows: bool) -> None:
    """The next receipt says what is missing, and the chain shows it for ever."""
    ledger.edit("DELETE FROM receipts WHERE number > 4")
    if rows:
        ledger.edit("DELETE FROM runs WHERE client > 'client 4'")
    ledger.write(run(), run())
    problems = ledger.problems()
    assert "receipts 5 to 6 are missing" in problems
    assert any("the log did not hold receipt 6 as it had been" in problem for problem in problems)
    numbers = ledger.select("SELECT number FROM receipts ORDER BY number")
    assert numbers == [(1,), (2,), (3,), (4,), (7,), (8,)]


def test_a_backup_that_was_restored_is_found(ledger: Ledger, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(ledger.state, backup)
    ledger.write(run(), run())
    for name in ("runs.sqlite3", "runs.sqlite3-wal", "runs.sqlite3-shm"):
        (ledger.state / name).unlink(missing_ok=True)
        if (backup / name).exists():
            shutil.copy(backup / name, ledger.state / name)
    [problem] = ledger.problems()
    assert problem == "receipts 7 to 8 are missing: the log was cut, or restored from a backup"
    ledger.write(run())
    assert "receipts 7 to 8 are missing" in ledger.problems()


def test_a_log_that_was_removed_is_found(ledger: Ledger) -> None:
    for path in ledger.state.glob("runs.sqlite3*"):
        path.unlink()
    assert ledger.problems() == ["receipts 1 to 6 are missing: the log was cut, or restored from a backup"]
    ledger.write(run())
    assert ledger.problems()[0].startswith("when receipt 7 was written, the log did not hold receipt 6")


def test_a_receipt_that_the_owner_of_the_key_writes_again_is_found(ledger: Ledger) -> None:
    """It is good by itself. The receipt after it has the digest of the one that was there."""
    key = RunnerKeys(ledger.state).ready({})
    old = _envelope(ledger, 3)
    new = Envelope.sign(old.payload.replace(b"client 3", b"client 9"), old.key_id, key.private)
    ledger.edit(
        f"UPDATE receipts SET digest = '{new.digest}', payload = x'{new.payload.hex()}', "  # noqa: S608
        f"signature = x'{new.signature.hex()}' WHERE number = 3"
    )
    message = "receipt 4 follows another one than receipt 3: one was changed or removed"
    assert message in [each.message for each in ledger.verify(every_signature=True).problems]


def test_to_remove_the_mark_hides_nothing(ledger: Ledger) -> None:
    ledger.edit("DELETE FROM receipts WHERE number > 4", "DELETE FROM runs WHERE client > 'client 4'")
    (ledger.state / "receipts.mark").unlink()
    assert ledger.problems() == ["the mark of the last receipt is gone: nothing says where the log ends"]
    ledger.write(run())
    assert ledger.problems() == ["when receipt 5 was written, the mark of the last receipt was gone"]


@pytest.mark.parametrize("number", ["9" * 20, str(2**63 - 1).zfill(20), str(2**62 + 1).zfill(20)])
def test_a_mark_for_which_there_is_no_next_number_stops_no_run(ledger: Ledger, number: str) -> None:
    (ledger.state / MARK_NAME).write_text(f"{number} {'a' * 64}\n")
    ledger.write(run(client="after"))
    assert any("mark of the last receipt was gone" in each for each in ledger.problems())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET kind = 'running', process = 'gone' WHERE client = 'client 3'",
        "UPDATE runs SET kind = 'running', process = 'gone', chain = 'x' WHERE client = 'client 3'",
        "UPDATE runs SET kind = 'running', process = 'gone', run_id = 'x' WHERE client = 'client 3'",
    ],
)
def test_a_row_that_nobody_can_have_written_stops_no_run(ledger: Ledger, statement: str) -> None:
    ledger.edit(statement)
    ledger.write(run(client="after"))
    assert [found for found in ledger.problems() if "removed from the log" in found or "changed" in found]


def test_rows_before_the_first_receipt_are_counted_and_not_called_verified(ledger: Ledger) -> None:
    assert ledger.verify().without_receipt == 0
    columns = ", ".join(name for (_, name, *_) in ledger.select("PRAGMA table_info(runs)") if name != "seq")
    made = columns.replace("run_id", f"'{new_run_id()}'")
    chosen = f"SELECT -1, {made} FROM runs WHERE client = 'client 3'"  # noqa: S608 - a name of ours
    ledger.edit(f"INSERT INTO runs (seq, {columns}) {chosen}")
    found = ledger.verify()
    assert (found.problems, found.without_receipt) == ((), 1)


def test_runs_whose_receipts_are_gone_are_named(ledger: Ledger) -> None:
    ledger.edit("DELETE FROM receipts WHERE number > 4")
    (ledger.state / "receipts.mark").unlink()
    assert sum("has no receipt" in problem for problem in ledger.problems()) == 2


def test_what_another_key_signed_counts_for_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """A chain that is sound in itself, made by somebody else."""
    other = Ledger(tmp_path / "other")
    other.write(*(run() for _ in range(6)))
    for name in ("runs.sqlite3", "receipts.mark"):
        shutil.copy(other.state / name, ledger.state / name)
    assert [each.code for each in ledger.verify().problems] == ["untrusted_key"]


def test_receipts_of_another_key_at_the_end_are_found(ledger: Ledger, tmp_path: Path) -> None:
    forger = Ledger(tmp_path / "forger")
    shutil.copytree(ledger.state, forger.state)
    shutil.rmtree(forger.state / "keys")
    forger.write(run())
    for name in ("runs.sqlite3", "receipts.mark"):
        shutil.copy(forger.state / name, ledger.state / name)
    [problem] = ledger.verify().problems
    assert (problem.code, problem.number) == ("untrusted_key", 7)


def test_the_public_key_of_a_forger_is_known_only_under_its_own_name(ledger: Ledger, tmp_path: Path) -> None:
    """A file that is called like a known key and holds another one gives nobody a say."""
    forger = RunnerKeys(tmp_path / "forger").ready({})
    [known] = (ledger.state / "keys/runners").iterdir()
    known.write_bytes(forger.public.pem)
    assert [each.code for each in ledger.verify().problems] == ["untrusted_key"]


def test_a_receipt_of_a_revoked_runner_is_not_believed(ledger: Ledger) -> None:
    keys = RunnerKeys(ledger.state)
    old = keys.ready({}).public
    revoked = {old.key_id: "copied"}
    with RunLog(ledger.state, notary=RunnerNotary(ledger.state, revoked=lambda: revoked)) as log:
        assert log.attest(run()).notices == ()
    new = keys.ready({}).public
    assert new.key_id != old.key_id
    assert set(keys.known()) == {old.key_id, new.key_id}
    assert ledger.problems() == []
    error = refused(
        "revoked_key", lambda: Signers(keys.known(), revoked).require_signed(_envelope(ledger, 6), "it")
    )
    assert "copied" not in error.message
    Signers(keys.known(), revoked).require_signed(_envelope(ledger, 7), "it")


def test_a_runner_whose_key_was_lost_gets_another_one(ledger: Ledger) -> None:
    shutil.rmtree(ledger.state / "keys/runner")
    ledger.write(run())
    assert ledger.problems() == []
    assert len({key for (key,) in ledger.select("SELECT key_id FROM receipts")}) == 2


# --- the key is good for nothing else ------------------------------------------


def _runner_as_signer(world: World) -> tuple[SigningKey, TrustDocument]:
    key = RunnerKeys(world.state).ready({})
    pem = (world.state / "keys/runner/private_key.pem").read_bytes()
    document = TrustDocument.create(key.public, "runner", kind=SignerKind.RUNNER)
    return SigningKey(SignerKind.PERSON, key.public, pem), document


@pytest.mark.parametrize("is_trusted", [False, True])
def test_the_gate_takes_no_item_from_a_runner(world: World, is_trusted: bool) -> None:
    world.key()
    signer, document = _runner_as_signer(world)
    if is_trusted:
        write_user_document(world.user_space, document)
    file = world.stored(world.signed(key=signer))
    refused("out_of_scope" if is_trusted else "untrusted_key", lambda: world.verify(file))
    if is_trusted:
        refused("out_of_scope", lambda: sign_item(file, signer, world.trust(), role=Role.TOOL))


def test_a_receipt_that_a_person_signed_does_not_count(world: World, tmp_path: Path) -> None:
    """The key of a person is trusted for items, and for no receipt."""
    world.key()
    ledger = Ledger(tmp_path / "state")
    shutil.copytree(world.user_space / "keys/person", ledger.state / "keys/runner")
    for path in (ledger.state, ledger.state / "keys"):
        path.chmod(0o700)
    ledger.write(run())
    store = world.trust().store
    assert store.documents().documents
    signers = Signers(store.runner_keys())
    refused("untrusted_key", lambda: signers.require_signed(_envelope(ledger, 1), "it"))


def _envelope(ledger: Ledger, number: int) -> Envelope:
    [(payload, key_id, signature)] = ledger.select(
        f"SELECT payload, key_id, signature FROM receipts WHERE number = {number:d}"  # noqa: S608
    )
    return Envelope(payload, key_id, signature)
