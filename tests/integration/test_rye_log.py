"""`rye log` as a person and a script use it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.outputs import RunOutputs
from tests.people import SCRIPTS, Person


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


def logged(bob: Person, item_id: str = "demo/hello", **more: Any) -> str:
    record = RunRecord(run_id=new_run_id(), item_id=item_id, kind="exited", caller="person", **more)
    with RunLog(bob.state / "rye") as log:
        assert log.append(record) == ()
    return record.run_id


@pytest.mark.thorough
def test_without_a_run_it_says_so_and_makes_nothing(bob: Person, tmp_path: Path) -> None:
    assert bob.rye("log", cwd=tmp_path).out == "no run yet\n"
    assert bob.rye("log", "--status", "error", cwd=tmp_path).out == "no such run\n"
    assert bob.rye("log", "--json", cwd=tmp_path).json == {"status": "success", "runs": []}
    assert not (bob.state / "rye").exists()


@pytest.mark.thorough
def test_runs_are_listed_and_filtered(bob: Person, tmp_path: Path) -> None:
    first = logged(bob, project=str(tmp_path))
    second = logged(bob, "x/y", code="timeout")
    for words, found in [
        ((), [second, first]),
        (("--item", "demo/*"), [first]),
        (("--status", "error"), [second]),
        (("--status", "success"), [first]),
        (("--project", str(tmp_path)), [first]),
        (("--project", "."), [first]),
        (("--since", "1h"), [second, first]),
        (("--until", "1h"), []),
        (("--since", "2020-01-01", "--until", "2020-01-02T12:00"), []),
        (("--limit", "1"), [second]),
    ]:
        listed = bob.rye("log", *words, "--json", cwd=tmp_path).json
        assert [run["run_id"] for run in listed["runs"]] == found, words
        text = bob.rye("log", *words, cwd=tmp_path).out
        assert [run_id for run_id in (second, first) if run_id in text] == found, words


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "yesterday"),
        ("--until", "1y"),
        ("--limit", "0"),
        ("--json", "show", "x"),
        ("--since", "9" * 7 + "w"),
    ],
)
def test_wrong_use_ends_with_2(bob: Person, tmp_path: Path, words: tuple[str, ...]) -> None:
    bob.rye("log", *words, cwd=tmp_path, code=2)


def test_one_run_is_shown(bob: Person, tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "signer": "leo (0123456789abcdef)",
        "chain": (("demo/hello", "a" * 64),),
        "parameters": ("name", "count"),
        "user_ms": 1.0,
        "system_ms": 2.0,
        "max_rss_kb": 1234,
        "duration_ms": 12_345.6,
        "return_code": 0,
        "sealed": True,
    }
    run_id = logged(bob, client="inspector", **facts)
    outputs = RunOutputs(bob.state / "rye")
    (outputs.directory(run_id) / "stderr").write_text("error\n")
    outputs.finish(run_id)
    outputs.close()
    text = bob.rye("log", "show", run_id, cwd=tmp_path).out
    for words in (
        run_id,
        "leo (0123456789abcdef)",
        "a" * 64,
        "name, count",
        "1234 KiB",
        "12 s",
        "--stream stderr",
        "yes",
    ):
        assert words in text
    shown = bob.rye("log", "show", run_id, "--json", cwd=tmp_path).json
    assert shown["output"]["stderr"]["bytes"] == 6
    assert shown["client"] == "inspector"


@pytest.mark.thorough
def test_output_is_read_whole_in_pieces_and_by_pattern(bob: Person, tmp_path: Path) -> None:
    run_id = logged(bob)
    outputs = RunOutputs(bob.state / "rye")
    text = "".join(f"line {number} ü\n" for number in range(200_000))
    (outputs.directory(run_id) / "stdout").write_text(text)
    outputs.finish(run_id)
    outputs.close()
    show = ("log", "show", run_id, "--output")
    assert bob.rye(*show, cwd=tmp_path).out == text
    assert bob.rye(*show, "--offset", "-15", cwd=tmp_path).out == "line 199999 ü\n"
    assert bob.rye(*show, "--length", "7", cwd=tmp_path).out == "line 0 "
    assert bob.rye(*show, "--pattern", "^line 1?99999 ", cwd=tmp_path).out == "line 99999 ü\nline 199999 ü\n"
    bob.refused("output_not_found", *show, "--stream", "stderr", cwd=tmp_path)
    bob.refused("invalid_query", *show, "--pattern", "(", cwd=tmp_path)


def test_what_is_not_there_is_refused(bob: Person, tmp_path: Path) -> None:
    bob.refused("run_not_found", "log", "show", new_run_id(), cwd=tmp_path)
    bob.refused("output_not_found", "log", "show", new_run_id(), "--output", cwd=tmp_path)
    bob.refused("invalid_parameters", "log", "--status", "fine", cwd=tmp_path)


def test_a_damaged_log_is_a_warning(bob: Person, tmp_path: Path) -> None:
    logged(bob)
    (bob.state / "rye/runs.sqlite3").write_bytes(b"no database" * 1000)
    answer = bob.rye("log", cwd=tmp_path)
    assert answer.out == "no run yet\n"
    assert answer.err.startswith("rye: warning: run_log_damaged: ")


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["text", "json"])
def test_runs_of_other_processes_are_followed_until_it_is_interrupted(
    bob: Person, tmp_path: Path, form: str
) -> None:
    first = logged(bob)
    command = [str(SCRIPTS / "rye"), "log", "--follow", *(["--json"] if form == "json" else [])]
    with subprocess.Popen(
        command, cwd=tmp_path, env=bob.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if form == "text":
            assert process.stdout.readline().startswith("BEGUN")
        for run_id in (first, None, None):
            expected = run_id or logged(bob)
            line = process.stdout.readline()
            assert expected in line
            if form == "json":
                assert json.loads(line)["run_id"] == expected
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
        assert process.wait() == 130


BASH = "rye/core/runtimes/bash_runtime"


def tool(bob: Person, project: Path, name: str, script: str) -> None:
    """A signed Bash tool of a project."""
    if not (project / ".ai").exists():
        project.mkdir()
        bob.begin(project)
    path = project / f".ai/tools/demo/{name}.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n# /// rye\n# executor_id: {BASH}\n# ///\n{script}")
    bob.rye("sign", f"demo/{name}", cwd=project)


@pytest.mark.thorough
def test_a_run_that_was_killed_in_the_middle_has_a_row_that_says_so(bob: Person, tmp_path: Path) -> None:
    project, began = tmp_path / "project", tmp_path / "began"
    os.mkfifo(began)
    tool(bob, project, "wait", f"echo begun >{began}\nexec sleep 1000\n")
    command = [str(SCRIPTS / "rye"), "run", "demo/wait"]
    with subprocess.Popen(command, cwd=project, env=bob.environment, start_new_session=True) as process:
        assert began.read_text() == "begun\n"
        [row] = bob.rye("log", "--json", cwd=project).json["runs"]
        assert (row["item_id"], row["status"], row["exit"]["kind"]) == ("demo/wait", "running", "running")
        assert "running" in bob.rye("log", cwd=project).out
        process.kill()
    [row] = bob.rye("log", "--json", cwd=project).json["runs"]
    assert (row["status"], row["code"], row["exit"]["kind"]) == ("error", "lost", "lost")
    assert bob.rye("log", "--status", "lost", "--json", cwd=project).json["runs"] == [row]


def test_the_digest_is_that_of_everything_that_was_written(bob: Person, tmp_path: Path) -> None:
    """Three times as much as is kept for the answer: the middle passes nobody but the supervisor."""
    project = tmp_path / "project"
    tool(bob, project, "flood", "seq 1 500000\necho 'it broke' >&2\nexit 3\n")
    run_id = bob.rye("run", "demo/flood", "--json", cwd=project, code=1).json["run_id"]
    shown = bob.rye("log", "show", run_id, "--json", cwd=project).json
    written = "".join(f"{number}\n" for number in range(1, 500_001)).encode()
    assert len(written) > 3 << 20
    assert shown["sha256"] == {
        "stdout": hashlib.sha256(written).hexdigest(),
        "stderr": hashlib.sha256(b"it broke\n").hexdigest(),
        "result": hashlib.sha256(b"").hexdigest(),
    }
    assert shown["stderr_end"] == "it broke\n"
    assert "it broke" in bob.rye("log", "show", run_id, cwd=project).out


def test_a_refused_call_is_logged_without_what_it_was_given(bob: Person, tmp_path: Path) -> None:
    project = tmp_path / "project"
    tool(bob, project, "hello", "echo hello\n")
    path = project / ".ai/tools/demo/hello.sh"
    path.write_text(path.read_text() + "echo changed\n")
    bob.refused("content_changed", "run", "demo/hello", "--params", '{"name": "hunter2"}', cwd=project)
    bob.refused("item_not_found", "run", "demo/none", cwd=project)
    missing, changed = bob.rye("log", "--json", cwd=project).json["runs"]
    assert (missing["item_id"], missing["code"]) == ("demo/none", "item_not_found")
    assert (changed["item_id"], changed["code"]) == ("demo/hello", "content_changed")
    assert (changed["exit"]["kind"], changed["parameters"], changed["chain"]) == ("refused", [], [])
