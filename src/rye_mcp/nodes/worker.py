"""The worker: takes sealed calls from a stream, runs them by what this user trusts, and answers.

Every call passes the ordinary executor. A call ends when its sender cancels it, is silent for `SILENCE_S`, or
something of its channel is lost; all calls end when the stream does. Then nothing of them is left running.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup

from lilux._dataclasses import dataclass
from lilux._frames import FrameDecoder, Header, decode_header, encode_frame
from lilux.primitives.errors import SupervisorError
from rye_mcp.apart import LARGE, off_loop, size_of
from rye_mcp.errors import RyeError
from rye_mcp.executor.bundle import MAX_BUNDLE_BYTES, Bundle
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import ItemFile, Space, SpaceName, parse_relative_path
from rye_mcp.metadata import SHARED, parse_metadata
from rye_mcp.nodes.messages import HEADER_BYTES, Incoming, Outgoing, Output, message
from rye_mcp.nodes.outcomes import SMALL_BYTES, encode_refusal, encode_result
from rye_mcp.nodes.seal import Channel, Instance, Refused
from rye_mcp.nodes.submitters import Submitters
from rye_mcp.nodes.trees import Arriving
from rye_mcp.nodes.workspaces import Workspaces
from rye_mcp.permissions import Access, Permissions
from rye_mcp.runs.ids import StreamName

__all__ = ["MAX_CALLS", "RUNS", "SILENCE_S", "Outlet", "Read", "Worker"]

SILENCE_S: Final = 15.0
"""How long a call goes on whose sender says nothing. The sender gives up later than that."""

MAX_CALLS: Final = 64
"""How many calls a worker does at a time."""

RUNS: Final = frozenset({"rye/core/primitives/subprocess", "rye/core/primitives/http_client"})
"""What a chain may end with on a node: what leaves nothing behind, and asks this program for nothing."""

_OF_A_PROJECT: Final = frozenset({"git", "items", "packages"})

_log = logging.getLogger(__name__)

Read = Callable[[], Awaitable[bytes]]
"""The next bytes of a stream; none at its end."""


class Outlet(Protocol):
    """Where bytes go out, as far as the other end takes them."""

    def take(self, data: memoryview, /) -> memoryview:
        """Write what is taken without waiting; what is left of it."""

    async def wait(self) -> None:
        """Wait until something more is taken."""


@dataclass(slots=True)
class _Call:
    """One call that was opened. `problem` says why it ends early, where its sender does not know it."""

    submitter: str
    channel: Channel
    scope: anyio.CancelScope
    incoming: Incoming = field(default_factory=lambda: Incoming(limit=MAX_BUNDLE_BYTES))
    outgoing: Outgoing = field(default_factory=Outgoing)
    bundle: bytes | None = None
    files: Arriving = field(default_factory=Arriving)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    problem: RyeError | None = None

    def give_up(self, problem: RyeError) -> None:
        """End it; the first reason counts."""
        self.problem = self.problem or problem
        self.scope.cancel()


class Worker:
    """A worker process. `executor` has no project but an empty directory, `workspaces` the other ones."""

    def __init__(
        self,
        instance: Instance,
        executor: PrimitiveExecutor,
        submitters: Submitters,
        workspaces: Workspaces,
        *,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._instance = instance
        self._executor = executor
        self._submitters = submitters
        self._workspaces = workspaces
        self._silence_s = silence_s
        self._calls: dict[str, _Call] = {}
        self._pending = bytearray()
        self._has_more = anyio.Event()

    async def serve(self, read: Read, outlet: Outlet) -> None:
        """Do what comes in until the stream ends; RyeError `lost` if it has something else than frames."""
        problem: SupervisorError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._write, outlet)
            self._send(self._instance.hello())
            try:
                await self._listen(read, group)
            except SupervisorError as exc:
                problem = exc
            finally:
                group.cancel_scope.cancel()
        if problem is not None:
            raise RyeError("lost", f"expected frames from the server, found: {problem.message}") from problem

    async def _listen(self, read: Read, group: TaskGroup) -> None:
        frames = FrameDecoder(header_limit=HEADER_BYTES)
        while data := await read():
            for raw, payload in frames.feed(data):
                self._take(decode_header(raw), payload, group)

    # --- what comes in ---

    def _take(self, header: Header, payload: bytes, group: TaskGroup) -> None:
        match header.get("op"):
            case "call":
                self._open(header, group)
            case "sealed":
                if (call := self._calls.get(str(header.get("run")))) is not None:
                    self._hear(call, header.get("n"), payload)
            case other:
                _log.warning("a frame that is neither a call nor a part of one: %r", str(other)[:80])

    def _open(self, header: Header, group: TaskGroup) -> None:
        try:
            if str(header.get("run")) in self._calls:  # it may go on for longer than its envelope is good
                raise Refused("replayed")
            submitter, channel = self._instance.open(header)
        except Refused as exc:
            _log.warning("an envelope was not opened: %s", exc)
            self._send(self._instance.unopened(header, exc.reason))
            return
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._silence_s)
        self._calls[channel.run_id] = call = _Call(submitter, channel, scope)
        if len(self._calls) > MAX_CALLS:
            what = f"expected at most {MAX_CALLS} calls at a time, found one more"
            call.give_up(RyeError("node_refused", what, hint="call it again later"))
        group.start_soon(self._do, call)

    def _hear(self, call: _Call, number: Any, payload: bytes) -> None:
        """Take a piece of a call's stream; what is wrong with it ends the call."""
        try:
            data = call.channel.open(number, payload)
            for header, body in call.incoming.feed(data):
                self._obey(call, header, body)
        except RyeError as exc:
            call.give_up(exc)
            return
        if data:
            call.scope.deadline = anyio.current_time() + self._silence_s

    def _obey(self, call: _Call, header: Header, body: bytes) -> None:
        match header["op"]:
            case "bundle" if not call.arrived.is_set():
                call.bundle = body
                call.arrived.set()
            case "tree":
                call.files.hear_list(body)
            case "blobs":
                call.files.hear_blobs(body)
            case "credit":
                self._show(call, call.outgoing.grant(header.get("bytes")))
            case "ping":
                self._tell(call, message({"op": "pong"}))
            case "cancel":
                call.scope.cancel()
            case other:
                raise RyeError("lost", f"expected a message for a worker, found {other!a:.80}")

    # --- one call ---

    async def _do(self, call: _Call) -> None:
        answer = message({"op": "ended"})
        try:
            with call.scope:
                try:
                    answer = await self._answer(call)
                except RyeError as exc:
                    answer = message({"op": "refused"}, encode_refusal(exc))
                except Exception as exc:  # noqa: BLE001 - a mistake of ours in one call ends no other
                    _log.exception("a call ended with an error that is ours")
                    ours = RyeError("internal", f"expected none of this, found {type(exc).__name__}")
                    answer = message({"op": "refused"}, encode_refusal(ours))
            if call.problem is not None:
                answer = message({"op": "refused"}, encode_refusal(call.problem))
            self._tell(call, answer)
        finally:
            self._calls.pop(call.channel.run_id, None)

    async def _answer(self, call: _Call) -> bytes:
        await call.arrived.wait()
        bundle, workspace = await off_loop(partial(self._admitted, call))
        watch = Watch(
            on_output=partial(self._written, call),
            on_begun=lambda run_id: self._tell(call, message({"op": "begun", "run_id": run_id})),
        )
        granted = _granted(bundle.permissions, workspace)
        async with self._opened(call, bundle, workspace, granted) as executor:
            result = await executor.run_bundle(bundle, granted=granted, watch=watch)
        encode = partial(encode_result, result)
        body = encode() if _is_small(result) else await off_loop(encode)
        return message({"op": "result"}, body)

    @asynccontextmanager
    async def _opened(
        self, call: _Call, bundle: Bundle, workspace: str, granted: Permissions
    ) -> AsyncIterator[PrimitiveExecutor]:
        """The executor of the directory that a call works in; no file comes before the call has passed."""
        if workspace != "tree":
            shared = workspace.startswith(SHARED)
            yield await self._workspaces.shared(workspace) if shared else self._executor
            return
        await self._executor.require(bundle, granted=granted)

        def ask(numbers: Sequence[int]) -> None:
            self._tell(call, message({"op": "wants"}, json.dumps(numbers).encode()))

        async with self._workspaces.tree(call.files, ask) as executor:
            yield executor

    def _admitted(self, call: _Call) -> tuple[Bundle, str]:
        """The bundle of a call and its workspace, as far as this machine takes it; RyeError otherwise."""
        bundle = Bundle.from_bytes(call.bundle or b"")
        call.bundle = None
        self._submitters.require(call.submitter, bundle.item_id)
        return _able(bundle), _workspace_of(bundle)

    def _written(self, call: _Call, stream: StreamName, data: bytes, skipped: int) -> None:
        self._show(call, call.outgoing.write(stream, data, skipped))

    def _show(self, call: _Call, output: list[Output]) -> None:
        for stream, data, skipped in output:
            header = {"op": "output", "stream": stream, "skipped": skipped}
            self._tell(call, message(header, data))

    # --- what goes out ---

    def _tell(self, call: _Call, data: bytes) -> None:
        for piece in call.channel.seal(data):
            self._send({"op": "sealed", "run": call.channel.run_id, "n": piece.number}, piece.data)

    def _send(self, header: Header, payload: bytes = b"") -> None:
        self._pending += encode_frame(header, payload)
        self._has_more.set()

    async def _write(self, outlet: Outlet) -> None:
        while True:
            await self._has_more.wait()
            self._has_more = anyio.Event()
            rest = memoryview(bytes(self._pending))
            self._pending.clear()
            while rest := outlet.take(rest):
                await outlet.wait()


def _able(bundle: Bundle) -> Bundle:
    """The bundle, if a node can do what it asks for; RyeError `node_refused`."""
    space, relative = bundle.chain[-1]
    primitive = parse_relative_path(relative)[1]
    if space is not SpaceName.SYSTEM or primitive not in RUNS:
        what = f"expected a tool that is a program or a request, found one of {primitive}"
        raise RyeError("node_refused", what, item_id=bundle.item_id)
    if bundle.permissions.calls:
        what = f"expected a tool that calls no others, found {bundle.item_id}"
        raise RyeError("node_refused", what, item_id=bundle.item_id)
    return bundle


def _is_small(result: ExecutionResult) -> bool:
    texts = sum(len(each) for each in (result.stdout, result.stderr) if each is not None)
    return texts <= SMALL_BYTES and size_of(result.data) < LARGE


def _workspace_of(bundle: Bundle) -> str:
    """The workspace that the tool of a bundle names; whether somebody signed that, its executor says."""
    space, relative = bundle.chain[0]
    source = next(each for each in bundle.files if (each.space, each.relative) == (space, relative))
    return _workspace_in(relative, source.content)


@lru_cache(maxsize=32)
def _workspace_in(relative: str, content: bytes) -> str:
    item_type, item_id, extension = parse_relative_path(relative)
    space = Space(SpaceName.PROJECT, Path("/"))
    file = ItemFile(space, item_type, item_id, extension, Path("/", relative), content)
    return parse_metadata(file).workspace or "none"


def _granted(permissions: Permissions, workspace: str) -> Permissions:
    """The same without what is granted of a project: what stands for it here is the workspace, if any."""
    if permissions.unconfined:
        return permissions
    project = Access.NONE if workspace == "none" else permissions.project
    return replace(permissions, project=project, uses=permissions.uses - _OF_A_PROJECT)
