"""A client of our own making: JSON-RPC in lines over standard streams, in both eras, or any bytes at all."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal

from tests import forked_server
from tests.people import Person

__all__ = ["Era", "RawClient", "raw_client"]

Era = Literal["2025-11-25", "2026-07-28"]

_TIMEOUT_S: Final = 30
_INFO: Final = {"name": "raw", "version": "1"}


@dataclass
class RawClient:
    """A server that was started, and its two streams."""

    process: subprocess.Popen[bytes]
    era: Era
    log: Path
    _pending: bytes = field(default=b"", repr=False)

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def request(self, number: Any, method: str, params: Any = None) -> dict[str, Any]:
        """A request as it has to be in this era."""
        if isinstance(params, Mapping | None):
            params = {**self._meta(), **(params or {})}
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    def call(self, number: Any, tool: str, arguments: Any) -> dict[str, Any]:
        """A request that calls a tool."""
        return self.request(number, "tools/call", {"name": tool, "arguments": arguments})

    def send(self, *messages: Any) -> None:
        """Send messages, or bytes as they are, a line each."""
        lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages]
        self.stdin.write(b"".join(line + b"\n" for line in lines))
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message; AssertionError when there is none."""
        end = time.monotonic() + _TIMEOUT_S
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self.stdout], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self.stdout.fileno(), 1 << 20) if ready else b""
            assert piece, f"expected a message, found none, and before it {self._pending[:200]!r}"
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def answer(self, number: Any) -> dict[str, Any]:
        """The answer to a request; other messages before it are passed over."""
        while (message := self.receive()).get("id") != number or "method" in message:
            pass
        return message

    def answers(self, count: int) -> list[dict[str, Any]]:
        """So many answers, as they come."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            message = self.receive()
            found += [message] if "method" not in message else []
        return found

    def begin(self) -> None:
        """What a client of this era begins with."""
        if self.era == "2025-11-25":
            params = {"protocolVersion": self.era, "capabilities": {}, "clientInfo": _INFO}
            self.send(self.request("begin", "initialize", params))
            assert self.answer("begin")["result"]["protocolVersion"] == self.era
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            self.send(self.request("begin", "server/discover"))
            assert self.era in self.answer("begin")["result"]["supportedVersions"]

    def is_well(self) -> None:
        """The next call works."""
        self.send(self.call("well", "search", {"query": "bash"}))
        assert self.answer("well")["result"]["isError"] is False

    def errors(self) -> str:
        """What the server has said of errors."""
        lines = self.log.read_text().splitlines()
        return "\n".join(line for line in lines if '"level": "info"' not in line)

    def end(self) -> int:
        """Go away, and wait for the server to do so; its exit code."""
        self.stdin.close()
        drain = threading.Thread(target=self.stdout.read, daemon=True)
        drain.start()
        return self.process.wait(_TIMEOUT_S)

    def _meta(self) -> dict[str, Any]:
        if self.era == "2025-11-25":
            return {}
        return {
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": self.era,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": _INFO,
            }
        }


@contextmanager
def raw_client(person: Person, project: Path, era: Era, *arguments: str) -> Iterator[RawClient]:
    """A server, ended with the block."""
    descriptor, log = tempfile.mkstemp(dir=person.place)
    process = subprocess.Popen(
        [*forked_server.command(), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=descriptor,
        env=person.environment,
        cwd=project,
    )
    os.close(descriptor)
    try:
        yield RawClient(process, era, Path(log))
    finally:
        process.kill()
        process.wait(_TIMEOUT_S)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue
