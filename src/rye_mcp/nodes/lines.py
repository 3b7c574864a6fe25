"""What carries the bytes of a worker: a program on this machine, such as `rye worker` itself, or `ssh`.

A line knows nothing of what it carries: calls are sealed before they come here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from lilux.primitives.errors import ConfigurationError, SupervisorError
from lilux.primitives.subprocess import Dialogue, ProcessSpec, SubprocessPrimitive, SubprocessResult
from rye_mcp.errors import RyeError

__all__ = ["Hear", "Line", "Program", "Sink"]

_MAX_SAID_BYTES: Final = 4096
_SHOWN_CHARACTERS: Final = 500

Hear = Callable[[bytes], None]
"""Takes the next bytes that a worker has written."""


class Sink(Protocol):
    """The end of a line into which a server writes."""

    def tell(self, data: bytes) -> None:
        """Write; what comes after the end goes nowhere."""

    def end_input(self) -> None:
        """Say that nothing more will come."""


class Line(Protocol):
    """Starts a worker somewhere, and carries bytes to it and from it."""

    @property
    def said(self) -> str:
        """The last words of the program beside its frames: why it did not start, for a person."""

    async def carry(self, hear: Hear, begin: Callable[[Sink], None]) -> str:
        """Carry until the worker ends: how it did, in words. RyeError when it can't be started."""


class Program:
    """A program whose standard streams are those of a worker."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._environment = dict(environment)
        self._dialogue: Dialogue | None = None
        self._stderr = b""

    @property
    def said(self) -> str:
        """The end of its standard error."""
        return self._stderr.decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:]

    async def carry(self, hear: Hear, begin: Callable[[Sink], None]) -> str:
        """Run it; it is ended with all that it started when the caller is cancelled."""

        def begun(dialogue: Dialogue) -> None:
            self._dialogue = dialogue
            begin(dialogue)

        def heard(stream: str, data: bytes, _skipped: int) -> None:
            if self._dialogue is not None:
                self._dialogue.took(len(data))
            if stream == "stdout":
                hear(data)
            else:
                self._stderr = (self._stderr + data)[-_MAX_SAID_BYTES:]

        spec = ProcessSpec(
            command=self._command[0],
            args=self._command[1:],
            cwd="/",
            env=self._environment,
            timeout=None,
            on_output=heard,
        )
        try:
            return _how(await SubprocessPrimitive().converse(spec, begun))
        except (ConfigurationError, SupervisorError) as exc:
            what = f"expected the supervisor to run {self._command[0]}, found: {exc.message}"
            raise RyeError("engine_unreachable", what) from exc


def _how(result: SubprocessResult) -> str:
    """How a program ended, in words."""
    if result.kind == "spawn_failed":
        return "that it could not be started" + ("" if result.error is None else f": {result.error.message}")
    if result.signal is not None:
        return f"that it ended by the signal {result.signal}"
    return f"that it ended with exit code {result.return_code}"
