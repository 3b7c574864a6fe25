"""What tests of long-lived processes share: a project whose processes are ended with the test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from lilux.primitives.subprocess import SubprocessPrimitive
from tests.runtime_workshop import Workshop
from tests.trust_world import World

__all__ = ["HOST", "directory_of", "host_of", "is_alive", "printed", "process", "project_of"]

HOST = "host.json"
"""The file that says who looks after a process."""


@contextmanager
def project_of(place: Path, name: str = "project") -> Iterator[Workshop]:
    """A project in a place; what runs of it at the end is ended. `name` tells it from others of one user."""

    class Named(World):
        @property
        def project(self) -> Path:
            return self.root / name

    workshop = Workshop(Named(place))
    (workshop.project / ".ai").mkdir(parents=True)
    try:
        yield workshop
    finally:
        for directory in (workshop.world.state / "processes").glob("*/*"):
            with suppress(FileNotFoundError, ProcessLookupError):
                os.kill(host_of(directory)["pid"], signal.SIGKILL)


async def process(workshop: Workshop, tool: str, **parameters: Any) -> Any:
    """The data of a call of `rye/process/…` that succeeds."""
    return await workshop.data(f"rye/process/{tool}", parameters)


async def printed(workshop: Workshop, process_id: str, lines: int = 1) -> list[str]:
    """What a process has printed, once it is so many lines."""
    with anyio.fail_after(20):
        while True:
            text = (await process(workshop, "logs", id=process_id))["text"]
            if text.count("\n") >= lines:
                return str(text).splitlines()


def directory_of(workshop: Workshop, process_id: str) -> Path:
    """Where what is known of a process is kept."""
    (found,) = (workshop.world.state / "processes").glob(f"*/{process_id}")
    return found


def host_of(directory: Path) -> dict[str, Any]:
    """Who looks after a process: the pid, when that began, and in which boot."""
    host: dict[str, Any] = json.loads((directory / HOST).read_bytes())
    return host


async def is_alive(pid: int) -> bool:
    """Whether a process is there."""
    return (await SubprocessPrimitive().status(pid)).alive
