"""The blocks of code of a page, and a shell that does what stands in them.

    <!-- not run: it needs somebody else's machine -->   excuses the block that follows
    <!-- needs: jq -->                                   skips the page where this program is not installed
    <!-- needs: network -->                              skips it where a package registry cannot be reached
    `.ai/tools/demo/hello.py`:                           names the file that the block that follows is

Rules:

- `sh` is run, in the one shell of its page; a block of `text` right after it, with nothing but blank lines
  between, is what it has to print. Without one, every command has to succeed.
- `console` is both: lines that begin with `$ ` are run, all others are what they print.
- In what is printed, `…` is anything within a line, a line of nothing else any lines.
- `KEY_ID` in a command stands for the key id that was shown last.
- What a command says while something takes long is on no page: when it does depends on the machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from tests import forked_rye, forked_rye_client
from tests.people import SCRIPTS

__all__ = [
    "NETWORK",
    "ROOT",
    "Block",
    "Shell",
    "Step",
    "blocks_of",
    "documents",
    "lacks",
    "needs_of",
    "pattern",
    "steps_of",
]

ROOT = Path(__file__).resolve().parents[1]

_WAITING = "rye: waiting for the server "
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<excuse>[^\n]+) -->\n+)?"
    r"(?:^`(?P<path>[^`\n]+)`:\n\n)?"
    r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
GIT_IDENTITY = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "alice"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "alice@example.org"),
}
NO_GIT_IDENTITY = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "user.useConfigOnly",
    "GIT_CONFIG_VALUE_0": "true",
}
_NEEDS = re.compile(r"^<!-- needs: (\S+) -->$", re.MULTILINE)
NETWORK = "network"
REGISTRY = "https://pypi.org/simple/pip/"
_KEY_ID = re.compile(r"key id +([0-9a-f]{64})")
_END = "--- the end of a step ---"


@dataclass(frozen=True)
class Block:
    """A block: its language, its text, the line of its page; the file it is, the reason why it is not run."""

    kind: str
    text: str
    line: int
    path: str | None = None
    excuse: str | None = None
    follows: bool = False
    """Whether nothing stands between it and the block before."""


@dataclass(frozen=True)
class Step:
    """Some commands, or a file that is written; and what the page says that is printed, if it says so."""

    line: int
    commands: str
    promised: str | None = None
    path: str | None = None


def documents() -> list[Path]:
    """Every page whose blocks have to be true."""
    return sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")])


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        follows = bool(found) and not text[end : match.start()].strip()
        line = text.count("\n", 0, match.start("text"))
        found.append(Block(match["kind"], match["text"], line, match["path"], match["excuse"], follows))
        end = match.end()
    return found


def needs_of(page: Path) -> list[str]:
    """The programs that a page needs, and that not every machine has; `network` is none."""
    return _NEEDS.findall(page.read_text(encoding="utf-8"))


def lacks(need: str) -> str | None:
    """What this machine does not have of a page's needs, in words; nothing if it has it."""
    if need != NETWORK:
        found = shutil.which(need, path=f"{SCRIPTS}:{os.environ['PATH']}")
        return None if found else f"{need} is not installed"
    try:
        with urlopen(REGISTRY, timeout=10):
            return None
    except OSError as exc:
        return f"{REGISTRY} cannot be reached: {exc}"


def steps_of(page: Path) -> list[Step]:
    """What has to be done with a page that has commands, in its order."""
    found: list[Step] = []
    for block in blocks_of(page):
        if block.excuse:
            continue
        if block.path is not None:
            found.append(Step(block.line, block.text, path=block.path))
        elif block.kind == "sh":
            found.append(Step(block.line, block.text))
        elif block.kind == "console":
            found += _of_console(block)
        elif block.kind == "text" and block.follows and found and found[-1].promised is None:
            found[-1] = Step(found[-1].line, found[-1].commands, block.text, found[-1].path)
    return found


def _of_console(block: Block) -> Iterator[Step]:
    before, *commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not before, f"expected a command first in the block at line {block.line}, found {before!r}"
    for command in commands:
        lines = command.splitlines(keepends=True)
        count = 1 + next(number for number, line in enumerate(lines) if not line.endswith("\\\n"))
        yield Step(block.line, "".join(lines[:count]), "".join(lines[count:]))


class Shell:
    """One bash in a directory, with a home of its own, which is given the commands of a page.

    The directory is empty, or a copy of the one that the page of an example stands in. Unless the
    installed `rye` is asked for, `rye` is forked (see `forked_rye`): the same command, without its imports.
    Who has just installed it has not told git who they are; on all other pages git knows.
    """

    root = Path("/")

    def __init__(self, directory: Path, *, example: Path | None = None, installed: bool = False) -> None:
        home = directory / "home"
        home.mkdir()
        place = directory / "work"
        if example is None:
            place.mkdir()
        else:
            shutil.copytree(example, place)
        if not installed:
            _write_forked_rye(directory / "rye")
            # Tools see no program of the environment that rye is installed in, and so no uv of it.
            (directory / "uv").symlink_to(SCRIPTS / "uv")
        programs = directory if not installed else SCRIPTS
        variables = {
            "HOME": str(home),
            "LOGNAME": "alice",
            "PATH": f"{programs}:{SCRIPTS}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "UV_SYSTEM_CERTS": "1",
            **(NO_GIT_IDENTITY if installed else GIT_IDENTITY),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self._open(["bash", "--norc"], place, variables)

    def _open(self, command: Sequence[str], place: Path, variables: Mapping[str, str]) -> None:
        self.key_id = "KEY_ID"
        self._process = subprocess.Popen(
            command,
            cwd=place,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            pass_fds=[forked_rye.descriptor()],
        )

    def do(self, step: Step) -> None:
        """Do a step; AssertionError where the page promises something else."""
        if step.path is not None:
            self._write(step.path, step.commands)
            return
        printed, failed = self.run(step.commands)
        if step.promised is None:
            assert not failed, f"line {step.line}: a command failed in\n{step.commands}\nfound\n{printed}"
        else:
            found = f"\n{step.promised}\nfor\n{step.commands}\nfound\n{printed}"
            kept = re.fullmatch(pattern(step.promised), printed)
            assert kept, f"line {step.line}: the page promises{found}"

    def run(self, commands: str) -> tuple[str, bool]:
        """What these commands print, and whether one failed; they are given nothing to read."""
        assert self._process.stdin is not None
        whole = (
            "failed=; trap failed=1 ERR\n{\n" + commands.replace("KEY_ID", self.key_id) + "} < /dev/null\n"
        )
        self._process.stdin.write(f"{whole}trap - ERR; echo '{_END}' $failed\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while not lines or _END not in lines[-1]:
            lines.append(self._line())
        before, _, failed = lines.pop().partition(_END)
        printed = "".join(line for line in lines if not line.startswith(_WAITING)) + before
        for found in _KEY_ID.findall(printed):
            self.key_id = found
        return printed, bool(failed.strip())

    def _write(self, path: str, text: str) -> None:
        target = self.root / self.run("pwd\n")[0].strip().lstrip("/") / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the shell has ended"
        return line

    def close(self) -> None:
        """End it, with everything that it has started and left running."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _write_forked_rye(path: Path) -> None:
    client = [sys.executable, "-I", "-S", forked_rye_client.__file__]
    words = shlex.join([*client, str(forked_rye.descriptor()), str(SCRIPTS / "rye")])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def pattern(promised: str) -> str:
    """A regular expression for what a block promises."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in promised.splitlines()
    ]
    return "".join(lines)
