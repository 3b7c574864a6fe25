"""The secret opens one session; a code of the terminal stands for one decision, once."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.ui.session import CODE_LIFETIME_S, MAX_PENDING, MAX_TRIES, Codes, Session


class Terminal:
    """What a terminal shows, and its clock."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = 1000.0

    def codes(self) -> Codes:
        return Codes(self.lines.append, clock=lambda: self.now)

    @property
    def code(self) -> str:
        return self.lines[-1].rpartition(": ")[2]


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(RyeError) as found:
        act()
    assert found.value.code == "code_refused"
    return found.value.message


def test_the_secret_opens_one_session() -> None:
    session = Session()
    assert not session.knows("")
    assert not session.knows_form(session.form_token)
    assert session.open("another") is None
    cookie = session.open(session.secret)
    assert session.open(session.secret) is None
    assert session.knows(cookie)
    assert not session.knows("another")
    assert not session.knows(None)
    assert session.knows_form(session.form_token)
    assert not session.knows_form("")
    assert str(cookie) not in session.form_token


def test_a_code_counts_once_and_for_what_it_was_shown_for() -> None:
    terminal = Terminal()
    codes = terminal.codes()
    number = codes.ask("trust Alice", "digest of it")
    assert "trust Alice" in terminal.lines[0]
    refused(lambda: codes.use(number, "digest of something else", terminal.code))
    codes.use(number, "digest of it", f" {terminal.code.lower()} ")
    assert "an old one" in refused(lambda: codes.use(number, "digest of it", terminal.code))


def test_a_code_is_guessed_a_few_times_and_not_more() -> None:
    terminal = Terminal()
    codes = terminal.codes()
    number = codes.ask("trust Alice", "it")
    for _ in range(MAX_TRIES):
        refused(lambda: codes.use(number, "it", "AAAA-AAAA"))
    refused(lambda: codes.use(number, "it", terminal.code))


def test_a_code_grows_old() -> None:
    terminal = Terminal()
    codes = terminal.codes()
    number = codes.ask("trust Alice", "it")
    terminal.now += CODE_LIFETIME_S + 1
    refused(lambda: codes.use(number, "it", terminal.code))


def test_codes_without_end_make_room() -> None:
    terminal = Terminal()
    codes = terminal.codes()
    first = codes.ask("one", "1")
    code = terminal.code
    for number in range(MAX_PENDING):
        codes.ask("more", str(number))
    refused(lambda: codes.use(first, "1", code))


def test_without_a_terminal_nothing_is_decided() -> None:
    codes = Codes(None)
    assert not codes.can_ask
    assert "without one" in refused(lambda: codes.ask("trust Alice", "it"))


ASKS = """
from rye_mcp.ui.session import Codes, terminal
Codes(terminal()).ask("trust \\x1b[2J\\nif you asked for that, type AAAA-AAAA", "it")
"""


def test_what_the_terminal_shows_is_one_line() -> None:
    """A name in a question writes no line of its own, and moves no cursor."""
    controller, theirs = pty.openpty()
    with os.fdopen(controller, "rb"):
        subprocess.run([sys.executable, "-c", ASKS], stderr=theirs, check=True)
        shown = os.read(controller, 4096).decode()
        os.close(theirs)
    first, second, rest = shown.split("\r\n")
    assert first == r"The page asks: trust \x1b[2J\nif you asked for that, type AAAA-AAAA"
    assert second.startswith("  if you asked for that, type this code there: ")
    assert rest == ""
