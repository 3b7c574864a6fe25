"""The other end of a worker: has a line carry its bytes, and sends it calls.

The worker on the other side is known by its key alone. A call is sent once; what came of it is told, or it is
lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from lilux._dataclasses import dataclass
from lilux._frames import FrameDecoder, Header, decode_header, encode_frame
from lilux.primitives.errors import SupervisorError
from rye_mcp.apart import apart, off_loop
from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.workspace import ProjectTree
from rye_mcp.nodes.lines import Line, Sink
from rye_mcp.nodes.messages import CREDIT_BYTES, HEADER_BYTES, Incoming, message
from rye_mcp.nodes.outcomes import MAX_RESULT_BYTES, SMALL_BYTES, Remote, decode_refusal, decode_result
from rye_mcp.nodes.seal import REASONS, Channel, Hello, Identity, seal
from rye_mcp.nodes.trees import list_of, pieces_of
from rye_mcp.nodes.worker import MAX_CALLS, SILENCE_S
from rye_mcp.runs.ids import STREAMS

__all__ = ["GIVE_UP_S", "HELLO_S", "Link"]

HELLO_S: Final = 20.0
"""How long a worker may take to be there."""

PING_S: Final = 5.0
"""How often the worker is told that somebody waits."""

GIVE_UP_S: Final = 20.0
"""How long a worker may be silent. By then it has ended the call, if it runs at all: see `SILENCE_S`."""

ENDING_S: Final = 5.0
"""How long a worker may take to end a call that was cancelled; then it is ended itself."""

TO_BEGIN_S: Final = 900.0
"""How long a worker may take to begin a run: it may have to install what the tool depends on."""

OVERDUE_S: Final = 60.0
"""How long after its time limit the end of a run may be told of: its result has to come here, too."""

GRACE_S: Final = 0.5
"""How long a worker may take to end by itself once nothing more comes."""

IDLE_S: Final = 600.0
"""How long a worker is kept that nobody uses."""

_AHEAD: Final = 3
"""How many pieces of files may be under way that have not arrived: a quarter of a MiB each."""

_GOOD_FOR_MS: Final = 60_000


@dataclass(slots=True)
class _Sent:
    """A call that was sent, and what is known of it."""

    envelope: Header
    channel: Channel
    watch: Watch
    limit_s: float
    tree: ProjectTree | None
    heard: float
    due: float
    wanted: list[bytes] = field(default_factory=list)
    """What of the tree the worker has asked for, until it is sent."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    unanswered: int = 0
    """How many pings have no answer yet."""
    ponged: anyio.Event = field(default_factory=anyio.Event)
    incoming: Incoming = field(default_factory=lambda: Incoming(limit=MAX_RESULT_BYTES))
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: bytes | RyeError | None = None
    """The result as the worker sent it, or the reason why it sent no result."""
    is_open: bool = False
    """Whether the worker has opened it: a piece of its channel has come."""
    has_begun: bool = False

    def begin(self, overdue_s: float) -> None:
        """Take note that its run has begun, once: the time that it may take counts from here."""
        if not self.has_begun:
            self.has_begun = True
            self.due = time.monotonic() + self.limit_s + overdue_s


class Link:
    """One worker. `nodes` are the ids of the keys that it may have, `name` is what people call it."""

    def __init__(
        self,
        name: str,
        line: Line,
        nodes: Collection[str],
        submitter: Identity,
        *,
        give_up_s: float = GIVE_UP_S,
        ping_s: float = PING_S,
        ending_s: float = ENDING_S,
        to_begin_s: float = TO_BEGIN_S,
        overdue_s: float = OVERDUE_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self.name = name
        self.hello: Hello | None = None
        self.over = anyio.Event()
        self._line = line
        self._nodes = frozenset(nodes)
        self._submitter = submitter
        self._give_up_s, self._ping_s, self._idle_s = give_up_s, ping_s, idle_s
        self._ending_s, self._to_begin_s, self._overdue_s = ending_s, to_begin_s, overdue_s
        self._used = 0
        self._turns = anyio.Semaphore(MAX_CALLS)
        self._frames = FrameDecoder(header_limit=HEADER_BYTES)
        self._calls: dict[str, _Sent] = {}
        self._ready = anyio.Event()
        self._closing = anyio.Event()
        self._sink: Sink | None = None
        self._greeted = 0.0
        self._problem: RyeError | None = None

    # --- its life ---

    async def serve(self) -> None:
        """Start the program, and keep it until `close`, or until it ends."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._converse)
                await self._until_closed()
                if self._sink is not None:
                    self._sink.end_input()
                with anyio.move_on_after(GRACE_S):
                    await self.over.wait()
                group.cancel_scope.cancel()
        finally:
            self._end()

    async def _until_closed(self) -> None:
        """Wait until it is closed; it closes itself when nobody has used it for long."""
        while not self._closing.is_set():
            used = self._used
            with anyio.move_on_after(self._idle_s):
                await self._closing.wait()
            if used == self._used and not self._calls and self.hello is not None:
                self.close()

    def close(self) -> None:
        """Have it end, with all that it runs."""
        self._closing.set()

    @property
    def is_past(self) -> bool:
        """Whether nothing can be sent to it any more."""
        return self._closing.is_set() or self.over.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._calls)

    async def ready(self) -> Hello:
        """The worker, once it has said who it is; RyeError `engine_unreachable` when that is nobody."""
        self._used += 1
        with anyio.move_on_after(HELLO_S):
            await self._ready.wait()
        if self.hello is None or self.is_past:
            if self._problem is None:
                self._fail("engine_unreachable", f"a hello within {HELLO_S:g} s", "none")
            self.close()
            raise self._copy_of_problem()
        return self.hello

    @asynccontextmanager
    async def placed(self, _shape: object, _tell: object) -> AsyncIterator[Link]:
        """This one, for a call: it has room for `MAX_CALLS`, and more wait in `run`."""
        await self.ready()
        yield self

    async def _converse(self) -> None:
        try:
            self._fail("engine_unreachable", "it to go on", await self._line.carry(self._hear, self._begin))
        except RyeError as exc:
            self._problem = self._problem or exc
        finally:
            self._end()

    def _begin(self, sink: Sink) -> None:
        self._sink = sink

    def _end(self) -> None:
        for event in (self.over, self._closing, self._ready):
            event.set()
        for call in self._calls.values():
            call.done.set()

    def _fail(self, code: str, expected: str, found: str) -> None:
        """Take note of why it ends; the first reason counts."""
        beside = f". It said: {self._line.said}" if self._line.said else ""
        what = f"expected {expected} of the worker {self.name}, found {found}{beside}"
        self._problem = self._problem or RyeError(code, what, where=self.name)
        self._closing.set()

    def _copy_of_problem(self) -> RyeError:
        found = self._problem or RyeError(
            "engine_unreachable", f"expected the worker {self.name}, found none"
        )
        return RyeError(found.code, found.message, where=found.where)

    # --- a call ---

    async def run(
        self,
        bundle: bytes,
        run_id: str,
        watch: Watch,
        *,
        limit_s: float,
        tree: ProjectTree | None = None,
    ) -> Remote:
        """What comes of a call whose run may take `limit_s`; RyeError for what is refused there.

        `engine_unreachable` says that it was not sent. `lost` and `node_overdue`, with `sent: true`, say that
        it was and that nobody knows what came of it. More calls than a worker does at a time wait for their
        turn here.
        """
        async with self._turns:
            return await self._run(bundle, run_id, watch, limit_s, tree)

    async def _run(
        self, bundle: bytes, run_id: str, watch: Watch, limit_s: float, tree: ProjectTree | None
    ) -> Remote:
        hello = await self.ready()
        age_ms = int((time.clock_gettime(time.CLOCK_BOOTTIME) - self._greeted) * 1000)
        envelope, channel = seal(hello, run_id, self._submitter, expires_ms=age_ms + _GOOD_FOR_MS)
        now = time.monotonic()
        call = self._calls[run_id] = _Sent(
            envelope, channel, watch, limit_s, tree, now, now + self._to_begin_s
        )
        try:
            self._send(envelope)
            self._tell(call, message({"op": "bundle"}, bundle))
            await (self._attend(call) if tree is None else self._accompany(call, tree))
        except anyio.get_cancelled_exc_class():
            await self._cancel(call)
            raise
        finally:
            self._calls.pop(run_id, None)
        if not isinstance(call.answer, bytes):
            raise call.answer or self._lost(call, self._copy_of_problem().message)
        try:
            decode = partial(decode_result, call.answer)
            return decode() if len(call.answer) <= SMALL_BYTES else await apart(decode)
        except RyeError as exc:
            raise self._lost(call, exc.message) from exc

    async def _accompany(self, call: _Sent, tree: ProjectTree) -> None:
        """The same for a call with files: they are sent when the worker has asked for them."""
        self._tell(call, message({"op": "tree"}, await off_loop(partial(list_of, tree))))
        async with anyio.create_task_group() as group:
            group.start_soon(self._give, call)
            await self._attend(call)
            group.cancel_scope.cancel()

    async def _give(self, call: _Sent) -> None:
        """Send the files no faster than they arrive: the pings of all calls take the same way."""
        await call.asked.wait()
        for piece in call.wanted:
            self._tell(call, message({"op": "blobs"}, piece))
            self._ping(call)
            while call.unanswered > _AHEAD:
                call.ponged = anyio.Event()
                await call.ponged.wait()
            await anyio.lowlevel.checkpoint()  # others have their turn: it may be long

    def _ping(self, call: _Sent) -> None:
        call.unanswered += 1
        self._tell(call, message({"op": "ping"}))

    async def _attend(self, call: _Sent) -> None:
        """Wait for the end of a call, and say so all the while."""
        while not call.done.is_set():
            with anyio.move_on_after(min(self._ping_s, call.due - time.monotonic())):
                await call.done.wait()
                return
            now = time.monotonic()
            if (silent := now - call.heard) >= self._give_up_s:
                what = f"expected an answer of the worker {self.name}, found silence for {silent:.0f} s"
                call.answer = self._lost(call, what)
                self.close()  # it hangs, with all of its calls: the next one gets another worker
                return
            if now >= call.due:
                call.answer = self._overdue(call)
                await self._cancel(call)
                return
            self._ping(call)

    async def _cancel(self, call: _Sent) -> None:
        """Have a call ended, and wait until it is; a worker that does not do it is ended itself."""
        with anyio.move_on_after(self._ending_s, shield=True):
            self._tell(call, message({"op": "cancel"}))
            await call.done.wait()
        if not call.done.is_set():
            self.close()
            with anyio.move_on_after(ENDING_S, shield=True):
                await self.over.wait()

    def _lost(self, call: _Sent, what: str) -> RyeError:
        """Nobody knows what came of a call; it may go on until the worker notices that nobody waits."""
        until = datetime.now(UTC) + timedelta(seconds=math.ceil(SILENCE_S))
        return RyeError(
            "lost",
            what,
            hint="look at what it has done before you run it again",
            sent=True,
            may_run_until=until.isoformat(timespec="seconds"),
            run_id=call.channel.run_id,
        )

    def _overdue(self, call: _Sent) -> RyeError:
        """A worker that answers, and has not ended a call that must be over by now."""
        within = f"end it within {call.limit_s + self._overdue_s:g} s"
        if not call.has_begun:
            within = f"begin it within {self._to_begin_s:g} s"
        what = f"expected the worker {self.name}, which has the call, to {within}, found that it did not"
        return RyeError("node_overdue", what, sent=True, run_id=call.channel.run_id)

    # --- what comes in ---

    def _hear(self, data: bytes) -> None:
        if self._closing.is_set() and not self._calls:
            return
        try:
            for raw, payload in self._frames.feed(data):
                self._take(decode_header(raw), payload)
        except SupervisorError as exc:
            self._fail("engine_unreachable", "frames", exc.message)
        except RyeError as exc:
            self._fail(exc.code, "a hello of a node that is known", exc.message)

    def _take(self, header: Header, payload: bytes) -> None:
        if self.hello is None:
            self._greet(Hello.read(header))
            return
        call = self._calls.get(str(header.get("run")))
        if call is None or call.done.is_set():
            return
        match header.get("op"):
            case "sealed":
                self._open(call, header.get("n"), payload)
            case "unopened" if not call.is_open:
                self._take_unopened(call, self.hello.reason_in(header, call.envelope))

    def _take_unopened(self, call: _Sent, reason: str | None) -> None:
        """The worker has not opened an envelope. It was sent once: if it came again, it may have run."""
        if reason is None:
            return  # it is not the worker that says so
        what = f"the worker {self.name} expected {REASONS[reason]}, found another one"
        refused = RyeError("node_refused", what, run_id=call.channel.run_id)
        self._answered(call, self._lost(call, what) if reason == "replayed" else refused)

    def _greet(self, hello: Hello) -> None:
        if hello.node not in self._nodes:
            what = f"expected a node that {self.name} names, found the key {hello.node}"
            raise RyeError("engine_unreachable", what)
        self.hello = hello
        self._greeted = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._ready.set()

    def _open(self, call: _Sent, number: Any, payload: bytes) -> None:
        try:
            data = call.channel.open(number, payload)
            if data:
                call.heard, call.is_open = time.monotonic(), True
            for header, body in call.incoming.feed(data):
                self._obey(call, header, body)
        except RyeError as exc:
            lost = self._lost(call, exc.message) if exc.code == "lost" else exc
            self._answered(call, lost)
            self._tell(call, message({"op": "cancel"}))

    def _obey(self, call: _Sent, header: Header, body: bytes) -> None:
        match header["op"]:
            case "output" if header.get("stream") in STREAMS and type(header.get("skipped")) is int:
                if call.watch.on_output is not None:
                    call.watch.on_output(header["stream"], body, max(header["skipped"], 0))
                for start in range(0, len(body), CREDIT_BYTES):
                    granted = len(body[start : start + CREDIT_BYTES])
                    self._tell(call, message({"op": "credit", "bytes": granted}))
            case "result":
                self._answered(call, body)
            case "refused":
                self._answered(call, self._refusal(call, body))
            case "ended":
                what = f"expected the run to go on, found that the worker {self.name} has ended it"
                sent, run_id = call.has_begun, call.channel.run_id
                self._answered(call, RyeError("cancelled", what, sent=sent, run_id=run_id))
            case "begun":
                call.begin(self._overdue_s)
            case "wants" if call.tree is not None and not call.asked.is_set():
                call.wanted = list(pieces_of(call.tree.files, body))
                call.asked.set()
            case "pong":
                call.unanswered = max(0, call.unanswered - 1)
                call.ponged.set()
            case other:
                raise RyeError("lost", f"expected a message of a worker, found {other!a:.80}")

    def _refusal(self, call: _Sent, body: bytes) -> RyeError:
        """What a worker refuses; once a run has begun there, it may have done anything."""
        found = decode_refusal(body)
        return self._lost(call, found.message) if found.code == "lost" or call.has_begun else found

    @staticmethod
    def _answered(call: _Sent, answer: bytes | RyeError) -> None:
        call.answer = answer if call.answer is None else call.answer
        call.done.set()

    # --- what goes out ---

    def _tell(self, call: _Sent, data: bytes) -> None:
        for piece in call.channel.seal(data):
            self._send({"op": "sealed", "run": call.channel.run_id, "n": piece.number}, piece.data)

    def _send(self, header: Header, payload: bytes = b"") -> None:
        if self._sink is not None:
            self._sink.tell(encode_frame(header, payload))
