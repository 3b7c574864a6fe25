"""A server that is a program: its standard streams under the supervisor, as the streams of an MCP client.

Rules:

- The program is started, watched and ended by the supervisor: it cannot outlive this process.
- A line of its standard output is a message, or it is noise: counted, and passed over. A line that is longer
  than a message may be, or noise beyond `MAX_NOISE_BYTES` without any message, ends the connection.
- What it writes waits until it is dealt with; what it is told waits for at most `MAX_WAITING_BYTES`.
- Of its standard error the end is kept, for who wants to know why it ended.
- At the end its standard input is closed, and it has `GRACE_S` to end by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from lilux.primitives.errors import ConfigurationError, SupervisorError
from lilux.primitives.subprocess import Dialogue, ProcessSpec, SubprocessPrimitive
from rye_mcp.bridge.failures import BridgeError
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client import Transport

    from lilux.primitives.subprocess import SubprocessResult
    from rye_mcp.bridge.servers import Server

__all__ = ["StdioProgram"]

GRACE_S: Final = 0.5
"""How long a server may take to end once its standard input has."""

MAX_NOISE_BYTES: Final = 1 << 20
"""How much may stand on standard output between two messages."""

MAX_WAITING_BYTES: Final = 64 << 20
"""How much a server may be told that it has not read."""

MAX_STDERR_BYTES: Final = 4096
"""How much of the end of standard error is kept."""

_SHOWN_CHARACTERS: Final = 600


class StdioProgram:
    """The program of one connection. `problem` says what ended it, and `on_end` is called then."""

    def __init__(self, server: Server, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.problem: BridgeError | None = None
        self.noise_lines = 0
        self._server = server
        self._pieces: deque[bytes] = deque()
        self._news = anyio.Event()
        self._stderr = b""
        self._dialogue: Dialogue | None = None
        self._is_over = False
        self._is_ours = False
        self._noise = 0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Transport]:
        """Start it, and talk with it until the block ends."""
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](16)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](16)
        ended = anyio.Event()
        with to_client, from_server, to_server, from_client:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run, ended)
                group.start_soon(self._read, to_client)
                group.start_soon(self._write, from_client)
                try:
                    yield from_server, to_server  # type: ignore[misc] # the SDK's own stdio client yields these
                finally:
                    self._is_ours = True
                    with anyio.move_on_after(GRACE_S, shield=True):
                        if self._dialogue is not None:
                            self._dialogue.end_input()
                            await ended.wait()
                    group.cancel_scope.cancel()

    # --- the program ---

    async def _run(self, ended: anyio.Event) -> None:
        server = self._server
        try:
            spec = ProcessSpec(
                command=server.command,
                args=server.args,
                cwd=server.cwd,
                env=dict(server.env),
                timeout=None,
                max_output=MAX_STDERR_BYTES,
                on_output=self._hear,
            )
            result = await SubprocessPrimitive().converse(spec, self._begin)
        except (ConfigurationError, SupervisorError) as exc:
            self._fail(
                BridgeError("lost", f"expected the supervisor to run {self._shown}, found: {exc.message}")
            )
        else:
            self._fail(self._ended(result))
        finally:
            self._is_over = True
            ended.set()
            self._tell()
            self._on_end()

    def _begin(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._tell()

    def _hear(self, stream: str, data: bytes, _skipped: int) -> None:
        if stream == "stdout":
            self._pieces.append(data)
            self._tell()
            return
        self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]
        if self._dialogue is not None:
            self._dialogue.took(len(data))

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    # --- its messages ---

    async def _read(self, to_client: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        with to_client:
            try:
                await self._messages(to_client)
            except BridgeError as exc:
                self._fail(exc)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # nobody listens any more

    async def _messages(self, to_client: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        unfinished = bytearray()
        while self._pieces or not self._is_over:
            if not self._pieces:
                await self._news.wait()
                continue
            piece = self._pieces.popleft()
            at = 0
            while (end := piece.find(b"\n", at)) >= 0:
                line = bytes(unfinished) + piece[at:end] if unfinished else piece[at:end]
                unfinished.clear()
                at = end + 1
                if (message := self._message(line)) is not None:
                    await to_client.send(message)
            unfinished += piece[at:]
            if len(unfinished) > self._server.max_message_bytes:
                raise self._too_long()
            if self._dialogue is not None:
                self._dialogue.took(len(piece))

    def _message(self, line: bytes) -> SessionMessage | None:
        if len(line) > self._server.max_message_bytes:
            raise self._too_long()
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if line.strip():
                self._take_noise(len(line))
            return None
        self._noise = 0
        return SessionMessage(message)

    def _take_noise(self, size: int) -> None:
        self.noise_lines += 1
        self._noise += size + 1
        if self._noise > MAX_NOISE_BYTES:
            what = (
                f"expected messages on the standard output of {self._shown}, found a flood of something else"
            )
            raise BridgeError("lost", what)

    def _too_long(self) -> BridgeError:
        limit = self._server.max_message_bytes
        return BridgeError(
            "lost",
            f"expected at most {limit} bytes in a message of {self._shown}, found more, and ended it",
            hint="ask for less, or raise config.max_message_bytes of the tool",
        )

    async def _write(self, from_client: MemoryObjectReceiveStream[SessionMessage]) -> None:
        with from_client:
            while self._dialogue is None and not self._is_over:
                await self._news.wait()
            async for each in from_client:
                if self._dialogue is None or self._is_over:
                    return
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._dialogue.tell(text.encode() + b"\n")
                if self._dialogue.waiting > MAX_WAITING_BYTES:
                    what = f"expected {self._shown} to read what it is told, found it deaf"
                    self._fail(BridgeError("lost", what))
                    self._is_over = True
                    self._tell()
                    return

    # --- how it ended ---

    def _ended(self, result: SubprocessResult) -> BridgeError:
        if result.kind == "spawn_failed":
            why = result.stderr if result.error is None else result.error.message
            what = f"expected to start {self._shown}, found: {why}"
            return BridgeError("spawn_failed", what, hint="install it, or mend its command")
        how = f"exit code {result.return_code}"
        if result.signal is not None:
            how = f"signal {result.signal}"
        last = visible(self._stderr.decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:])
        said = f"; it last said: {last}" if last else ""
        return BridgeError("lost", f"expected {self._shown} to go on, found that it ended ({how}){said}")

    def _fail(self, problem: BridgeError) -> None:
        """Take note of what went wrong first, unless we are ending it, and let the connection end."""
        if not self._is_ours:
            self.problem = self.problem or problem
        self._on_end()

    @property
    def _shown(self) -> str:
        return f"the server {visible(self._server.name)}"
