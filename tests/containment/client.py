"""A client of `lilux-proc serve` that knows nothing but frames.

It speaks without any line of `lilux`, so that these tests say something about the supervisor and about
nothing else.

    with Client.start(binary) as client:
        ended = client.run("echo", "hello")
        assert ended.stdout == b"hello\\n"
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = struct.Struct(">II")
MAX_PAYLOAD = 64 * 1024
INPUT_WINDOW = 256 * 1024
ANSWER_S = 30.0
"""How long an event may take that has no time limit of its own."""

WAIT = 'cat <&20 >/dev/null; exec 20<&-; exec "$@"'
"""A shell that reads its call to the end, and then becomes its arguments."""

BEGIN = 'import sys; exec(compile(sys.argv[1], "<lilux>", "exec"), {})'
WAITER = Path(__file__).parents[2] / "src" / "lilux" / "_waiter.py"
"""What a Python interpreter waits with; it is no part of the supervisor, nor of a client."""

TERMINAL = frozenset(["closed", "error", "killed", "status"])


class StreamEndedError(Exception):
    """The supervisor has closed its end."""


@dataclass(frozen=True)
class Frame:
    """One event: its header, its payload, and when it came (monotonic clock)."""

    header: dict[str, Any]
    payload: bytes
    at: float

    @property
    def event(self) -> str:
        return str(self.header["event"])

    @property
    def id(self) -> int | None:
        number: int | None = self.header.get("id")
        return number


@dataclass(frozen=True)
class Ended:
    """All that came for one id, the last event at the end."""

    frames: list[Frame]
    streams: dict[str, bytes] = field(default_factory=dict)

    @property
    def last(self) -> Frame:
        return self.frames[-1]

    @property
    def result(self) -> dict[str, Any]:
        assert self.last.event == "closed", self.last.header
        found: dict[str, Any] = self.last.header["result"]
        return found

    @property
    def error(self) -> str:
        """The code of the failure, of whichever of the two sorts."""
        header = self.last.header
        code: str = header["code"] if self.last.event == "error" else header["result"]["error"]["code"]
        return code

    @property
    def stdout(self) -> bytes:
        return self.streams["stdout"]

    @property
    def stderr(self) -> bytes:
        return self.streams["stderr"]

    def events(self, *names: str) -> list[Frame]:
        return [frame for frame in self.frames if frame.event in names]


def encode(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(header).encode()
    return PREFIX.pack(len(text), len(payload)) + text + payload


class Client:
    """One supervisor and the socket to it."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self.socket = sock
        self._buffer = bytearray()
        self._next_id = 0
        self._waiting: dict[int | None, deque[Frame]] = defaultdict(deque)
        self.hello = self.next_for(None)

    @classmethod
    @contextmanager
    def start(
        cls,
        binary: Path,
        *,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> Iterator[Client]:
        """Start a supervisor, through the command `before` if there is one, and end it afterwards."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [*before, str(binary), "serve"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                env={**os.environ, **(env or {})},
            )
        with ours, process:
            try:
                yield cls(process, ours)
            finally:
                ours.close()
                try:
                    process.wait(ANSWER_S)
                finally:
                    process.kill()

    # --- requests ---------------------------------------------------------------

    def send(self, op: str, payload: bytes = b"", *, id: int | None = None, **fields: Any) -> int:
        """Send one request; its id."""
        number = self.new_id() if id is None else id
        self.socket.sendall(encode({"op": op, "id": number, **fields}, payload))
        return number

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def start_run(self, command: str | Path, *args: Any, payload: bytes = b"", **fields: Any) -> int:
        """Ask for a run and go on; its id."""
        texts = [arg if isinstance(arg, dict) else str(arg) for arg in args]
        return self.send("run", payload, command=str(command), args=texts, **fields)

    def park(self, command: str | Path, *args: Any, **fields: Any) -> int:
        """Start something that waits for its call, and then is this command; its id."""
        run = self.start_run("/bin/bash", "-c", WAIT, "bash", command, *args, park={}, **fields)
        self.wait_for(run, "parked")
        return run

    def start_zygote(self, *, waiter: str = "", command: str = sys.executable, **fields: Any) -> Frame:
        """Start a Python that others are forked from; what it says when it is ready."""
        ready = json.dumps({"preload": [], "scripts": []})
        args = ["-s", "-B", "-c", BEGIN, waiter or WAITER.read_text(), "zygote", ready]
        zygote = self.start_run(command, *args, park={}, prepare=True, cwd="/", **fields)
        return self.wait_for(zygote, "parked")

    def fork(self, zygote: int | None, **fields: Any) -> int:
        """Have a zygote fork what waits for its call; its id."""
        run = self.send("run", command="", zygote=zygote, park={}, **fields)
        self.wait_for(run, "parked")
        return run

    def run(self, command: str | Path, *args: Any, payload: bytes = b"", **fields: Any) -> Ended:
        """Run something to its end."""
        return self.end_of(self.start_run(command, *args, payload=payload, **fields))

    def feed(self, run: int, data: bytes, *, eof: bool = True) -> Ended:
        """Give a run all this as its standard input, as fast as it is credited, until it ends."""
        window, rest, frames = INPUT_WINDOW, memoryview(data), []
        while True:
            while rest and window:
                piece = rest[: min(window, MAX_PAYLOAD)]
                window, rest = window - len(piece), rest[len(piece) :]
                self.send("input", bytes(piece), id=run, eof=eof and not rest)
            frames.append(self.next_for(run))
            if frames[-1].event in TERMINAL:
                return Ended(frames, _streams(frames))
            if frames[-1].event == "credit":
                window += frames[-1].header["bytes"]

    def shell(self, script: str, *args: Any, **fields: Any) -> Ended:
        """Run a script for `sh`."""
        return self.run("/bin/sh", "-c", script, "sh", *args, **fields)

    def ask(self, op: str, **fields: Any) -> Frame:
        """Ask something that has one answer."""
        return self.next_for(self.send(op, **fields))

    def status(self) -> dict[str, Any]:
        """How the supervisor itself is."""
        return self.ask("status").header

    # --- events -----------------------------------------------------------------

    def read(self, timeout: float = ANSWER_S) -> Frame:
        """The next event, of whatever id."""
        deadline = time.monotonic() + timeout
        while (frame := self._take()) is None:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise StreamEndedError(f"{len(self._buffer)} bytes of a frame were left")
            self._buffer += piece
        return frame

    def next_for(self, id: int | None, timeout: float = ANSWER_S) -> Frame:
        """The next event of this id; those of others wait."""
        deadline = time.monotonic() + timeout
        waiting = self._waiting[id]
        while not waiting:
            frame = self.read(max(0.001, deadline - time.monotonic()))
            self._waiting[frame.id].append(frame)
        return waiting.popleft()

    def wait_for(self, id: int, event: str) -> Frame:
        """The next event of this id and name; others of this id are dropped."""
        while (frame := self.next_for(id)).event != event:
            assert frame.event not in TERMINAL, frame.header
        return frame

    def end_of(self, id: int, timeout: float = ANSWER_S) -> Ended:
        """Everything that comes for an id, up to its last event."""
        frames = [self.next_for(id, timeout)]
        while frames[-1].event not in TERMINAL:
            frames.append(self.next_for(id, timeout))
        return Ended(frames, _streams(frames))

    def has_more_for(self, id: int) -> bool:
        """Whether anything came for an id and was not asked for. Ask after another answer has come."""
        return bool(self._waiting[id])

    def _take(self) -> Frame | None:
        if len(self._buffer) < PREFIX.size:
            return None
        header_size, payload_size = PREFIX.unpack_from(self._buffer)
        body, end = PREFIX.size + header_size, PREFIX.size + header_size + payload_size
        if len(self._buffer) < end:
            return None
        header = json.loads(self._buffer[PREFIX.size : body])
        payload = bytes(self._buffer[body:end])
        del self._buffer[:end]
        return Frame(header, payload, time.monotonic())


def _streams(frames: list[Frame]) -> dict[str, bytes]:
    if frames[-1].event != "closed":
        return {}
    streams = dict.fromkeys(("stdout", "stderr", "result"), b"")
    for frame in frames:
        if frame.event == "captured":
            streams[frame.header["stream"]] += frame.payload
    rest = frames[-1].payload
    for name in streams:
        kept = (frames[-1].header["result"][name] or {"kept": 0})["kept"]
        if rest:
            streams[name], rest = rest[:kept], rest[kept:]
        assert len(streams[name]) == kept, f"{name}: {kept} bytes were announced, {len(streams[name])} came"
    assert not rest
    return streams
