"""Programs of other people for Node: installed once, outside the tree, in the versions that are pinned.

`tests/conformance/package.json` says which, its lock file which bytes. Without npm, or without a registry to
get them from, tests that need them are skipped. What is installed is kept in the user's cache, by the hash of
the lock file. The Node that runs them is pinned too: the one of the system may be too old for them.

A test module takes the fixture by importing it:

    from tests.node_world import *
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

__all__ = ["NodePrograms", "node"]

PINS: Final = Path(__file__).parent / "conformance"

_INSTALL_S: Final = 280
_OPTIONS: Final = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_NO_REGISTRY: Final = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH")


@dataclass(frozen=True)
class NodePrograms:
    """What is installed."""

    place: Path

    @property
    def executable(self) -> Path:
        """The Node that is pinned, where there is one for this machine."""
        found = sorted(self.place.glob("node_modules/node-linux-*/bin/node"))
        return found[0] if found else Path(str(shutil.which("node")))

    @property
    def path(self) -> str:
        """PATH, with all of it first."""
        return f"{self.executable.parent}:{self.place / 'node_modules/.bin'}:{os.environ['PATH']}"

    def command(self, script: str | Path, *arguments: str) -> list[str]:
        """How a script is run; a relative one is that of a package."""
        return [str(self.executable), str(self.place / "node_modules" / script), *arguments]

    def run(
        self,
        script: str | Path,
        *arguments: str,
        env: Mapping[str, str],
        cwd: Path,
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script to its end; these programs look at what NODE_PATH names for their packages."""
        return subprocess.run(
            self.command(script, *arguments),
            env={**env, "PATH": self.path, "NO_COLOR": "1"},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture(scope="session")
def node() -> NodePrograms:
    """The programs; installed when they are not there yet."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not there, which gets the programs of other people: install nodejs and npm")
    pins = b"".join((PINS / name).read_bytes() for name in ("package.json", "package-lock.json"))
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rye-mcp-tests"
    place = caches / f"node-{hashlib.sha256(pins).hexdigest()[:16]}"
    caches.mkdir(parents=True, exist_ok=True)
    with (caches / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of one test session
        if not place.exists():
            _install(caches / "being-installed", place)
    return NodePrograms(place)


def _install(being_installed: Path, place: Path) -> None:
    shutil.rmtree(being_installed, ignore_errors=True)
    being_installed.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, being_installed)
    done = _npm(["ci", *_OPTIONS], being_installed)
    if done.returncode != 0 and any(code in done.stderr for code in _NO_REGISTRY):
        pytest.skip(f"no registry of npm can be reached: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    being_installed.rename(place)


def _npm(arguments: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npm", *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_S,
        check=False,
    )
