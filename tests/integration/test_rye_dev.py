"""`rye dev`, in a terminal of its own: a draft is looked at, run and signed, and nobody else gets so far."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.trust.drafts import DRAFT_OWNER
from tests.people import SCRIPTS, Person

TOOL = '''"""Add two numbers."""

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_runtime"
CONFIG_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
EXAMPLES = [{"parameters": {"a": 40}}]


def main(a):
    return {"sum": a + 2}
'''


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    leo = Person("leo", tmp_path / "leo")
    project = leo.place / "project"
    project.mkdir(parents=True)
    leo.begin(project)
    return leo


@pytest.fixture
def tool(leo: Person) -> Path:
    path = leo.place / "project/.ai/tools/demo/add.py"
    path.parent.mkdir(parents=True)
    path.write_text(TOOL)
    return path


def saved(path: Path, text: str) -> Callable[[], str]:
    """What saves a text, and types nothing."""

    def save() -> str:
        path.write_text(text)
        return ""

    return save


def test_a_draft_is_run_mended_and_signed(leo: Person, tool: Path) -> None:
    project = leo.place / "project"
    shown = leo.types(
        [
            ("r: run the draft", "r"),
            ("── done in", saved(tool, TOOL.replace("a + 2", "(a + 2"))),
            (
                "line 10, column 26: expected Python",
                saved(tool, TOOL.replace("__version__ = ", "__version__ = 1#")),
            ),
            (
                "line 3, column 15: version: expected a version",
                saved(tool, TOOL.replace("return", 'raise SystemExit("no sum today")\n    return')),
            ),
            ("would run", "r"),
            ("── failed in", saved(tool, TOOL.replace("a + 2", "a + 3"))),
            ("would run", "r"),
            ("── done in", "s"),
            ("demo/add: signed ──", "r"),
            ("── done in", "q"),
        ],
        "dev",
        "demo/add",
        cwd=project,
    ).out
    assert "demo/add: a DRAFT, unsigned: it runs here and nowhere else" in shown
    assert 'with       {"a": 40}' in shown
    assert "would run  " in shown
    assert '"sum": 42' in shown
    assert "no sum today" in shown
    assert "they stand one line higher in your file" in shown
    assert shown.count('"sum": 43') == 2
    leo.rye("verify", "demo/add", cwd=project)
    assert '"sum": 43' in leo.rye("run", "demo/add", "--a", "40", cwd=project).out


@pytest.mark.thorough
def test_parameters_are_those_that_stand_behind_the_id(leo: Person, tool: Path) -> None:
    shown = leo.types(
        [("r: run the draft", "r"), ("── done in", "q")],
        *("dev", "demo/add", "--a", "1"),
        cwd=leo.place / "project",
    ).out
    assert '"sum": 3' in shown
    wrong = leo.types([("q: quit", "q")], "dev", "demo/add", "--a", "x", cwd=leo.place / "project").out
    assert "expected integer for --a, found 'x'" in wrong


@pytest.mark.thorough
def test_a_misspelt_field_of_a_draft_is_shown_and_the_draft_runs(leo: Person, tool: Path) -> None:
    tool.write_text(TOOL.replace("EXAMPLES = ", "EXAMPELS = "))
    shown = leo.types(
        [("r: run the draft", "r"), ("── done in", "q")],
        *("dev", "demo/add", "--a", "1"),
        cwd=leo.place / "project",
    ).out
    assert "unknown_field: line 6: EXAMPELS: expected a known field" in shown
    assert '"sum": 3' in shown


@pytest.mark.thorough
def test_what_has_run_as_a_draft_runs_nowhere_else_and_is_told_apart(leo: Person, tool: Path) -> None:
    project = leo.place / "project"
    before = sorted(project.rglob("*")), sorted(leo.user_space.rglob("*"))
    leo.types([("r: run the draft", "r"), ("── done in", "q")], "dev", "demo/add", cwd=project)
    assert (sorted(project.rglob("*")), sorted(leo.user_space.rglob("*"))) == before
    assert tool.read_text() == TOOL
    refused = leo.rye("run", "--json", "demo/add", "--a", "1", cwd=project, code=1).json
    assert refused["code"] == "unsigned"
    refusal, run = leo.rye("log", "--json", cwd=project).json["runs"]
    assert (refusal["code"], refusal["signer"]) == ("unsigned", None)
    assert run["signer"].startswith(DRAFT_OWNER)


def test_nobody_but_a_person_at_a_terminal_gets_that_far(leo: Person, tool: Path) -> None:
    project = leo.place / "project"
    done = leo.rye("dev", "demo/add", cwd=project, code=1, given=b"r")
    assert "person_required" in done.err
    assert done.out == ""


def test_locked_mode_runs_no_draft(leo: Person, tool: Path) -> None:
    shown = leo.types([("q: quit", "rq")], "dev", "demo/add", cwd=leo.place / "project", RYE_LOCKED="1").out
    assert "lock_missing" in shown
    assert "sum" not in shown.partition("lock_missing")[2]


def test_a_missing_tool_says_how_to_begin(leo: Person) -> None:
    shown = leo.types([], "dev", "demo/none", cwd=leo.place / "project", code=1).out
    assert "item_not_found" in shown
    assert "rye new demo/none" in shown


@pytest.mark.thorough
def test_the_terminal_is_left_as_it_was(leo: Person, tool: Path) -> None:
    """A shell goes on in the same terminal: what is typed is shown again, and comes by the line."""
    controller, terminal = pty.openpty()
    try:
        before = termios.tcgetattr(terminal)
        process = subprocess.Popen(
            [SCRIPTS / "rye", "dev", "demo/add"],
            cwd=leo.place / "project",
            env=leo.environment,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        while b"q: quit" not in os.read(controller, 65536):
            pass
        assert termios.tcgetattr(terminal) != before
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(controller)
        os.close(terminal)
