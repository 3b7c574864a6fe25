"""A project, what lies around it, and a stranger of the same user who has everything open."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from tests.users import ADA, BOB

__all__ = ["POLICIES", "TABLE", "World", "world_of"]

POLICIES: Mapping[str, Mapping[str, Any] | None] = {
    "off": None,
    "walls none": {"tier": "walls", "require": "walls"},
    "walls ports": {"tier": "walls", "require": "walls", "net": {"ports": [443]}},
    "walls host": {"tier": "walls", "require": "walls", "net": {"hosts": ["allowed.example"]}},
    "walls any": {"tier": "walls", "require": "walls", "net": "any"},
    "cell none": {"tier": "cell", "require": "cell"},
    "cell host": {"tier": "cell", "require": "cell", "net": {"hosts": ["allowed.example"]}},
    "cell any": {"tier": "cell", "require": "cell", "net": "any"},
}
"""What a tool may do beside writing its project, by the columns of the table."""

_PIDFD_GETFD = 438
_LIMIT_MS = 100_000


def _table() -> dict[str, dict[str, str]]:
    lines = Path(__file__).with_name("table.txt").read_text("utf-8").splitlines()
    starts = [at for at, text in enumerate(lines[0]) if text in "RU" and lines[0][at + 1 : at + 2] == ":"]
    edges = list(zip(starts, [*starts[1:], None], strict=True))
    names = [lines[0][start:end].strip() for start, end in edges]
    rows = {line[: starts[0]].strip(): line for line in lines[1:]}
    return {
        row: dict(zip(names, [line[start:end].strip() for start, end in edges], strict=True))
        for row, line in rows.items()
    }


TABLE = _table()
"""By way out and then by column, `R:` for root and `U:` for others: OPEN, or what the kernel answers."""


@dataclass(frozen=True)
class World:
    """One user's part of a machine. `binary` and `ways` are copies that any user may execute."""

    root: Path
    binary: Path
    ways: Path
    uid: int

    @cached_property
    def column(self) -> str:
        """The beginning of this user's columns."""
        return "R" if self.uid == 0 else "U"

    def fill(self) -> None:
        """Everything as it should be before each attempt."""
        for name in ("home", "outside", "project", "program", "readable"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        texts = ["home/.ssh/id", "home/.ai/keys/person", "outside/file", "outside/deleted", "project/.env"]
        texts += ["project/moved", "project/moved-over", "project/moved-too", "project/program"]
        texts += ["project/.git/config", "project/.git/hooks/sample", "project/moved-on", "readable/file"]
        texts += ["project/deep/repository/config", "project/shut/inner/secret"]
        for name in texts:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("something\n", "utf-8")
        (self.root / "project/link").symlink_to(self.root / "home/.ssh/id")
        for place in (Path("/tmp"), Path("/dev/shm")):
            (place / f"ways-{self.unique}").write_text("something\n", "utf-8")
            os.chown(place / f"ways-{self.unique}", self.uid, -1)
        for path in self.root.rglob("*"):
            if path.is_relative_to(self.root / "bin"):
                continue
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    @property
    def unique(self) -> str:
        return str(self.root.stat().st_ino)

    def as_user(self, command: list[str | Path]) -> list[str]:
        """A command as this user's, in a mount namespace of its own where that can be made."""
        words = [str(word) for word in command]
        if os.getuid() != 0:
            return words
        if self.uid != 0:
            words = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", *words]
        return ["unshare", "--mount", "--propagation", "private", *words]

    def policy(self, name: str) -> dict[str, Any] | None:
        """The policy of a column, for this world's project."""
        given = POLICIES[name]
        if given is None:
            return None
        project = str(self.root / "project")
        return {
            **given,
            "read": [str(self.root / "bin"), str(self.root / "readable")],
            "write": [project],
            "protect": [f"{project}/.git", f"{project}/deep/repository/config"],
            "mask": [f"{project}/.env", f"{project}/shut/inner/secret"],
            "home": str(self.root / "home"),
            "limits": {"processes": 300, "temp": 8 << 20},
        }

    def run(
        self,
        command: list[str | Path],
        policy: Mapping[str, Any] | None,
        around: Sequence[str | Path] = (),
        timeout_ms: int = _LIMIT_MS,
        **variables: str,
    ) -> dict[str, Any]:
        """The answer of `lilux-proc exec`, which may run in surroundings."""
        name, *args = map(str, command)
        request: dict[str, Any] = {"command": name, "args": args, "env": {"PATH": "/usr/bin:/bin"}}
        request["timeout_ms"] = timeout_ms
        if policy is not None:
            request["policy"] = policy
        ran = subprocess.run(
            self.as_user([*around, self.binary, "exec", "--request", "-"]),
            input=json.dumps(request),
            env={"PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def probe(self, around: Sequence[str | Path]) -> dict[str, Any]:
        """What can be enforced in surroundings."""
        command = self.as_user([*around, self.binary, "probe"])
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        facts: dict[str, Any] = json.loads(ran.stdout)
        return facts

    def needs_a_broker(self) -> None:
        """Skip where hosts cannot be told apart in walls; on a machine of its own they can be."""
        facts = self.probe([])
        if not facts["broker"]:
            assert _may_lack_a_broker(), facts["no_broker"]
            pytest.skip(f"no broker here: {facts['no_broker']}")

    def attempt(self, policy: Mapping[str, Any] | None, **variables: str) -> tuple[dict[str, str], Any]:
        """What becomes of every way, and what was said to be enforced."""
        self.fill()
        with self._victim() as facts:
            answer = self.run(
                [self.ways, "try", self.root, self.unique, *facts], policy, (), _LIMIT_MS, **variables
            )
        assert answer["return_code"] == 0, answer
        return json.loads(answer["stdout"]), answer.get("enforced")

    @contextmanager
    def _victim(self) -> Iterator[list[str]]:
        command = self.as_user([self.ways, "victim", self.root, self.unique])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdin is not None
            assert victim.stdout is not None
            yield [*victim.stdout.readline().split(), *_facts_of_machine(), f"other={self._other_program()}"]
            victim.stdin.close()

    def _other_program(self) -> Path:
        """A set-uid program of somebody else."""
        program = self.root / "bin" / "other"
        if os.getuid() == 0:
            shutil.copy(self.ways, program)
            os.chown(program, BOB, BOB)
            program.chmod(0o4755)
        return program


def _may_lack_a_broker() -> bool:
    """By its kernel, by who surrounds us, or by what Yama allows."""
    version = tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2])
    itself = os.pidfd_open(os.getpid())
    forbidden = ctypes.CDLL(None).syscall(_PIDFD_GETFD, itself, itself, 0) < 0
    os.close(itself)
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    return version < (5, 19) or forbidden or (yama.exists() and int(yama.read_text()) > 1)


def _facts_of_machine() -> list[str]:
    facts = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            facts.append(f"host={probe.getsockname()[0]}")
        except OSError:
            pass  # a machine without any network has no address to be reached at
    interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
    disks = [path for path in Path("/dev").iterdir() if path.is_block_device()]
    facts += [f"interface={name}" for name in interfaces[:1]]
    return facts + [f"disk={path}" for path in sorted(disks)[:1]]


@contextmanager
def world_of(binary: Path, ways: Path, uid: int) -> Iterator[World]:
    """Below /tmp, where any user may go; pytest keeps its own directories to itself."""
    with tempfile.TemporaryDirectory(prefix="ways-") as directory:
        root = Path(directory).resolve()
        root.chmod(0o755)
        (root / "bin").mkdir()
        copy = partial(shutil.copy, dst=root / "bin")
        world = World(root, Path(copy(binary)), Path(copy(ways)), uid)
        try:
            yield world
        finally:
            for place in (Path("/tmp"), Path("/dev/shm")):
                (place / f"ways-{world.unique}").unlink(missing_ok=True)


def users() -> list[int]:
    """Whose runs are tried: root's and an ordinary user's, or our own."""
    return [0, ADA] if os.getuid() == 0 else [os.getuid()]
