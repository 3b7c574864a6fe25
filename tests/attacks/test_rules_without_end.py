"""What says which files are left out has no end, or never answers: searching takes neither memory nor time.

`git clone` makes a link of any name to anywhere; a FIFO comes in an archive. ripgrep reads each `.gitignore`
on its way, whatever that is.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.file_system_world import TOOLS, Desk, at_desk, only_python

SECONDS = 2.0


@asynccontextmanager
async def with_needles(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, lifted: bool = False
) -> AsyncIterator[Desk]:
    async with at_desk(directory, monkeypatch, lifted=lifted) as found:
        found.write("src/a.txt", "needle\n")
        found.write("src/left out.txt", "needle\n")
        yield found


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with with_needles(tmp_path, monkeypatch) as found:
        yield found


def link(rules: Path) -> None:
    rules.symlink_to("/dev/zero")


def fifo(rules: Path) -> None:
    os.mkfifo(rules)


def linked_file(rules: Path) -> None:
    """Which ripgrep would follow, and this program does not."""
    (rules.parent / "elsewhere").write_text("a.txt\n", encoding="ascii")
    rules.symlink_to("elsewhere")


def long(rules: Path) -> None:
    """So many that to make regular expressions of them takes minutes."""
    alternatives = "{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}"
    lines = (f"*{number}{alternatives}x\n" for number in count())
    with rules.open("w", encoding="ascii") as file:
        while file.tell() < 1 << 20:
            file.write(next(lines))


RULES: Mapping[str, Callable[[Path], None]] = {
    "a link to what has no end": link,
    "a FIFO": fifo,
    "a link to a file": linked_file,
    "many rules": long,
}
PLACES = {"": "", "src/": "", ".hidden/": "!.hidden\n", "src/.git/": "!.git\n"}
"""Where it is, and the rules above it that have ripgrep go there though its name is hidden."""


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize("plant", RULES.values(), ids=RULES)
@pytest.mark.parametrize("place", PLACES)
async def test_grep_reads_no_rules_that_have_no_end(
    desk: Desk, place: str, plant: Callable[[Path], None]
) -> None:
    if PLACES[place]:
        desk.write(".gitignore", PLACES[place])
    (desk.project / place).mkdir(exist_ok=True)
    plant(desk.project / place / ".gitignore")
    began = time.monotonic()
    found = await desk.ask("grep", pattern="needle", output="files", timeout=SECONDS * 4)
    assert found["files"] == ["src/a.txt", "src/left out.txt"]
    assert time.monotonic() - began < SECONDS * 4


def test_rules_have_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Braces make two hundred expressions of a line: without a limit, a file of 128 KiB takes minutes."""
    monkeypatch.syspath_prepend(str(TOOLS / "lib"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # what lies there is shipped
    rules = importlib.import_module("patterns").Rules
    few = rules(["{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}"] * 20)
    assert (len(few.rules), few.is_cut) == (20, False)
    many = rules(["{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}{m,n}"] * 1000)
    assert many.is_cut
    assert len(many.rules) < 300


async def test_nor_does_it_without_ripgrep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_python(tmp_path, monkeypatch)
    async with with_needles(tmp_path, monkeypatch) as desk:
        (desk.project / ".gitignore").symlink_to("/dev/zero")
        os.mkfifo(desk.project / "src/.gitignore")
        for tool, asked in (("grep", {"pattern": "needle"}), ("glob", {"pattern": "**/a.txt"})):
            assert "src/a.txt" in str(await desk.ask(tool, **asked))


async def test_a_line_without_end_takes_no_more_memory_than_ripgrep_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ripgrep holds each line in memory. Where it fails for that, this program looks by itself."""
    (tmp_path / "bin").mkdir()
    telling = tmp_path / "bin/rg"
    # It says whether it has the limit by how it ends: with another one it finds nothing.
    telling.write_text('#!/bin/sh\nsleep 0.3\n[ "$(ulimit -d)" = 2097152 ] || exit 1\nkill -KILL $$\n')
    telling.chmod(0o755)
    monkeypatch.setenv("PATH", f"{telling.parent}:{os.environ['PATH']}")
    async with with_needles(tmp_path, monkeypatch, lifted=True) as desk:  # a cell does not show this `rg`
        found = await desk.ask("grep", pattern="needle", output="files")
    assert found["files"] == ["src/a.txt", "src/left out.txt"]
