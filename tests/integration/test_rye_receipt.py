"""`rye receipt` as a person and an auditor use it, and receipts of every kind of run."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.people import Person

ROOT = Path(__file__).resolve().parents[2]
TOOL = """#!/usr/bin/env bash
# /// rye
# version: 1.0.0
# description: Ends as it is told to.
# executor_id: rye/core/runtimes/bash_runtime
# ///
exit "${1:-0}"
"""


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


@pytest.fixture
def project(bob: Person, tmp_path: Path) -> Path:
    made = bob.begin(tmp_path / "project")
    path = made / ".ai/tools/demo/end.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOOL)
    bob.sign("demo/end", made)
    return made


def log_of(bob: Person, project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bob.rye("log", "--json", cwd=project).json["runs"]
    return found


def test_a_run_and_a_refusal_have_receipts_that_verify(bob: Person, project: Path, tmp_path: Path) -> None:
    ran = bob.rye("run", "demo/end", "--json", cwd=project).json
    bob.refused("item_not_found", "run", "demo/none", cwd=project)
    shown = bob.rye("receipt", "show", ran["run_id"], "--json", cwd=project).json
    assert shown["sha256"] == ran["receipt"]
    verified = shown["statement"]["predicate"]["verified"]
    assert verified["chain"][0]["item_id"] == "demo/end"
    assert verified["parameters"]["hmac_sha256"] is not None
    assert "PATH" in verified["variables"]
    text = bob.rye("receipt", "show", ran["run_id"], cwd=project).out
    assert "signature   good" in text
    assert "item:demo/end" in text

    whole = bob.rye("receipt", "verify", "--all", "--json", cwd=project).json
    assert (whole["status"], whole["receipts"], whole["problems"]) == ("success", 2, [])
    assert "1 receipt verified" in bob.rye("receipt", "verify", ran["run_id"], cwd=project).out

    verified = bob.rye("receipt", "verify", ran["run_id"], "--json", cwd=project).json
    assert set(verified["items"].values()) == {"as it was"}
    path = project / ".ai/tools/demo/end.sh"
    path.write_text(path.read_text() + "# more\n")
    changed = bob.rye("receipt", "verify", ran["run_id"], cwd=project).out
    assert "demo/end has changed since" in changed
    assert "rye/core/runtimes/bash_runtime is as it was" in changed
    elsewhere = bob.rye("receipt", "verify", ran["run_id"], "--json", cwd=tmp_path).json
    assert elsewhere["items"]["demo/end"] == "not here"

    refused = next(each for each in log_of(bob, project) if each["code"] == "item_not_found")
    shown = bob.rye("receipt", "show", refused["run_id"], "--json", cwd=project).json
    assert shown["statement"]["predicate"]["verified"]["code"] == "item_not_found"


def test_what_is_exported_verifies_elsewhere(bob: Person, project: Path, tmp_path: Path) -> None:
    ids = [bob.rye("run", "demo/end", "--json", cwd=project).json["run_id"] for _ in range(3)]
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    everything = bob.rye("receipt", "export", "--all", cwd=project).out
    assert bob.rye("receipt", "export", "--day", day, cwd=project).out in (everything, "")
    assert bob.rye("receipt", "export", "--day", "2020-01-01", cwd=project).out == ""
    one = bob.rye("receipt", "export", ids[1], cwd=project).out
    assert one == everything.splitlines(keepends=True)[1]
    (tmp_path / "all.ndjson").write_text(everything)
    (tmp_path / "runner.toml").write_text(bob.rye("receipt", "key", cwd=project).out)

    eve = Person("eve", tmp_path / "eve")
    for words, problem in [
        (("all.ndjson",), "untrusted_key"),
        (("all.ndjson", "--key", "runner.toml"), None),
    ]:
        answer = eve.rye("receipt", "verify", *words, "--json", cwd=tmp_path, code=None).json
        assert [each["code"] for each in answer["problems"]] == ([] if problem is None else [problem])
    lines = everything.splitlines(keepends=True)
    (tmp_path / "some.ndjson").write_text(lines[0] + lines[2])
    assert eve.rye("receipt", "verify", "some.ndjson", "--key", "runner.toml", cwd=tmp_path).code == 0
    (tmp_path / "swapped.ndjson").write_text(lines[1] + lines[0])
    eve.rye("receipt", "verify", "swapped.ndjson", "--key", "runner.toml", cwd=tmp_path, code=1)

    key = bob.state / "rye/keys/runner/public_key.pem"
    script = [sys.executable, str(ROOT / "tests/receipt_verifier.py"), str(key)]
    done = subprocess.run(script, input=everything.encode(), capture_output=True, check=True)
    assert [line.split()[1] for line in done.stdout.decode().splitlines()] == ids


COSIGN = shutil.which("cosign")
OPTIONS = ("--insecure-ignore-tlog", "--offline", "--type", "urn:rye-mcp:run-receipt:v1")


@pytest.mark.skipif(
    COSIGN is None,
    reason="cosign is not there: go install github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5",
)
def test_cosign_verifies_what_is_exported(bob: Person, project: Path, tmp_path: Path) -> None:
    """A receipt is good for the file that ran, and neither for another file nor once it was changed."""
    run_id = bob.rye("run", "demo/end", "--json", cwd=project).json["run_id"]
    key, good, bad = tmp_path / "runner.pem", tmp_path / "run.ndjson", tmp_path / "bad.ndjson"
    document = tomllib.loads(bob.rye("receipt", "key", cwd=project).out)
    key.write_text(document["public_key"]["pem"])
    good.write_text(bob.rye("receipt", "export", run_id, cwd=project).out)
    envelope = json.loads(good.read_text())
    payload = base64.b64decode(envelope["payload"]).replace(b'"person"', b'"agent"')
    bad.write_text(json.dumps(envelope | {"payload": base64.b64encode(payload).decode()}))
    tool = project / ".ai/tools/demo/end.sh"

    def verified(receipt: Path, file: Path) -> tuple[bool, str]:
        command = (str(COSIGN), "verify-blob-attestation", "--key", key, "--signature", receipt)
        nowhere = {"HOME": str(tmp_path), "TUF_MIRROR": "http://127.0.0.1:9"}  # it asks no server
        done = subprocess.run(
            (*command, *OPTIONS, file), env=nowhere, capture_output=True, text=True, check=False
        )
        return done.returncode == 0, done.stderr

    assert verified(good, tool)[0], verified(good, tool)[1]
    assert "no matching subject digest" in verified(good, key)[1]
    assert "accepted signatures do not match threshold" in verified(bad, tool)[1]


def test_a_checkpoint_shows_that_receipts_are_gone(bob: Person, project: Path, tmp_path: Path) -> None:
    assert "receipt_not_found" in bob.rye("receipt", "checkpoint", cwd=project, code=1).err
    bob.rye("run", "demo/end", cwd=project)
    bob.rye("run", "demo/end", cwd=project)
    kept = tmp_path / "kept.json"
    kept.write_text(bob.rye("receipt", "checkpoint", cwd=project).out)
    bob.rye("run", "demo/end", cwd=project)
    bob.rye("receipt", "verify", "--checkpoint", str(kept), cwd=project)
    for path in (bob.state / "rye").glob("r*"):
        if path.is_file():
            path.unlink()
    bob.rye("run", "demo/end", cwd=project)
    assert bob.rye("receipt", "verify", "--all", cwd=project).out.startswith("1 receipt verified")
    bob.refused("receipts_broken", "receipt", "verify", "--checkpoint", str(kept), cwd=project)

    entry = bob.rye("receipt", "checkpoint", "--rekor", cwd=project).json
    assert (entry["kind"], entry["apiVersion"]) == ("dsse", "0.0.1")
    envelope = json.loads(entry["spec"]["proposedContent"]["envelope"])
    assert envelope["payloadType"] == "application/vnd.in-toto+json"


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("verify", "x", "--all"),
        ("export",),
        ("export", "--day", "monday"),
        ("export", "x", "--all"),
    ],
)
def test_wrong_use_is_said(bob: Person, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "expected" in bob.rye("receipt", *words, cwd=tmp_path, code=2).err


def test_what_is_no_receipt_is_refused(bob: Person, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "other").write_text("{}\n")
    for name in ("empty", "other"):
        bob.refused("malformed_receipt", "receipt", "verify", name, cwd=tmp_path)
    bob.refused("invalid_run_id", "receipt", "show", "../../etc", cwd=tmp_path)
    bob.refused("receipt_not_found", "receipt", "show", "0" * 26, cwd=tmp_path)
