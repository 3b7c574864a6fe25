"""Tables and progress: in pipes and on terminals, and bars that stay out of pipes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from rye_mcp.cli._printing import LONG_WORK, print_table, tracked


def test_a_plain_table_has_columns_and_no_blanks_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ITEM", "STATE"), [("demo/hello", "verified"), ("x", "unsigned")], red=[1])
    assert capsys.readouterr().out.splitlines() == [
        "ITEM        STATE",
        "demo/hello  verified",
        "x           unsigned",
    ]


def test_a_cell_stays_in_its_line_and_in_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ITEM", "SIGNER"), [("a", "leo\nverified"), ("b", "\x1b[1Amallory")])
    assert capsys.readouterr().out.splitlines() == [
        "ITEM  SIGNER",
        "a     leo\\nverified",
        "b     \\x1b[1Amallory",
    ]


def test_no_bar_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    items = list(range(LONG_WORK))
    assert tracked(items, "Working") is items
    assert capsys.readouterr().err == ""


def test_on_a_narrow_terminal_a_table_shows_every_cell_whole() -> None:
    run, text = "01m7rn7jbsgd037p1g7wtr3jvs", "Greet somebody by name."
    program = (
        f"from rye_mcp.cli._printing import print_table; print_table(('RUN', 'ABOUT'), [({run!r}, {text!r})])"
    )
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    subprocess.run([sys.executable, "-c", program], stdout=terminal, env=environment, check=True, timeout=60)
    os.close(terminal)
    with os.fdopen(controller, "rb") as shown:
        lines = shown.read1(4096).decode().splitlines()
    assert lines == ["\x1b[1mRUN", "  ABOUT\x1b[0m", run, f"  {text}"]
