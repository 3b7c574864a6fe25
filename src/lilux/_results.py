"""How a run ended: the parts of a result, as the supervisor reports them and as callers get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from lilux._dataclasses import dataclass
from lilux._policy import Enforced

__all__ = [
    "Cleanup",
    "Fact",
    "Failure",
    "HostTraffic",
    "Network",
    "Observed",
    "RunResult",
    "StreamCounts",
    "Usage",
]


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """Bytes of one stream: `head` first ones and `kept - head` last ones are here, `omitted` are not.

    `sha256` is the digest of all of them, in hexadecimal; None unless `digests` were asked for.
    """

    kept: int
    head: int
    total: int
    omitted: int
    spooled: int
    lost: int
    sha256: str | None = None

    @property
    def mark(self) -> str:
        """The mark that stands in the text of the stream in place of the bytes that were left out."""
        return f"\n[… {self.omitted} bytes omitted …]\n"


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources used by a tool and by the children it waited for."""

    user_ms: float
    system_ms: float
    max_rss_kb: int


@dataclass(frozen=True, slots=True)
class Cleanup:
    """`complete`, or `incomplete` and the processes that could not be killed.

    `ended` is how many processes the tool had left running when it ended by itself; they were ended, too.
    """

    state: str
    pids: Sequence[int]
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a tool could not be started."""

    code: str
    stage: str | None
    errno: int | None
    message: str


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """Bytes sent to one host and port, and received from it. `failed` counts why connections failed.

    The host `*` stands for all that are not named.
    """

    host: str
    port: int
    connections: int
    sent: int
    received: int
    failed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Network:
    """Everything that a run did at the door that leads to its hosts.

    The door confirms with `served` that it answered names, and listened at `ports`. `refused` has names that
    are not allowed, and how often they were asked for; `refused_beyond` counts questions for further ones.
    `strays` are connections to addresses that stand for no allowed host. `names` were looked up, and these
    addresses stood for them; only where every host may be reached.
    """

    served: bool
    ports: Sequence[int]
    hosts: Sequence[HostTraffic]
    refused: Sequence[tuple[str, int]]
    refused_beyond: int
    strays: int
    names: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """An argument of a system call: a path without links, or an address with its port."""

    kind: Literal["read", "write", "exec", "connect"]
    what: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts of a run, each once. `lost` counts calls that may have named more."""

    facts: Sequence[Fact]
    lost: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended."""

    kind: str
    pid: int | None
    return_code: int
    signal: int | None
    duration_ms: float
    usage: Usage
    stdout: StreamCounts
    stderr: StreamCounts
    result: StreamCounts | None
    truncated: bool
    cleanup: Cleanup
    error: Failure | None
    enforced: Enforced | None = None
    network: Network | None = None
    observed: Observed | None = None
    parked: bool = False
    """It was parked, and never got a call."""
