"""The table of commands says what the commands say, and loads none before it is called."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rye_mcp.cli.commands import COMMANDS, app
from rye_mcp.cli.help_page import HELP

NEVER_FOR_HELP = ("rye_mcp.app", "rye_mcp.trust", "rye_mcp.metadata", "rich", "cryptography", "mcp", "lilux")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_the_first_of_its_help(name: str) -> None:
    place = COMMANDS[name]
    command = getattr(importlib.import_module(place.module), place.name)
    if not isinstance(command, typer.Typer):
        assert (inspect.getdoc(command) or "").partition("\n")[0] == place.help


def prints_help(program: str, columns: int) -> tuple[str, set[str]]:
    """What a program prints that is called `rye --help`, and the modules that it has loaded."""
    script = (
        "import sys; sys.argv = ['rye', '--help']\n"
        f"try: {program}\n"
        "finally: print(*sys.modules, file=sys.stderr)\n"
    )
    environment = {**os.environ, "COLUMNS": str(columns)}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return ran.stdout, set(ran.stderr.split())


RYE, TYPER = "from rye_mcp.cli import main; main()", "from rye_mcp.cli.commands import app; app()"


@pytest.mark.parametrize("columns", [80, 200])
def test_the_page_that_was_made_before_is_that_of_typer(columns: int) -> None:
    printed, loaded = prints_help(RYE, columns)
    assert printed == prints_help(TYPER, columns)[0] == HELP
    ours = {module for module in loaded if module.startswith("rye_mcp")}
    assert ours == {"rye_mcp", "rye_mcp.cli", "rye_mcp.cli.help_page"}
    assert "typer" not in loaded


def test_a_narrow_terminal_gets_a_page_of_its_own_which_loads_nothing_that_takes_long() -> None:
    printed, loaded = prints_help(RYE, 60)
    assert printed == prints_help(TYPER, 60)[0] != HELP
    loaded -= {"lilux", "lilux._dataclasses"}  # what errors are made with
    assert not [module for module in loaded if module.split(".")[0] in NEVER_FOR_HELP]
    assert not [module for module in loaded if module.startswith(NEVER_FOR_HELP[:3])]
    commands = {module for module in loaded if module.startswith("rye_mcp.cli.") and "._" not in module}
    assert commands == {"rye_mcp.cli.commands"}


def test_a_reader_who_has_seen_enough_of_the_help_is_no_failure_of_the_program() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['rye', '--help']; from rye_mcp.cli import main; main()",
    ]
    ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_no_command_imports_mcp() -> None:
    modules = ", ".join(sorted({place.module for place in COMMANDS.values()}))
    script = f"import sys; import {modules}; sys.exit('mcp' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def fails_in(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys, rye_mcp.cli.survey as listing\n"
        "def broken(): raise KeyError('a mistake of the program')\n"
        "listing.list_items = broken\n"
        "sys.argv = ['rye', 'list']\n"
        "from rye_mcp.cli import main; main()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_a_mistake_of_the_program_is_said_in_a_sentence() -> None:
    ran = fails_in({})
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "rye: internal: expected none of this, found KeyError" in ran.stderr
    assert "RYE_TRACEBACK=1" in ran.stderr


def test_its_traceback_is_shown_on_request() -> None:
    assert "Traceback" in fails_in({"RYE_TRACEBACK": "1"}).stderr


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_means_no_colours(
    no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("USER_SPACE", str(tmp_path))
    shown = CliRunner().invoke(app, ["show", "demo/none"], color=True)
    assert "item_not_found" in shown.output
    assert ("\x1b[" in shown.output) is coloured


@pytest.mark.parametrize("group", ["keys", "lock", "log", "mcp", "trust"])
def test_no_line_of_a_help_is_cut_off(group: str) -> None:
    shown = CliRunner().invoke(app, [group, "--help"], env={"COLUMNS": "80"}).output
    listed = shown.partition("Commands:")[2].splitlines()
    assert len(listed) > 1
    assert not [line for line in listed if line.endswith("...") or len(line) > 80]
