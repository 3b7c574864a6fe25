"""People who use the installed `rye`: each with a home, a user space and a state directory of their own.

A `Person` runs real processes with a small environment: nothing of whoever runs the tests gets in.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.items import ItemType
from rye_mcp.trust.approvals import Approvals
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.sign import SignRequest, sign
from tests import forked_rye

__all__ = ["SCRIPTS", "Answer", "Person", "Publication", "apart", "run_if_verified"]

SCRIPTS = Path(sysconfig.get_path("scripts"))

UV = SCRIPTS / "uv"
"""Everybody has it, but nothing else of this environment is for tools."""

_TIMEOUT_S = 30
_INTERRUPT = "\x03"


@cache
def apart(program: str | Path) -> str:
    """A directory with a link to a program: tools do not get what else is in the environment of rye-mcp."""
    directory = tempfile.TemporaryDirectory(prefix="rye-programs-")
    atexit.register(directory.cleanup)
    (Path(directory.name) / Path(program).name).symlink_to(program)
    return directory.name


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its result, with `--json`."""
        answer: dict[str, Any] = json.loads(self.out)
        return answer

    @property
    def shown(self) -> str:
        """Everything that a person sees."""
        return self.out + self.err


@dataclass(frozen=True)
class Person:
    """Somebody with a name and a place for everything that is theirs."""

    name: str
    place: Path
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def user_space(self) -> Path:
        return self.place / "space/.ai"

    @property
    def state(self) -> Path:
        return self.place / "state"

    @property
    def environment(self) -> dict[str, str]:
        home = self.place / "home"
        home.mkdir(parents=True, exist_ok=True)
        return {
            "HOME": str(home),
            "USER_SPACE": str(self.place / "space"),
            "XDG_STATE_HOME": str(self.state),
            "LOGNAME": self.name,
            "USER": self.name,
            "PATH": f"{SCRIPTS}:{os.environ['PATH']}:{apart(UV)}",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            **self.more,
        }

    def begin(self, project: Path) -> Path:
        """Do what `rye init` does in a directory, by copying what it once did for somebody of this name."""
        project.mkdir(parents=True, exist_ok=True)
        if self.user_space.exists():
            self.rye("init", cwd=project)
            return project
        template = _begun(self.name)
        shutil.copytree(template.user_space, self.user_space)
        shutil.copytree(template.place / "project", project, dirs_exist_ok=True)
        Approvals(project, self.state / "rye").approve_project()
        return project

    def sign(self, item_id: str, project: Path, item_type: ItemType = ItemType.TOOL) -> None:
        """Do what `rye sign` does, in this process."""
        settings = Settings.find(
            project=project,
            user_directory=self.user_space.parent,
            state=self.state / "rye",
            environment=self.environment,
        )
        sign(SignRequest(item_id, item_type), App.open(settings).context(SignerKind.PERSON))

    def rye(
        self,
        *arguments: str,
        cwd: Path,
        code: int | None = 0,
        given: bytes = b"",
        before: Sequence[str] = (),
        **variables: str,
    ) -> Answer:
        """Run `rye`, without a terminal; it has to end with `code`, None being 0 or 1.

        With a command `before` it is started, else forked: see `tests.forked_rye`.
        """
        environment = self.environment | variables
        if before:
            done = subprocess.run(
                [*before, SCRIPTS / "rye", *arguments],
                cwd=cwd,
                env=environment,
                input=given,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            ended = (done.returncode, done.stdout, done.stderr)
        else:
            ended = forked_rye.run(
                SCRIPTS / "rye", arguments, cwd=cwd, env=environment, given=given, timeout_s=_TIMEOUT_S
            )
        answer = Answer(ended[0], ended[1].decode(), ended[2].decode())
        assert "Traceback" not in answer.shown, answer.shown
        assert answer.code in ((0, 1) if code is None else (code,)), (
            f"rye {' '.join(arguments)} ended with {answer.code}:\n{answer.shown}"
        )
        return answer

    def refused(self, error: str, *arguments: str, cwd: Path, **options: Any) -> dict[str, Any]:
        """Run `rye … --json`, which has to be refused with this code; the whole error."""
        found = self.rye(*arguments, "--json", cwd=cwd, code=1, **options).json
        assert found["code"] == error, found
        assert found["error"]
        assert found["hint"]
        return found

    def types(
        self,
        answers: Sequence[tuple[str, str | Callable[[], str]]],
        *arguments: str,
        cwd: Path,
        code: int = 0,
        **variables: str,
    ) -> Answer:
        """Run `rye` in a terminal of its own; what the terminal shows is `out`.

        Each answer is typed once the text beside it is shown; a function is called then, and gives it.
        """
        controller, terminal = pty.openpty()
        try:
            process = subprocess.Popen(
                ["setsid", "--ctty", SCRIPTS / "rye", *arguments],
                cwd=cwd,
                env=self.environment | variables,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
            )
            os.close(terminal)
            shown = "".join(_type_after(controller, process.pid, *each) for each in answers)
            shown += _everything(controller)
            answer = Answer(process.wait(_TIMEOUT_S), shown, "")
        finally:
            os.close(controller)
        assert "Traceback" not in shown, shown
        assert answer.code == code, f"rye {' '.join(arguments)} ended with {answer.code}:\n{shown}"
        return answer

    def key_id(self, *, cwd: Path) -> str:
        """The id of this person's key."""
        key_id: str = self.rye("keys", "show", "--json", cwd=cwd).json["person"]["key_id"]
        return key_id


@cache
def _begun(name: str) -> Person:
    """Somebody who has begun a project, as `rye init` leaves them; made once, for all tests of a process."""
    place = Path(tempfile.mkdtemp(prefix="begun-"))
    atexit.register(shutil.rmtree, place)
    person = Person(name, place)
    (place / "project").mkdir()
    person.rye("init", cwd=place / "project")
    return person


TOOL = """import pathlib, sys
__version__ = "1.0.0"
pathlib.Path(sys.argv[1]).write_text("touched")
"""


@dataclass(frozen=True)
class Publication:
    """A project that somebody has made, signed in and published; `project` is never changed, only cloned."""

    author: Person
    project: Path
    key_id: str

    @classmethod
    def make(cls, place: Path) -> Publication:
        """Alice publishes one tool, which touches the file that it is given."""
        alice = Person("alice", place / "alice")
        project = place / "published"
        (project / ".ai").parent.mkdir()
        key_id = alice.rye("init", "--json", cwd=project).json["user"]["key_id"]
        tool = project / ".ai/tools/demo/hello.py"
        tool.parent.mkdir(parents=True)
        tool.write_text(TOOL)
        alice.rye("sign", "demo/hello", cwd=project)
        return cls(alice, project, key_id)

    def clone(self, place: Path) -> Path:
        """Everything that was published, somewhere else."""
        clone = place / "clone"
        shutil.copytree(self.project, clone)
        return clone

    def copy(self, place: Path) -> tuple[Person, Path]:
        """Somebody just like the author, with a project just like this one: cheaper than to begin anew."""
        shutil.copytree(self.author.place, place / "author")
        return Person(self.author.name, place / "author"), self.clone(place)

    @property
    def document(self) -> str:
        """Where the author's proposal is, in the project and in every clone."""
        [path] = self.project.glob(".ai/trusted_keys/*.toml")
        return str(path.relative_to(self.project))

    @property
    def digest(self) -> str:
        """What tells this proposal from every other one of the same key, as `rye` shows it."""
        return hashlib.sha256((self.project / self.document).read_bytes()).hexdigest()[:32]


def run_if_verified(person: Person, project: Path, canary: Path, **variables: str) -> str:
    """Run the tool of a clone when `rye verify` lets it through; what was said of it."""
    person = replace(person, more={**person.more, **variables})
    answer = person.rye("verify", "demo/hello", "--json", cwd=project, code=None)
    if answer.code == 0:
        subprocess.run([sys.executable, project / ".ai/tools/demo/hello.py", canary], check=True)
    found = answer.json
    state: str = found["items"][0]["integrity"]["state"] if "items" in found else found["code"]
    return state


def _type_after(controller: int, pid: int, text: str, answer: str | Callable[[], str]) -> str:
    shown = b""
    while text.encode() not in shown:
        chunk = _chunk(controller)
        assert chunk, f"expected to be asked {text!r}, found {shown.decode()!r}"
        shown += chunk
    if answer == _INTERRUPT:
        # Python loses an interruption that comes right between its last look for one and waiting for input.
        deadline = time.monotonic() + _TIMEOUT_S
        while not _is_asleep(pid):
            assert time.monotonic() < deadline, "expected it to wait for an answer, found it busy"
    os.write(controller, (answer if isinstance(answer, str) else answer()).encode())
    return shown.decode()


def _is_asleep(pid: int) -> bool:
    """Whether a process waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def _everything(controller: int) -> str:
    """What a terminal shows until the last program that has it is gone."""
    return b"".join(iter(lambda: _chunk(controller), b"")).decode()


def _chunk(controller: int) -> bytes:
    """What a terminal shows next; nothing when no program has it any more."""
    readable, _, _ = select.select([controller], [], [], _TIMEOUT_S)
    assert readable, "expected something on the terminal, found silence"
    try:
        return os.read(controller, 65536)
    except OSError:  # EIO
        return b""
