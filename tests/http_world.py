"""A real `rye-mcp --http`: started, asked by clients of the SDK or byte by byte, and ended again."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import anyio
import httpx
import httpx2
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests import forked_server
from tests.people import SCRIPTS, Person

__all__ = [
    "TOKEN",
    "HttpServer",
    "Mode",
    "Transport",
    "connected",
    "gone",
    "http_server",
    "is_alive",
    "post",
]

TOKEN = "a-token-of-the-tests-0123456789"

Mode = Literal["auto", "legacy"]
Transport = Literal["http", "sse"]

_TIMEOUT_S = 30
_NO_TLS = False  # every request is http; certificates would be loaded for each one


@dataclass
class HttpServer:
    """A server that listens."""

    process: subprocess.Popen[bytes]
    url: str
    errors: Path
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    def ended(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """End it with a signal; its exit code."""
        self.process.send_signal(sent)
        return self.process.wait(_TIMEOUT_S)

    def connection(self) -> socket.socket:
        """A connection of one's own, for what no client would send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=_TIMEOUT_S)


@contextmanager
def http_server(
    person: Person,
    project: Path | None,
    *arguments: str,
    token: str | None = TOKEN,
    cwd: Path | None = None,
    installed: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[HttpServer]:
    """A server on a free port, for a project or for none; with `token`, that is its token.

    It is forked, see `tests.forked_server`, or, where that makes a difference, the `installed` script.
    """
    program = [str(SCRIPTS / "rye-mcp")] if installed else [*forked_server.command()]
    named = [] if project is None else ["--project", str(project)]
    environment = person.environment | dict(variables)
    if token is not None:
        environment["RYE_HTTP_TOKEN"] = token
    errors = person.place / "errors of the server"
    with errors.open("wb") as err:
        process = subprocess.Popen(
            [*program, "--http", "127.0.0.1:0", *named, *arguments],
            cwd=cwd or project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, errors.read_text()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        yield HttpServer(process, json.loads(line)["url"], errors, headers)
    finally:
        process.kill()
        process.wait(_TIMEOUT_S)
        process.stdout.close()


@asynccontextmanager
async def connected(
    server: HttpServer, transport: Transport, mode: Mode, **options: Any
) -> AsyncIterator[Client]:
    """The SDK's client."""
    if transport == "sse":
        place = sse_client(f"{server.base}/sse", headers=server.headers)
        async with Client(place, mode=mode, **options) as client:
            yield client
        return
    async with (
        httpx2.AsyncClient(headers=server.headers, timeout=_TIMEOUT_S, trust_env=False) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


def post(
    server: HttpServer, content: bytes | dict[str, Any], path: str = "/mcp", **headers: str
) -> httpx.Response:
    """What the server answers to a message, valid or not."""
    sent = content if isinstance(content, bytes) else json.dumps(content).encode()
    more = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **server.headers,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    with httpx.Client(trust_env=False, timeout=_TIMEOUT_S, verify=_NO_TLS) as client:
        return client.post(f"{server.base}{path}", content=sent, headers=more)


async def gone(pids: Iterable[int]) -> None:
    """Wait for the end of processes; one that only waits to be fetched has ended."""
    left = list(pids)
    while any(is_alive(pid) for pid in left):  # noqa: ASYNC110 - nobody tells of a stranger's end
        await anyio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
