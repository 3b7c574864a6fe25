"""A server that is a program: its standard streams under the supervisor, as the streams of an MCP client.

The supervisor starts, watches and ends it. A line of its standard output is a message, or it is noise:
counted, and read at a pace. What it writes waits until it was dealt with; what it is told waits for at most
`MAX_WAITING_BYTES`. At the end its input is closed, and it has `GRACE_S` to end by itself.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from lilux._json import ValueCount
from lilux.primitives.errors import ConfigurationError, SupervisorError
from lilux.primitives.subprocess import (
    CallSpec,
    Dialogue,
    Enforced,
    Halves,
    ProcessSpec,
    RuntimeSpec,
    SubprocessPrimitive,
)
from rye_mcp.bridge.incoming import Allowance, Noise, answered_request, first_line, unreadable
from rye_mcp.bridge.servers import MAX_MESSAGE_VALUES, BridgeError
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.starting import without_shims
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from mcp.client import Transport

    from lilux.primitives.subprocess import SubprocessResult
    from rye_mcp.bridge.servers import Server
    from rye_mcp.permissions.denials import Denial
    from rye_mcp.permissions.planning import Facts

__all__ = ["StdioProgram"]

GRACE_S: Final = 0.5
"""How long a server may take to end once its standard input has."""

MAX_NOISE_BYTES: Final = 1 << 20
"""How much may stand on standard output between two messages."""

MAX_WAITING_BYTES: Final = 64 << 20
"""How much a server may be told that it has not read."""

MAX_STDERR_BYTES: Final = 4096
"""How much of the end of standard error is kept."""

STDERR_BYTES: Final = (16 << 20, 1 << 20)
"""How much of standard error is read at once, and how much in each second after that."""

_HOW_TO_WRITE: Final = (
    "its server has to send JSON in UTF-8: no half of a surrogate pair, at most 200 lists and objects inside "
    "each other"
)
_SHOWN_CHARACTERS: Final = 1500
_BUFFERED: Final = 16
"""How many messages wait for the client; for more of them the program waits."""

_OBJECT: Final = re.compile(rb"[ \t\r]*\{")
"""How a message begins; a line that begins otherwise is not parsed."""

_Message = SessionMessage | Exception | Noise


class StdioProgram:
    """The program of one connection. `problem` says what ended it, and `on_end` is called then.

    `enforced` is what stands around it, as its launch confirmed it; None where nothing does.
    """

    def __init__(self, server: Server, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self.problem: BridgeError | None = None
        self.noise_lines = 0
        self.enforced: Enforced | None = None
        self._server = server
        self._where: Facts | None = None
        self._to_client, self._from_server = anyio.create_memory_object_stream[_Message](_BUFFERED)
        self._ready: deque[_Message] = deque()
        self._unfinished = bytearray()
        self._owed = 0
        self._is_draining = False
        self._news = anyio.Event()
        self._stderr = b""
        self._stderr_owed = 0
        self._dialogue: Dialogue | None = None
        self._is_over = False
        self._is_ours = False
        self._noise = 0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Transport]:
        """Start it, and talk with it until the block ends."""
        ended = anyio.Event()
        with self._to_client, self._from_server:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run, ended)
                group.start_soon(self._drain)
                group.start_soon(self._pace_stderr)
                while self._dialogue is None and not self._is_over:
                    await self._news.wait()
                try:
                    yield self._from_server, _Input(self)  # type: ignore[misc] # streams, as a client takes them
                finally:
                    self._is_ours = True
                    with anyio.move_on_after(GRACE_S, shield=True):
                        if self._dialogue is not None:
                            self._dialogue.end_input()
                            await ended.wait()
                    group.cancel_scope.cancel()

    def say(self, line: bytes) -> None:
        """Write a message to it; BrokenResourceError when it is gone, or does not read what it is told."""
        if self._dialogue is None or self._is_over:
            raise anyio.BrokenResourceError
        self._dialogue.tell(line)
        if self._dialogue.waiting > MAX_WAITING_BYTES:
            self._fail(BridgeError("lost", f"expected {self._shown} to read what it is told, found it deaf"))
            raise anyio.BrokenResourceError

    # --- the program ---

    async def _run(self, ended: anyio.Event) -> None:
        try:
            result = await SubprocessPrimitive().converse(await self._spec(), self._begin)
        except RyeError as exc:
            self._fail(BridgeError(exc.code, exc.message, hint=exc.hint))
        except (ConfigurationError, SupervisorError) as exc:
            self._fail(
                BridgeError("lost", f"expected the supervisor to run {self._shown}, found: {exc.message}")
            )
        else:
            self._fail(self._ended(result))
        finally:
            ended.set()

    async def _spec(self) -> ProcessSpec:
        """The program that a server names, and what confines it."""
        server = self._server
        found = ProcessSpec(command=server.command, args=server.args, cwd=server.cwd, env=dict(server.env))
        if server.directories is not None:
            found = await without_shims(found, server.directories)
        runtime = RuntimeSpec(
            command=found.command, args=found.args, env=found.env, search_path=found.search_path
        )
        process = Halves(runtime, CallSpec(cwd=found.cwd))
        if server.bounds is not None:
            confined = await server.bounds.around(process)
            process, self._where = confined.process, confined.where
        return process.whole(
            timeout=None, max_output=MAX_STDERR_BYTES, on_output=self._hear, on_started=self._started
        )

    def denied(self, said: str, refused: Iterable[str] = ()) -> Denial | None:
        """Return the rights that it lacked, by names that the door has refused and by its own message."""
        if self._where is None or self.enforced is None or self.enforced.level == "none":
            return None
        from rye_mcp.permissions.denials import suspect

        text = f"{self.last_words}\n{said}"
        return suspect(refused, text, self._server.permissions, self._where, os.path.lexists)

    def _started(self, _pid: int, enforced: Enforced | None) -> None:
        self.enforced = enforced

    def _begin(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._tell()

    def _hear(self, stream: str, data: bytes, _skipped: int) -> None:
        if stream != "stdout":
            self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]
            self._stderr_owed += len(data)
            self._tell()
            return
        self._owed += len(data)
        try:
            self._split(data)
        except BridgeError as exc:
            self._fail(exc)
            return  # nothing more is taken, and it waits for its end
        self._deliver()

    async def _pace_stderr(self) -> None:
        """Take what it wrote to standard error when there is time for it: until then the program waits."""
        allowance = Allowance(*STDERR_BYTES)
        while not self._is_over:
            owed, self._stderr_owed = self._stderr_owed, 0
            if owed:
                await allowance.spend(owed)
                self._take(owed)
            else:
                await self._news.wait()

    def _take(self, size: int) -> None:
        if self._dialogue is not None:
            self._dialogue.took(size)

    def _settle(self) -> None:
        owed, self._owed = self._owed, 0
        self._take(owed)

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    # --- its messages ---

    def _split(self, data: bytes) -> None:
        """Make messages of the lines that are whole."""
        *lines, rest = data.split(b"\n")
        noise = 0
        for line in lines:
            whole = bytes(self._unfinished) + line if self._unfinished else line
            self._unfinished.clear()
            if (message := self._message(whole)) is None:
                noise += 1
            else:
                self._ready.append(message)
        if noise:
            self._ready.append(Noise(noise))
        self._unfinished += rest
        if len(self._unfinished) > self._server.max_message_bytes:
            raise self._too_long()

    def _deliver(self) -> None:
        """Hand messages on as far as there is room; for the rest the program waits."""
        if self._is_draining:
            return
        try:
            while self._ready:
                self._to_client.send_nowait(self._ready[0])
                self._ready.popleft()
        except anyio.WouldBlock:
            self._is_draining = True
            self._tell()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._ready.clear()  # nobody listens any more
        else:
            self._settle()

    async def _drain(self) -> None:
        """Hand on what there was no room for, and tell the client when nothing follows."""
        with self._to_client, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while self._ready or not self._is_over:
                if self._ready:
                    await self._to_client.send(self._ready.popleft())
                    continue
                self._is_draining = False
                self._settle()
                await self._news.wait()

    def _message(self, line: bytes) -> SessionMessage | None:
        if len(line) > self._server.max_message_bytes:
            raise self._too_long()
        if _OBJECT.match(line) is None:
            self._take_noise(len(line))
            return None
        if len(line) > MAX_MESSAGE_VALUES and not ValueCount(MAX_MESSAGE_VALUES).feed(line):
            what = f"expected at most {MAX_MESSAGE_VALUES} values in a message of {self._shown}, found more"
            raise BridgeError("lost", what, hint="ask for less")
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as exc:
            return self._unreadable(line, exc)
        self._noise = 0
        return SessionMessage(message)

    def _unreadable(self, line: bytes, error: ValueError) -> SessionMessage | None:
        """The failure of the call that a line answers, or None for noise."""
        answered = answered_request(line)
        if answered is None:
            self._take_noise(len(line))
            return None
        what = f"expected an answer of {self._shown} that can be read, found: {first_line(error)}"
        why = BridgeError("tool_failed", what, hint=_HOW_TO_WRITE)
        return SessionMessage(unreadable(answered, why))

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

    # --- how it ended ---

    def _ended(self, result: SubprocessResult) -> BridgeError:
        if result.kind == "spawn_failed":
            why = result.stderr if result.error is None else result.error.message
            what = f"expected to start {self._shown}, found: {why}"
            code = None if result.error is None else result.error.code
            if code == "isolation_unavailable":
                return BridgeError(code, what, hint="rye doctor says what this machine cannot enforce")
            hint = "install it, or correct its command"
            return BridgeError("spawn_failed", what, hint=self._hint if code == "command_hidden" else hint)
        how = f"exit code {result.return_code}"
        if result.signal is not None:
            how = f"signal {result.signal}"
        what = f"expected {self._shown} to go on, found that it ended ({how})"
        refused = () if result.network is None else (name for name, _ in result.network.refused)
        said = self.last_words
        return BridgeError("lost", what, hint=self._hint, said=said, denied=self.denied("", refused))

    @property
    def _hint(self) -> str | None:
        """Return the hint for a program that needs more rights."""
        return None if self._server.permissions.unconfined else self._server.how_to_give_more()

    @property
    def last_words(self) -> str:
        """The end of its standard error; every line ends as on Unix."""
        said = self._stderr.decode("utf-8", "replace").replace("\r\n", "\n")
        return said.strip()[-_SHOWN_CHARACTERS:]

    def _fail(self, problem: BridgeError) -> None:
        """Take note of what went wrong first, unless we are ending it, and let the connection end."""
        if not self._is_ours:
            self.problem = self.problem or problem
        self._is_over = True
        self._tell()
        self._on_end()

    @property
    def _shown(self) -> str:
        return f"the server {visible(self._server.name)}"


class _Input:
    """The standard input of a program, as a stream that messages are sent to."""

    def __init__(self, program: StdioProgram) -> None:
        self._program = program

    async def send(self, item: SessionMessage) -> None:
        """Write a message; it waits for nobody."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._program.say(text.encode() + b"\n")

    async def aclose(self) -> None:
        """Do nothing: the caller that started the program ends it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None
