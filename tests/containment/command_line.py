"""`lilux-proc` as people and scripts use it: one command, one JSON object."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ANSWER_S = 50.0


@dataclass(frozen=True)
class Answer:
    """What a command said, and how it ended."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The object on standard output, of a command that could answer."""
        assert self.code == 0, self.stderr
        found: dict[str, Any] = json.loads(self.stdout)
        return found


class CommandLine:
    """The commands of one binary."""

    def __init__(self, binary: Path, before: Sequence[str] = ()) -> None:
        self._command = [*before, str(binary)]

    def call(
        self, *args: Any, input: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Answer:
        """Run it with these arguments."""
        ran = subprocess.run(
            [*self._command, *map(str, args)],
            input=input,
            capture_output=True,
            env=env,
            cwd=cwd,
            timeout=ANSWER_S,
        )
        return Answer(ran.returncode, ran.stdout, ran.stderr.decode())

    def exec(self, command: str | Path, *args: Any, options: list[Any] | None = None) -> dict[str, Any]:
        """Run a program to its end."""
        arguments = [f"--arg={arg}" for arg in args]
        return self.call("exec", "--cmd", command, *arguments, *(options or [])).json

    def request(self, face: str, **fields: Any) -> dict[str, Any]:
        """Ask `exec` or `spawn` through standard input."""
        return self.call(face, "--request", "-", input=json.dumps(fields).encode()).json
