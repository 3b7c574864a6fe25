"""Attack: a tool, a client or a project writes what a terminal obeys into the log or its output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.outputs import RunOutputs
from tests.people import Person

ESCAPES = "\x1b[2A\x1b[2K\x1b]0;owned\x07\r\x9b2K\u202e\u200b\x08\x7f"
OBEYED = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200b\u202e]")
FORGED = "\n2026-01-01 00:00:00  00000000000000000000000000  rye/core/forged"


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


def logged(bob: Person) -> str:
    """A run of which everything that is text is hostile."""
    state = bob.state / "rye"
    run_id = new_run_id()
    with RunLog(state) as log:
        log.append(
            RunRecord(
                run_id=run_id,
                item_id="demo/hello",
                project=f"/p{ESCAPES}{FORGED}",
                signer=f"leo{ESCAPES}{FORGED}",
                kind="exited",
                parameters=(f"name{ESCAPES}{FORGED}",),
                caller="agent",
                client=f"client{ESCAPES}{FORGED}",
            )
        )
    outputs = RunOutputs(state)
    (outputs.directory(run_id) / "stdout").write_text(f"line{ESCAPES}\n")
    outputs.finish(run_id)
    outputs.close()
    return run_id


@pytest.mark.parametrize("in_terminal", [False, True])
def test_the_log_shows_it_and_obeys_nothing(bob: Person, tmp_path: Path, in_terminal: bool) -> None:
    run_id = logged(bob)
    for words in (("log",), ("log", "show", run_id)):
        if in_terminal:
            shown = bob.types([], *words, cwd=tmp_path, NO_COLOR="1", TERM="dumb", COLUMNS="400").out
        else:
            shown = bob.rye(*words, cwd=tmp_path).shown
        assert not OBEYED.search(shown), ascii(shown)
        assert "\\x1b[2K" in shown
        assert not re.search(r"^\s*2026-01-01 00:00:00", shown, re.MULTILINE)


def test_output_is_shown_in_a_terminal_and_comes_as_it_is_in_a_pipe(bob: Person, tmp_path: Path) -> None:
    words = ("log", "show", logged(bob), "--output")
    in_terminal = bob.types([], *words, cwd=tmp_path).out
    assert not OBEYED.search(in_terminal), ascii(in_terminal)
    assert "line\\x1b[2A\\x1b[2K" in in_terminal
    assert bob.rye(*words, cwd=tmp_path).out == f"line{ESCAPES}\n"
    assert json.loads(bob.rye(*words, "--json", cwd=tmp_path).out)["content"] == f"line{ESCAPES}\n"
