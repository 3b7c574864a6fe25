"""People who use the installed `rye`: each with a home, a user space and a state directory of their own.

A `Person` runs real processes with a small environment: nothing of whoever runs the tests gets in.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SCRIPTS", "Answer", "Person"]

SCRIPTS = Path(sysconfig.get_path("scripts"))

_TIMEOUT_S = 30


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
            "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            **self.more,
        }

    def rye(
        self,
        *arguments: str,
        cwd: Path,
        code: int = 0,
        given: bytes = b"",
        before: Sequence[str] = (),
        **variables: str,
    ) -> Answer:
        """Run `rye`, without a terminal; it has to end with `code`."""
        done = subprocess.run(
            [*before, SCRIPTS / "rye", *arguments],
            cwd=cwd,
            env=self.environment | variables,
            input=given,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in answer.shown, answer.shown
        assert answer.code == code, f"rye {' '.join(arguments)} ended with {answer.code}:\n{answer.shown}"
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
        answers: Sequence[tuple[str, str]],
        *arguments: str,
        cwd: Path,
        code: int = 0,
        **variables: str,
    ) -> Answer:
        """Run `rye` in a terminal of its own; what the terminal shows is `out`.

        Each answer is typed once the text beside it is shown.
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
            shown = "".join(_type_after(controller, text, answer) for text, answer in answers)
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


def _type_after(controller: int, text: str, answer: str) -> str:
    shown = b""
    while text.encode() not in shown:
        chunk = _chunk(controller)
        assert chunk, f"expected to be asked {text!r}, found {shown.decode()!r}"
        shown += chunk
    os.write(controller, answer.encode())
    return shown.decode()


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
