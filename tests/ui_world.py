"""The page of `rye ui`, started by a person, and a client that asks for it as a browser does."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from tests.people import SCRIPTS, Person

__all__ = ["RunningPage", "ended", "opened", "started", "tool"]


@dataclass
class RunningPage:
    """A page that is served. `terminal` is what its terminal shows, where it has one."""

    address: str
    secret: str
    process: subprocess.Popen[str]
    terminal: IO[str] | None = None

    @property
    def host(self) -> str:
        """The address of this machine that it listens on."""
        return self.address.removeprefix("http://").rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.address.rpartition(":")[2])

    def client(self) -> httpx.Client:
        """A browser that has not been here."""
        return httpx.Client(base_url=self.address, headers={"origin": self.address}, timeout=20)

    @contextmanager
    def open(self) -> Iterator[httpx.Client]:
        """A browser that has brought the secret."""
        with self.client() as client:
            assert client.post("/session", content=self.secret).status_code == 200
            yield client

    def line(self) -> str:
        """The next line that its terminal shows."""
        assert self.terminal is not None
        return self.terminal.readline().strip()


@contextmanager
def started(
    person: Person, cwd: Path, *, with_terminal: bool = False, **variables: str
) -> Iterator[RunningPage]:
    """`rye ui`, until the end of the block; with a terminal of its own as standard error."""
    controller, theirs = pty.openpty() if with_terminal else (None, None)
    process = subprocess.Popen(
        [SCRIPTS / "rye", "ui", "--no-open"],
        cwd=cwd,
        env=person.environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if theirs is None else theirs,
        text=True,
    )
    if theirs is not None:
        os.close(theirs)
    shown = None if controller is None else os.fdopen(controller, buffering=1, encoding="utf-8")
    try:
        assert process.stdout is not None
        address, _, secret = process.stdout.readline().strip().partition("/#")
        assert secret, "expected the address of the page"
        page = RunningPage(address, secret, process, shown)
        if shown is not None:
            assert "Ctrl-C" in page.line()
        yield page
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()
        if shown is not None:
            shown.close()


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on for no longer than the block."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def opened(person: Person, cwd: Path) -> Iterator[httpx.Client]:
    """The same, and a browser that has opened it."""
    with started(person, cwd) as page, page.open() as client:
        yield client


def tool(project: Path, name: str, code: str, *, description: str = "Does what its test needs.") -> str:
    """Write a tool in bash; its id."""
    path = project / f".ai/tools/demo/{name}.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"# version: 1.0.0\n# description: {description}\n# executor_id: rye/core/runtimes/bash_runtime"
    path.write_text(f"#!/usr/bin/env bash\n# /// rye\n{head}\n# ///\n{code}\n")
    return f"demo/{name}"
