"""`docs/tutorial.md` as a new user walks it: its commands, in one shell, and what it says that they print.

A block of `sh` is run, and the block of `text` after it is what it has to print: `…` is anything within a
line, a line of nothing else any lines. `KEY_ID` in a command stands for the key id that was shown last.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.people import SCRIPTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
KEY_ID = re.compile(r"key id +([0-9a-f]{64})")
SHELL_TIMEOUT_S = 30


@dataclass(frozen=True)
class Step:
    """Some commands, and what the page says that they print."""

    commands: str
    promised: str


def steps() -> list[Step]:
    found: list[Step] = []
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "sh":
            found.append(Step(text, ""))
        else:
            found[-1] = Step(found[-1].commands, text)
    return found


class Shell:
    """One bash, which is given the commands as they stand on the page."""

    def __init__(self, directory: Path) -> None:
        home = directory / "home"
        home.mkdir()
        self.key_id = "KEY_ID"
        self._end = "--- the end of a step ---"
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env={
                "HOME": str(home),
                "LOGNAME": "alice",
                "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
                "LC_ALL": "C.UTF-8",
                **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "alice"),
                **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "alice@example.org"),
                "GIT_CONFIG_NOSYSTEM": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, commands: str) -> str:
        """What these commands print; they are given nothing to read."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        whole = "{\n" + commands.replace("KEY_ID", self.key_id) + "} < /dev/null\n"
        self._process.stdin.write(f"{whole}echo '{self._end}'\n")
        self._process.stdin.flush()
        printed = "".join(iter(self._line, f"{self._end}\n"))
        for found in KEY_ID.findall(printed):
            self.key_id = found
        return printed

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the shell has ended"
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=SHELL_TIMEOUT_S)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def pattern(promised: str) -> str:
    """A regular expression for what a block promises."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in promised.splitlines()
    ]
    return "".join(lines)


def test_every_step_prints_what_the_page_says(shell: Shell) -> None:
    for step in steps():
        printed = shell.run(step.commands)
        assert re.fullmatch(pattern(step.promised), printed), (
            f"the page promises\n{step.promised}\nfor\n{step.commands}\nfound\n{printed}"
        )


def test_the_page_tells_the_whole_story() -> None:
    """Each refusal and its end, with the exit code: what the walk is for cannot be dropped from it."""
    told = "".join(step.commands + step.promised for step in steps())
    story = """rye init
        unsigned
        exit code 1
        rye sign
        exit code 0
        verified
        sed -i
        content_changed
        exit code 1
        sed -i
        exit code 0
        USER_SPACE
        git clone
        untrusted_key
        exit code 1
        rye trust review
        --accept
        verified
        exit code 0
        revoked_key
        exit code 1"""
    position = 0
    for word in map(str.strip, story.splitlines()):
        assert word in told[position:], word
        position = told.index(word, position)


def test_a_promise_that_is_not_kept_is_noticed() -> None:
    assert re.fullmatch(pattern("a … b\n…\nend\n"), "a x b\nmore\nlines\nend\n")
    assert re.fullmatch(pattern("a … b\n…\nend\n"), "a x b\nend\n")
    for printed in ("a x b\n", "a x b\nend\nmore\n", "a x\nend\n", "A x b\nend\n", "a x\n b\nend\n"):
        assert not re.fullmatch(pattern("a … b\n…\nend\n"), printed)
