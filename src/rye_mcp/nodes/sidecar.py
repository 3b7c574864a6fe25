"""Asks a Ray cluster for slots, and carries bytes between them and its own standard streams, as frames.

It is run by its path in the interpreter of the cluster, with the standard library and ray alone. It carries
sealed bytes, and has no key; it runs as the user of the server, so it reads no pickle of a slot. It ends when
its input does, and Ray then ends the slots. What asks the head is done in threads: it can block for a minute.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

PIECE_BYTES = 60 << 10
"""How many bytes go in one frame; Ray keeps so few out of its object store."""

ASK_S = 10.0
"""How long the head of the cluster may take to answer."""

CLOSING_S = 2.0
"""How long a worker may take to end by itself."""

SAID_BYTES = 2000

UNUSED = ("pydantic", "starlette")
"""What Ray imports where it is there, for objects that never come here: 13 MB."""

_PREFIX = struct.Struct(">II")


class Slot:
    """An actor: it holds what so many calls need of a node, and the one worker that does them."""

    def __init__(self) -> None:
        self._waiting: dict[int, bytes] = {}
        self._next = 0

    async def begin(self, command: list[str]) -> bytes:
        """Start the worker, as this user, without what Ray has in its environment: the token, above all.

        Why that failed; nothing if it did not.
        """
        pipe = asyncio.subprocess.PIPE
        variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        try:
            self._worker: Any = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env=variables
            )
        except OSError as exc:
            return f"{type(exc).__name__}: {exc}".encode()
        self._said = asyncio.ensure_future(self._listen())
        return b""

    async def feed(self, number: int, data: bytes) -> None:
        """Write to the worker, in the order of the numbers."""
        self._waiting[number] = data
        while (piece := self._waiting.pop(self._next, None)) is not None:
            self._worker.stdin.write(piece)
            self._next += 1

    async def read(self) -> bytes:
        """The next bytes of the worker; none at the end."""
        data: bytes = await self._worker.stdout.read(PIECE_BYTES)
        return data

    async def end(self) -> bytes:
        """How the worker ended, and what it said beside its frames if it was given nothing to do, as JSON."""
        said = await self._said
        code = await self._worker.wait()
        return json.dumps([code, "" if self._next else said.decode("utf-8", "replace").strip()]).encode()

    async def close(self) -> None:
        """Have the worker end by itself, or end it; its supervisor then ends what it has started."""
        self._worker.stdin.close()
        try:
            await asyncio.wait_for(self._worker.wait(), CLOSING_S)
        except TimeoutError:
            self._worker.kill()
            await self._worker.wait()

    async def _listen(self) -> bytes:
        """The end of what the worker says, read so that it never waits for somebody who listens."""
        last = b""
        while data := await self._worker.stderr.read(PIECE_BYTES):
            last = (last + data)[-SAID_BYTES:]
        return last


def width_of(shape: dict[str, Any], width: int, nodes: list[dict[str, Any]]) -> int:
    """How many calls of a shape, up to `width`, fit into one slot on the node that has most of it; 0 on none.

    Ray would wait without a word for a node that it does not have.
    """
    wanted = {"CPU": shape["cpu"], "memory": shape["memory"], "GPU": shape["gpu"]}
    fitting = [0]
    for node in nodes:
        has, labels = node.get("Resources", {}), node.get("Labels") or {}
        if node.get("Alive") and shape["labels"].items() <= labels.items():
            room = [int(has.get(name, 0) // amount) for name, amount in wanted.items() if amount]
            fitting.append(min([width, *room]))
    return min(max(fitting), 1) if shape["gpu"] else max(fitting)


class Sidecar:
    """The slots of one server."""

    def __init__(self, ray: Any, out: asyncio.StreamWriter) -> None:
        self._ray = ray
        self._out = out
        self._wanted: set[int] = set()
        self._slots: dict[int, Any] = {}
        self._fed: dict[int, int] = {}
        """How many pieces each slot that is on a node was given."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, read: asyncio.StreamReader) -> None:
        """Do what the server says until it has nothing more to say."""
        while frame := await next_frame(read):
            header, payload = frame
            match header["op"]:
                case "open":
                    self._wanted.add(header["slot"])
                    self._beside(self._open(header))
                case "feed":
                    self._feed(header["slot"], payload)
                case "close":
                    self._wanted.discard(header["slot"])
                    self._beside(self._close(header["slot"]))
        self._wanted.clear()
        await asyncio.gather(*(self._close(number) for number in list(self._slots)), return_exceptions=True)

    def _beside(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, header: dict[str, Any]) -> None:
        number, shape = header["slot"], header["shape"]
        try:
            width = width_of(shape, header["width"], await self._asked(self._ray.nodes))
            if not width:
                await self._tell({"op": "ended", "slot": number, "unfit": True})
                return
            slot = self._slots[number] = await self._asked(lambda: self._made(shape, width))
            if number not in self._wanted:
                await self._close(number)
                return
            if problem := bytes_of(await slot.begin.remote(header["command"])):
                raise OSError(problem.decode("utf-8", "replace"))
            self._fed[number] = 0
            await self._tell({"op": "placed", "slot": number, "width": width})
            while data := bytes_of(await slot.read.remote()):
                await self._tell({"op": "said", "slot": number}, data)
            how, said = end_of(bytes_of(await slot.end.remote()))
        except (OSError, TimeoutError, ValueError, self._ray.exceptions.RayError) as exc:
            how, said = f"{type(exc).__name__}: {str(exc)[:300]}", ""
        await self._tell({"op": "ended", "slot": number, "how": how, "said": said})
        await self._close(number)

    def _made(self, shape: dict[str, Any], width: int) -> Any:
        options = {"num_gpus": shape["gpu"]} if shape["gpu"] else {}
        if shape["labels"]:
            options["label_selector"] = shape["labels"]
        return (
            self._ray.remote(Slot)
            .options(
                num_cpus=shape["cpu"] * width,
                memory=shape["memory"] * width,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=1000,
                scheduling_strategy="SPREAD",
                enable_task_events=False,
                **options,
            )
            .remote()
        )

    def _feed(self, number: int, data: bytes) -> None:
        """Pass bytes on. If a slot is gone, the task that reads from it says so."""
        if (slot := self._slots.get(number)) is not None and number in self._fed:
            slot.feed.remote(self._fed[number], data)
            self._fed[number] += 1

    async def _close(self, number: int) -> None:
        if (slot := self._slots.pop(number, None)) is None:
            return
        if self._fed.pop(number, None) is not None:
            with suppress(TimeoutError, self._ray.exceptions.RayError):  # one that hangs or is dead
                await asyncio.wait_for(slot.close.remote(), 2 * CLOSING_S)
        await self._asked(lambda: self._ray.kill(slot))

    async def _asked(self, ask: Any) -> Any:
        """What the head of the cluster answers; TimeoutError when it does not."""
        return await asyncio.wait_for(asyncio.to_thread(ask), ASK_S)

    async def _tell(self, header: dict[str, Any], payload: bytes = b"") -> None:
        self._out.write(frame_of(header, payload))
        await self._out.drain()


def bytes_of(answer: Any) -> bytes:
    """What a slot has answered; ValueError for anything but bytes, as many as fit into a frame."""
    if type(answer) is not bytes or len(answer) > PIECE_BYTES:
        raise ValueError(f"expected bytes of a slot, found {type(answer).__name__}")
    return answer


def end_of(answer: bytes) -> tuple[str, str]:
    """How a worker ended, in words, and what it said; ValueError for what `Slot.end` does not answer."""
    try:
        code, said = json.loads(answer)
        return f"that it ended with exit code {int(code)}", str(said)[:SAID_BYTES]
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError(f"expected the end of a worker, found {type(exc).__name__}") from exc


def frame_of(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """A frame as the supervisor's protocol has it."""
    text = json.dumps(header).encode("ascii")
    return _PREFIX.pack(len(text), len(payload)) + text + payload


async def next_frame(read: asyncio.StreamReader) -> tuple[dict[str, Any], bytes] | None:
    """The next frame; None at the end."""
    try:
        head, body = _PREFIX.unpack(await read.readexactly(_PREFIX.size))
        return json.loads(await read.readexactly(head)), await read.readexactly(body)
    except asyncio.IncompleteReadError:
        return None


async def main(output: int) -> None:
    """Connect as the first frame says, then serve."""
    loop = asyncio.get_running_loop()
    read = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(read), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(output, "wb")
    )
    out = asyncio.StreamWriter(transport, protocol, read, loop)
    frame = await next_frame(read)
    if frame is None:
        return
    try:
        ray = connected(frame[0])
    except (ConnectionError, ImportError, OSError, RuntimeError, ValueError) as exc:
        out.write(frame_of({"op": "failed", "how": f"{type(exc).__name__}: {str(exc)[:300]}"}))
        await out.drain()
        return
    out.write(frame_of({"op": "connected"}))
    await Sidecar(ray, out).serve(read)


def unpickle_nothing(ray: Any) -> None:
    """Have Ray make no objects here of what the cluster says, and start nothing that the cluster names.

    A pickle runs what it likes, and other users than that of the server can answer in the name of a slot.
    """

    def refused(*_: Any, **__: Any) -> Any:
        raise ValueError("expected bytes of a slot, found a pickle")

    pickles = import_module("ray.cloudpickle")
    pickles.loads = pickles.load = refused  # type: ignore[attr-defined]
    ray.__traced__ = True  # else ray.init calls a function that the head of the cluster names


def connected(header: dict[str, Any]) -> Any:
    """Ray, once it is connected."""
    sys.modules.update(dict.fromkeys(UNUSED))  # type: ignore[arg-type]  # to import None fails
    try:
        ray = import_module("ray")
    except ModuleNotFoundError as exc:
        raise ImportError(f"{sys.executable} has no {exc.name}: pip install 'rye-mcp[ray]'") from exc
    unpickle_nothing(ray)
    host, _, port = header["address"].rpartition(":")
    with socket.create_connection((host, int(port)), ASK_S):
        pass  # Ray itself would take 20 s to say that there is nobody
    here = {} if header["here"] is None else {"_node_ip_address": header["here"]}
    ray.init(header["address"], namespace="rye", log_to_driver=False, logging_level=logging.ERROR, **here)
    return ray


if __name__ == "__main__":
    own = os.dup(1)
    os.dup2(2, 1)  # anything else that prints to standard output must not get among the frames
    asyncio.run(main(own))
    os._exit(0)  # threads that ask a head which is gone would keep this process
