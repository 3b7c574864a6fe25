"""The messages between `lilux` and `lilux-proc serve`: requests and events as frozen values.

The contract stands in `docs/protocol.md`; the frames in `tests/assets/protocol/` are read by this side and by
the Rust side. Nothing here reads, writes or waits. A request gets its id when it is encoded. An event that is
not as the contract says is a SupervisorError `malformed_event`.

    >>> parse_event(b'{"event":"started","id":1,"pid":4711}')
    Started(id=1, pid=4711)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from lilux._dataclasses import dataclass
from lilux._frames import Header, decode_header, encode_frame
from lilux._policy import Enforced, Facts, Policy
from lilux._results import RunResult
from lilux.primitives.errors import SupervisorError

PROTOCOL = 1
"""The version of the protocol that is spoken here."""

INPUT_WINDOW = 256 * 1024
"""Bytes of standard input that may be under way to a tool."""

DESCRIPTORS = range(3, 20)
"""The numbers that a descriptor can have in a tool which is passed on to it."""

TIMEOUT_LIMIT_MS = 365 * 24 * 60 * 60 * 1000
"""The longest timeout: a year."""

OUTPUT_LIMITS = (1024, 64 * 1024 * 1024)
"""The smallest and the largest number of bytes that can be kept of a stream."""

StreamName = Literal["stdout", "stderr", "result"]


# --- requests -------------------------------------------------------------------


class Request(Protocol):
    """Whatever can be asked of the supervisor."""

    def header(self, id: int) -> Header:
        """The header of this request under this id."""
        ...


def encode(request: Request, id: int, payload: bytes | memoryview = b"") -> bytes:
    """The frame of a request."""
    return encode_frame(request.header(id), payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """Where a stream that outgrows what is kept is written whole."""

    dir: str
    max_bytes: int | None = None


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Run one tool. The fields are those of `run` in `docs/protocol.md`; None and False leave one out."""

    command: str
    args: Sequence[str] = ()
    cwd: str | None = None
    env: Mapping[str, str] = {}
    search_path: str | None = None
    stdin: Literal["null", "data", "pipe"] | None = None
    timeout_ms: int | None = None
    max_output: int | None = None
    result_fd: bool = False
    digests: bool = False
    spool: Spool | None = None
    stream_credit: int | None = None
    stream_whole: bool = False
    notify: bool = False
    quiet_ms: int | None = None
    policy: Policy | None = None
    observe: Sequence[str] | None = None
    """Paths to pass over, when it is to be told what the tool names."""
    descriptors: Mapping[int, int] = {}
    """Open descriptors of this process, by the numbers that they have in the tool."""
    park_limit_ms: int | None = None
    """How long the tool waits for its call; None for one that is not parked."""
    park_awaited: bool = False
    """A call waits for it already."""
    prepare: bool = False
    """It waits for no call: it is a zygote."""
    zygote: int | None = None
    """The id of the zygote that it is forked from."""

    _PLAIN: ClassVar = (
        *("cwd", "search_path", "stdin", "timeout_ms", "max_output", "result_fd", "digests", "notify"),
        *("quiet_ms", "prepare", "zygote"),
    )

    def __repr__(self) -> str:
        """Leave out everything else: variables may be secrets."""
        return f"RunRequest(command={self.command!r})"

    def header(self, id: int) -> Header:
        """The header of this request under this id."""
        header: Header = {"op": "run", "id": id, "command": self.command}
        if self.args:
            header["args"] = self.args
        if self.env:
            header["env"] = self.env
        for name in self._PLAIN:
            value = getattr(self, name)
            if value is not None and value is not False:
                header[name] = value
        self._add_output(header)
        self._add_surroundings(header)
        return header

    def _add_output(self, header: Header) -> None:
        if self.spool is not None:
            header["spool"] = _present(dir=self.spool.dir, max_bytes=self.spool.max_bytes)
        if self.stream_credit is not None:
            whole = {"interval_ms": 0, "whole": True} if self.stream_whole else {}
            header["stream"] = {"credit": self.stream_credit, **whole}

    def _add_surroundings(self, header: Header) -> None:
        if self.policy is not None:
            header["policy"] = self.policy.header()
        if self.observe is not None:
            header["observe"] = {"ignore": list(self.observe)} if self.observe else {}
        if self.descriptors:
            header["descriptors"] = list(self.descriptors)
        if self.park_limit_ms is not None:
            awaited = {"awaited": True} if self.park_awaited else {}
            header["park"] = {"limit_ms": self.park_limit_ms, **awaited}


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The call of what is parked: of a run, the half that is not known before."""

    run: RunRequest

    _KNOWN: ClassVar = (
        *("command", "search_path", "result_fd", "policy", "observe", "descriptors", "park", "zygote"),
    )

    def header(self, id: int) -> Header:
        """The header of this request for what is parked under this id."""
        header = self.run.header(id)
        return {**{name: value for name, value in header.items() if name not in self._KNOWN}, "op": "call"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """The next piece of a run's standard input is the payload; `eof` when it is the last."""

    eof: bool = False

    def header(self, id: int) -> Header:
        """The header of this request for the run with this id."""
        return {"op": "input", "id": id, "eof": True} if self.eof else {"op": "input", "id": id}


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """End a run."""

    grace_ms: int | None = None

    def header(self, id: int) -> Header:
        """The header of this request for the run with this id."""
        return _present(op="cancel", id=id, grace_ms=self.grace_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditRequest:
    """So many more bytes of a run's output may be sent."""

    bytes: int

    def header(self, id: int) -> Header:
        """The header of this request for the run with this id."""
        return {"op": "credit", "id": id, "bytes": self.bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequest:
    """End a process, or a run."""

    pid: int | None = None
    run: int | None = None
    grace_ms: int | None = None

    def header(self, id: int) -> Header:
        """The header of this request under this id."""
        return _present(op="kill", id=id, run=self.run, pid=self.pid, grace_ms=self.grace_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """Ask after a process, a run, or the supervisor itself."""

    pid: int | None = None
    run: int | None = None

    def header(self, id: int) -> Header:
        """The header of this request under this id."""
        return _present(op="status", id=id, run=self.run, pid=self.pid)


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Ask what this machine can enforce."""

    def header(self, id: int) -> Header:
        """The header of this request under this id."""
        return {"op": "probe", "id": id}


def _present(**fields: Any) -> Header:
    return {name: value for name, value in fields.items() if value is not None}


# --- events ---------------------------------------------------------------------

# A payload, where an event has one, travels beside it.


class _Event(msgspec.Struct, frozen=True, tag_field="event", forbid_unknown_fields=True):
    """A message of the supervisor. Its fields have these names and types on the wire too."""


class Hello(_Event, frozen=True, tag="hello"):
    """The first event: who is there."""

    protocol: int
    version: str
    capabilities: Sequence[str]


class Started(_Event, frozen=True, tag="started"):
    """The tool has been started; `enforced` is what stands around it, None without a policy."""

    id: int
    pid: int
    enforced: Enforced | None = None


class Parked(_Event, frozen=True, tag="parked"):
    """The tool waits for its call, or the zygote to be forked."""

    id: int
    pid: int
    enforced: Enforced | None = None
    memory_kb: int | None = None


class Output(_Event, frozen=True, tag="output"):
    """The payload is what the tool wrote, while it runs; `skipped` bytes before it were left out."""

    id: int
    stream: StreamName
    seq: int
    skipped: int


class Credit(_Event, frozen=True, tag="credit"):
    """So many bytes of standard input have been taken."""

    id: int
    bytes: int


class Exited(_Event, frozen=True, tag="exited"):
    """The tool itself is gone."""

    id: int
    return_code: int
    signal: int | None


class Captured(_Event, frozen=True, tag="captured"):
    """The payload is a piece of the kept output that does not fit `Closed`."""

    id: int
    stream: StreamName


class Closed(_Event, frozen=True, tag="closed"):
    """The last event of a run; the payload is what was kept of its streams, one after the other."""

    id: int
    result: RunResult


class Killed(_Event, frozen=True, tag="killed"):
    """How a process was ended."""

    id: int
    pid: int | None
    method: str


class Probed(_Event, frozen=True, tag="probed"):
    """The isolation that this machine can enforce."""

    id: int
    facts: Facts


class Refused(_Event, frozen=True, tag="error"):
    """An `error` event; its `id` is None when it is about the whole stream."""

    id: int | None
    code: str
    stage: str | None
    errno: int | None
    message: str


class SupervisorStatus(_Event, frozen=True, tag="status"):
    """The supervisor itself."""

    id: int
    pid: int
    warden: int
    runs: int
    keepers: int
    idle_keepers: int


class ProcessStatus(_Event, frozen=True, tag="status"):
    """Whether a process is there."""

    id: int
    pid: int
    alive: bool


class RunStatus(_Event, frozen=True, tag="status"):
    """How far a run has got: `running`, `draining` or `unknown`."""

    id: int
    run: int
    state: str


Event = (
    Hello
    | Started
    | Parked
    | Output
    | Credit
    | Exited
    | Captured
    | Closed
    | Killed
    | Probed
    | ProcessStatus
    | RunStatus
    | SupervisorStatus
    | Refused
)

_DECODERS: tuple[msgspec.json.Decoder[Any], ...] = (
    msgspec.json.Decoder(
        Hello
        | Started
        | Parked
        | Output
        | Credit
        | Exited
        | Captured
        | Closed
        | Killed
        | Probed
        | Refused
        | SupervisorStatus
    ),
    msgspec.json.Decoder(ProcessStatus),
    msgspec.json.Decoder(RunStatus),
)
"""The three kinds of `status` share their name, and differ in their fields; those of runs come at once."""


def parse_event(header: bytes) -> Event:
    """The event that the header of a frame is."""
    reason: Exception | None = None
    for decoder in _DECODERS:
        try:
            event: Event = decoder.decode(header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            reason = reason or exc
        else:
            return event
    found = decode_header(header)
    raise SupervisorError(
        f"expected an event, found {found!r:.200}: {reason}", code="malformed_event"
    ) from reason
