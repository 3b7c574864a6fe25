"""Receipts: every run that is over has one, in one chain, and what it says is what is known of the run."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.receipts.envelope import Envelope, pre_authentication
from rye_mcp.receipts.runner import RunnerKeys
from rye_mcp.receipts.statement import Element, RunFacts
from rye_mcp.receipts.verification import receipt_in
from rye_mcp.runs.chain import ChainedReceipt, Mark, MarkFile, next_link
from rye_mcp.runs.hosts import this_process
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.verbs.receipts import export_run
from tests.receipt_world import Ledger, run

ROOT = Path(__file__).resolve().parents[4]
FACTS = RunFacts(
    elements=(Element("demo/hello", "a" * 64, "b" * 64, "person", "c" * 64, "1.0.0"),),
    files={"lib/x.py": "d" * 64},
    lock={"state": "match", "sha256": "e" * 64},
    parameters=b'{"pin":"a pin: 7291"}',
    variables=("HOME", "PATH"),
    agreed="f" * 64,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state")


def receipts(ledger: Ledger) -> list[ChainedReceipt]:
    with ReceiptStore(ledger.state) as store:
        return list(store.all())


def says(receipt: ChainedReceipt) -> Any:
    return json.loads(receipt.payload)


# --- what a receipt says ----------------------------------------------------------


def test_a_receipt_says_what_is_known_and_how(ledger: Ledger) -> None:
    record = run(
        parameters=("pin",),
        client="inspector",
        digests=(("stdout", "1" * 64),),
        enforced={"level": "cell", "net": "none"},
        return_code=0,
        runtime="warm",
        sealed=True,
    )
    [digest] = ledger.write(record, facts=FACTS)
    [receipt] = receipts(ledger)
    assert (receipt.number, receipt.run_id, receipt.digest) == (1, record.run_id, digest)
    statement = says(receipt)
    assert {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} == {
        f"run:{record.run_id}": hashlib.sha256(record.run_id.encode()).hexdigest(),
        "item:demo/hello": "a" * 64,
        "file:lib/x.py": "d" * 64,
        "output:stdout": "1" * 64,
    }
    verified, observed, reported = (
        statement["predicate"][part] for part in ("verified", "observed", "reported")
    )
    assert verified["receipt"] == {"number": 1, "previous": None}
    assert verified["chain"] == [
        {"item_id": "demo/hello", "signed_sha256": "b" * 64, "signer": "person", "key_id": "c" * 64}
    ]
    assert verified["lock"] == {"state": "match", "sha256": "e" * 64}
    assert (verified["variables"], verified["agreed"]) == (["HOME", "PATH"], "f" * 64)
    assert observed["runtime"] == "warm"
    assert observed["enforced"] == {"level": "cell", "net": "none"}
    assert observed["exit"] == {"kind": "exited", "return_code": 0, "signal": None}
    assert (reported["client"], reported["versions"]) == ("inspector", {"demo/hello": "1.0.0"})


KNOWN_HOW = {
    "verified": "agreed chain code lock parameters parent receipt row_sha256 run_id sealed variables",
    "observed": "begun ended enforced exit node runtime usage",
    "reported": "caller client item_id server versions",
}


def test_nothing_that_somebody_said_counts_as_verified_or_observed(ledger: Ledger) -> None:
    """Each field stands in the one part that says how its value is known."""
    ledger.write(run(client="inspector"), facts=FACTS)
    [receipt] = receipts(ledger)
    predicate = says(receipt)["predicate"]
    assert {part: " ".join(sorted(fields)) for part, fields in predicate.items()} == KNOWN_HOW


def test_nobody_can_guess_values_of_parameters(ledger: Ledger) -> None:
    """The digest is keyed, and another one in every run."""
    ledger.write(run(), run(), facts=FACTS)
    first, second = (
        says(each)["predicate"]["verified"]["parameters"]["hmac_sha256"] for each in receipts(ledger)
    )
    assert first != second
    assert hashlib.sha256(FACTS.parameters or b"").hexdigest() not in (first, second)
    assert not any(b"a pin: 7291" in each.payload for each in receipts(ledger))
    assert "a pin: 7291" not in repr(FACTS)


def test_many_files_are_one_digest(ledger: Ledger) -> None:
    files = {f"f{number}": "a" * 64 for number in range(1000)}
    ledger.write(run(), facts=replace(FACTS, files=files))
    [receipt] = receipts(ledger)
    assert len(receipt.payload) < 4000
    assert "files:1000" in [each["name"] for each in says(receipt)["subject"]]


# --- envelopes --------------------------------------------------------------------


def test_an_envelope_has_one_form(ledger: Ledger) -> None:
    ledger.write(run())
    [receipt] = receipts(ledger)
    envelope = Envelope(receipt.payload, receipt.key_id, receipt.signature)
    assert Envelope.parse(envelope.line, "it") == envelope
    assert hashlib.sha256(envelope.line).hexdigest() == receipt.digest
    good = json.loads(envelope.line)
    for line in (
        b"",
        b"{}",
        envelope.line + b" ",
        envelope.line.replace(b'","', b'", "', 1),
        json.dumps(good | {"more": 1}).encode(),
        json.dumps(good | {"signatures": good["signatures"] * 2}).encode(),
        json.dumps(good | {"payloadType": "text/plain"}).encode(),
        envelope.line.replace(good["signatures"][0]["sig"].encode(), b"AAAA"),
    ):
        with pytest.raises(RyeError) as refused:
            Envelope.parse(line, "it")
        assert refused.value.code == "malformed_receipt"


def test_what_is_signed_is_what_dsse_says() -> None:
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


# --- which runs have one ------------------------------------------------------------


def test_a_run_that_was_lost_gets_its_receipt_from_the_next_process(ledger: Ledger) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    gone = this_process().split()
    lost = run(kind="running", process=f"{process.pid} 1 {gone[2]} {gone[3]}")
    going_on = run(kind="running", process=this_process())
    with RunLog(ledger.state) as log:
        log.append(lost)
        log.append(going_on)
    ledger.write(done := run())
    assert [each.run_id for each in receipts(ledger)] == [done.run_id, lost.run_id]
    assert says(receipts(ledger)[1])["predicate"]["verified"]["code"] == "lost"
    with RunLog(ledger.state) as log:
        assert log.get(lost.run_id).code == "lost"
    assert ledger.problems() == []


def test_a_run_is_never_attested_twice(ledger: Ledger) -> None:
    record = run()
    ledger.write(record)
    with ledger.log() as log:
        attested = log.attest(record)
    assert [notice.code for notice in attested.notices] == ["run_not_logged"]
    assert ledger.problems() == []


def test_a_run_counts_though_nobody_can_sign(ledger: Ledger) -> None:
    (ledger.state / "keys").mkdir(parents=True)
    ledger.state.chmod(0o700)
    (ledger.state / "keys/runner").write_text("no directory")
    with ledger.log() as log:
        attested = log.attest(record := run())
        assert log.get(record.run_id) == record
    assert attested.receipt is None
    assert [notice.code for notice in attested.notices] == ["receipt_not_written"]


# --- one chain ------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.receipt_world import Ledger, run
ledger = Ledger(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with ledger.log() as log:
    for _ in range(100):
        assert log.attest(run()).notices == ()
"""


def test_several_processes_write_one_chain(ledger: Ledger) -> None:
    command = [sys.executable, "-c", _WRITER, str(ledger.state), str(ROOT)]
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # all of them go before the first one is waited for
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    found = ledger.verify()
    assert (found.receipts, found.problems, found.signatures) == (300, (), 1)
    assert ledger.verify(every_signature=True).signatures == 300
    assert found.last == MarkFile(ledger.state).read()


class MarkThatComesLater(MarkFile):
    """The mark as another process sees it that is quicker than the one that makes it, and then writes it."""

    looked = 0

    def read(self) -> Mark | None:
        self.looked += 1
        if self.looked == 2:
            self.path.touch()
        elif self.looked == 3:
            self.path.with_name("made").replace(self.path)
        return super().read()


def test_a_mark_that_another_process_is_about_to_make_is_not_gone(ledger: Ledger) -> None:
    ledger.write(run())
    mark = MarkThatComesLater(ledger.state)
    mark.path.rename(mark.path.with_name("made"))
    with closing(sqlite3.connect(ledger.state / "runs.sqlite3")) as connection:
        link = next_link(connection, mark)
    assert (link.number, link.unmarked) == (2, False)


class MarkThatIsLookedAtOnce(MarkFile):
    """A mark that another look would find as it is."""

    looked = 0

    def read(self) -> Mark | None:
        self.looked += 1
        assert self.looked == 1
        return super().read()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda mark: mark.chmod(0o644),
        lambda mark: mark.write_text("no mark\n"),
        lambda mark: (mark.unlink(), mark.symlink_to("elsewhere")),
    ],
    ids=["others may read it", "it is no mark", "it is a link"],
)
def test_nobody_waits_for_a_mark_that_is_unusable(ledger: Ledger, spoil: Callable[[Path], Any]) -> None:
    ledger.write(run())
    spoil(MarkFile(ledger.state).path)
    with closing(sqlite3.connect(ledger.state / "runs.sqlite3")) as connection:
        link = next_link(connection, MarkThatIsLookedAtOnce(ledger.state))
    assert (link.number, link.unmarked) == (2, True)


@pytest.mark.parametrize("limit", [8_000, 60_000])
def test_a_full_disk_breaks_no_chain(ledger: Ledger, limit: int) -> None:
    """Whatever was written before the disk was full verifies, and so does what comes after it."""
    script = (
        "import resource, sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from tests.receipt_world import Ledger, run\n"
        "ledger = Ledger(Path(sys.argv[1])); ledger.write(run())\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with ledger.log() as log:\n"
        "    codes = [each.code for _ in range(100) for each in log.attest(run()).notices]\n"
        "assert set(codes) == {'run_not_logged'}, codes\n"
    )
    subprocess.run([sys.executable, "-c", script, str(ledger.state), str(ROOT), str(limit)], check=True)
    assert ledger.problems() == []
    ledger.write(run())
    assert ledger.problems() == []


def test_receipts_and_rows_are_forgotten_by_age_alone(ledger: Ledger) -> None:
    kept: dict[str, Any] = {"kept_rows": 5, "kept_refusals": 2, "kept_receipts": 8}
    with ledger.log(**kept) as log:
        for number in range(20):
            log.attest(run(kind="refused" if number % 4 == 0 else "exited"))
        log._database.tidy()
    found = ledger.verify(**kept)
    assert (found.first, found.receipts, found.problems) == (13, 8, ())
    assert ledger.problems()[0] == "receipts 1 to 12 are missing"


def test_the_mark_is_never_lowered(tmp_path: Path) -> None:
    mark = MarkFile(tmp_path)
    assert mark.read() is None
    mark.raise_to(Mark(7, "a" * 64))
    mark.raise_to(Mark(6, "b" * 64))
    assert mark.read() == Mark(7, "a" * 64)
    mark.raise_to(Mark(8, "c" * 64))
    assert mark.read() == Mark(8, "c" * 64)
    mark.path.chmod(0o644)
    assert mark.read() is None


def test_pages_go_back_from_the_newest(ledger: Ledger) -> None:
    ledger.write(*(run() for _ in range(7)))
    with ReceiptStore(ledger.state) as store:
        assert [each.number for each in store.page(limit=3)] == [7, 6, 5]
        assert [each.number for each in store.page(before=5, limit=3)] == [4, 3, 2]
        assert [each.number for each in store.page(before=2)] == [1]
        assert store.page(before=1) == ()


# --- keys ---------------------------------------------------------------------------------


def test_the_pair_is_this_users_alone(ledger: Ledger) -> None:
    ledger.write(run())
    private = ledger.state / "keys/runner/private_key.pem"
    assert private.stat().st_mode & 0o777 == 0o600
    assert private.parent.stat().st_mode & 0o777 == 0o700
    private.chmod(0o644)
    with ledger.log() as log:
        [notice] = log.attest(run()).notices
    assert notice.code == "receipt_not_written"


def test_many_processes_make_one_key(ledger: Ledger) -> None:
    made = [RunnerKeys(ledger.state).ready({}).public.key_id for _ in range(3)]
    assert len(set(made)) == 1
    assert set(RunnerKeys(ledger.state).known()) == set(made)


# --- others verify them -----------------------------------------------------------------------


def exported(ledger: Ledger) -> bytes:
    lines = (Envelope(each.payload, each.key_id, each.signature).line for each in receipts(ledger))
    return b"".join(line + b"\n" for line in lines)


def independent(ledger: Ledger, data: bytes) -> subprocess.CompletedProcess[bytes]:
    key = ledger.state / "keys/runner/public_key.pem"
    script = ROOT / "tests/receipt_verifier.py"
    return subprocess.run([sys.executable, script, key], input=data, capture_output=True, check=False)


def test_a_program_that_knows_nothing_of_rye_mcp_verifies_them(ledger: Ledger) -> None:
    assert len((ROOT / "tests/receipt_verifier.py").read_text().splitlines()) <= 40
    ledger.write(run(), run(), facts=FACTS)
    good = independent(ledger, exported(ledger))
    assert (good.returncode, good.stdout.count(b"item:demo/hello")) == (0, 2), good.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0].replace(b'"sig":"', b'"sig":"AA'), *lines[1:]],
        lambda lines: [_with_payload(lines[0], b"agent", b"human"), *lines[1:]],
    ],
)
def test_it_takes_no_changed_one(ledger: Ledger, change: Callable[[list[bytes]], list[bytes]]) -> None:
    ledger.write(run(), run(), run())
    lines = exported(ledger).splitlines()
    assert independent(ledger, b"\n".join(lines)).returncode == 0
    assert independent(ledger, b"\n".join(change(lines))).returncode != 0


def _with_payload(line: bytes, old: bytes, new: bytes) -> bytes:
    envelope = json.loads(line)
    payload = base64.b64decode(envelope["payload"]).replace(old, new)
    return json.dumps(envelope | {"payload": base64.b64encode(payload).decode()}).encode()


def test_the_reader_of_in_toto_verifies_them(ledger: Ledger) -> None:
    """securesystemslib, on which in-toto and TUF stand."""
    dsse = pytest.importorskip("securesystemslib.dsse")
    signer = pytest.importorskip("securesystemslib.signer")
    ledger.write(run(), facts=FACTS)
    [line] = exported(ledger).splitlines()
    envelope = dsse.Envelope.from_dict(json.loads(line))
    known = RunnerKeys(ledger.state).ready({})
    public = {"public": known.private.public_key().public_bytes_raw().hex()}
    key = signer.SSlibKey(known.public.key_id, "ed25519", "ed25519", public)
    assert set(envelope.verify([key], 1)) == {key.keyid}
    envelope.payload += b" "
    with pytest.raises(Exception, match=r"threshold|[Ss]ignature"):
        envelope.verify([key], 1)


def test_the_statements_are_those_of_in_toto(ledger: Ledger) -> None:
    """The library of in-toto itself reads them, also where nothing ran."""
    form = pytest.importorskip("in_toto_attestation.v1.statement")
    proto = pytest.importorskip("google.protobuf.json_format")
    ledger.write(run(), facts=FACTS)
    ledger.write(run(kind="refused", code="unsigned"))
    for line in exported(ledger).splitlines():
        payload = base64.b64decode(json.loads(line)["payload"])
        found = form.Statement.copy_from_pb(proto.Parse(payload, form.spb.Statement()))
        found.validate()
        assert found.pb.predicate_type == "urn:rye-mcp:run-receipt:v1"
        assert json.loads(payload)["predicate"] == proto.MessageToDict(found.pb.predicate)


def test_a_run_is_exported_with_all_that_it_asked_for(ledger: Ledger) -> None:
    """Inner calls are over before the run that asked for them, and stand before it."""
    root, other = run(), run()
    child = run(parent=root.run_id)
    grandchild = run(parent=child.run_id)
    ledger.write(grandchild, other, child, run(parent=root.run_id, kind="refused", code="unsigned"), root)
    with ReceiptStore(ledger.state) as store:
        lines = list(export_run(root.run_id, store))
        alone = list(export_run(other.run_id, store))
    found = [says(receipt_in(Envelope.parse(line[:-1], "it"), "it")) for line in lines]
    verified = [each["predicate"]["verified"] for each in found]
    assert [each["receipt"]["number"] for each in verified] == [1, 3, 4, 5]
    assert [each["parent"] for each in verified] == [child.run_id, root.run_id, root.run_id, None]
    assert len(alone) == 1
