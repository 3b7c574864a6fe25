"""One row of the run log, and which rows somebody asks for.

A record has the names of parameters and no values, no environment, and of the output only digests and the end
of standard error of what failed: there is no field for the rest. What comes from outside (names, the name of
a client, an invalid id) is cut to a length, so that no call makes a large row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from lilux._dataclasses import dataclass
from rye_mcp.errors import printable
from rye_mcp.items import is_item_id
from rye_mcp.runs.hosts import is_gone
from rye_mcp.runs.ids import StreamName, check_run_id, first_id_at, time_of

__all__ = [
    "COLUMNS",
    "ENDED",
    "REFUSED",
    "RUNNING",
    "CallerKind",
    "RunFilter",
    "RunRecord",
    "named",
    "record_of",
    "row_of",
]

CallerKind = Literal["person", "agent"]

MAX_NAMES: Final = 100
"""How many names of parameters are kept."""

MAX_CHARACTERS: Final = 200
"""How much is kept of a name that comes from outside."""

MAX_STDERR_BYTES: Final = 4096
"""How much is kept of the end of standard error of a run that failed."""

RUNNING: Final = "running"
"""The kind of a run that has begun, and has not ended yet."""

REFUSED: Final = "refused"
"""The kind of a call that was refused: nothing ran."""

ENDED: Final = "ended"
"""What a filter takes for every run that is over."""

LOST: Final = "lost"
"""The kind and the code of a run whose process has ended without a word about it."""

MAX_ROWS: Final = 10_000
"""How many rows may be asked for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of one run.

    `chain` has the id and the hash of each element, from the tool to the primitive. `signer` is who signed
    the tool, in words. `code` is None for a success, else one of `rye_mcp.errors`. `client` is the program
    that an agent came with. The time at which a run began is in its id. `parent` is the run that asked for
    this one. `digests` has the SHA-256 of all that was written to each stream, `stderr_end` the last of
    standard error of a failure. `process` looks after an unfinished run. `enforced` is what
    was enforced of its permissions. `runtime` is `warm`, or `cold` and the word for why. `node` is the other
    machine that it ran on, in words.
    """

    run_id: str
    item_id: str
    item_type: str = "tool"
    project: str | None = None
    chain: tuple[tuple[str, str], ...] = ()
    signer: str | None = None
    kind: str
    return_code: int | None = None
    signal: int | None = None
    code: str | None = None
    duration_ms: float = 0.0
    user_ms: float | None = None
    system_ms: float | None = None
    max_rss_kb: int | None = None
    parameters: tuple[str, ...] = ()
    caller: CallerKind
    client: str | None = None
    sealed: bool = False
    parent: str | None = None
    digests: tuple[tuple[StreamName, str], ...] = ()
    stderr_end: str | None = None
    process: str | None = None
    enforced: Mapping[str, Any] | None = None
    runtime: str | None = None
    node: str | None = None

    @property
    def status(self) -> str:
        """`success`, `error` or `running`."""
        if self.kind == RUNNING:
            return RUNNING
        return "success" if self.code is None else "error"

    @property
    def begun(self) -> datetime:
        """When it began."""
        return time_of(self.run_id)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        usage = {name: getattr(self, name) for name in ("user_ms", "system_ms", "max_rss_kb")}
        return {
            "run_id": self.run_id,
            "status": self.status,
            "code": self.code,
            "begun": self.begun.isoformat(timespec="milliseconds"),
            "duration_ms": self.duration_ms,
            "item_id": self.item_id,
            "type": self.item_type,
            "project": self.project,
            "chain": [{"item_id": item_id, "hash": digest} for item_id, digest in self.chain],
            "signer": self.signer,
            "sealed": self.sealed,
            "enforced": None if self.enforced is None else dict(self.enforced),
            **_runtime(self.runtime),
            "exit": {"kind": self.kind, "return_code": self.return_code, "signal": self.signal},
            "usage": None if self.user_ms is None else usage,
            "parameters": list(self.parameters),
            "caller": self.caller,
            "client": self.client,
            "parent": self.parent,
            "sha256": dict(self.digests),
            **({} if self.node is None else {"node": self.node}),
        }


def _runtime(text: str | None) -> dict[str, str]:
    """`warm`, or `cold` and why, as data."""
    words = () if text is None else text.split(" ", 1)
    return dict(zip(("runtime", "why_cold"), words, strict=False))


COLUMNS: Final = tuple(each.name for each in fields(RunRecord))
"""The columns of the log, in the order of the fields."""


def row_of(record: RunRecord) -> tuple[Any, ...]:
    """A record as SQLite takes it."""
    return (
        check_run_id(record.run_id),
        record.item_id if is_item_id(record.item_id) else _short(record.item_id),
        record.item_type,
        None if record.project is None else printable(record.project),
        msgspec.json.encode(record.chain).decode(),
        None if record.signer is None else _short(record.signer),
        record.kind,
        record.return_code,
        record.signal,
        record.code,
        round(record.duration_ms, 3),
        record.user_ms,
        record.system_ms,
        record.max_rss_kb,
        msgspec.json.encode([_short(name) for name in record.parameters[:MAX_NAMES]]).decode(),
        record.caller,
        None if record.client is None else _short(record.client),
        int(record.sealed),
        record.parent,
        msgspec.json.encode(record.digests).decode(),
        None if record.stderr_end is None else _end(record.stderr_end),
        record.process,
        None if record.enforced is None else msgspec.json.encode(record.enforced).decode(),
        record.runtime,
        None if record.node is None else _short(record.node),
    )


def named(row: tuple[Any, ...]) -> dict[str, Any]:
    """The row of a record by the names of its columns, without those that say nothing."""
    return {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None}


def record_of(row: tuple[Any, ...]) -> RunRecord:
    """The record that `row_of` made a row of. A run whose process is gone is lost."""
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    values["chain"] = _pairs(values["chain"])
    values["parameters"] = tuple(msgspec.json.decode(values["parameters"]))
    values["sealed"] = bool(values["sealed"])
    values["digests"] = _pairs(values["digests"] or "[]")
    values["enforced"] = None if values["enforced"] is None else msgspec.json.decode(values["enforced"])
    if values["kind"] == RUNNING and is_gone(values["process"] or ""):
        values["kind"] = values["code"] = LOST
    return RunRecord(**values)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, digest) for name, digest in msgspec.json.decode(text))


def _short(text: str) -> str:
    return printable(text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…")


def _end(text: str) -> str:
    """The last bytes of a text, without the half of a character."""
    return text.encode("utf-8", "replace")[-MAX_STDERR_BYTES:].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A choice of runs: by item, project, client, status and time; the newest `limit`.

    A status is `success`, `error`, `running`, `ended`, or a code. Runs of the command line have no client:
    `person` and `agent` stand for those who came with none.
    """

    item: Callable[[str], bool] | None = None
    project: str | None = None
    client: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50

    def conditions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each condition in SQL, and what it is filled with.

        `matches_item` is `item`, and `is_gone` that of `rye_mcp.runs.hosts`: SQLite is told of both.
        """
        if self.item is not None:
            yield "matches_item(item_id)", {}
        if self.project is not None:
            yield "project = :project", {"project": printable(self.project)}
        if self.client is not None:
            yield "coalesce(client, caller) = :client", {"client": self.client}
        if self.status in _STATUSES:
            yield _STATUSES[self.status], {}
        elif self.status is not None:
            yield f"{_CODE} = :code", {"code": self.status}
        if self.since is not None:
            yield "run_id >= :since", {"since": first_id_at(self.since)}
        if self.until is not None:
            yield "run_id < :until", {"until": first_id_at(self.until)}


_IS_RUNNING: Final = f"(kind = '{RUNNING}' AND NOT is_gone(coalesce(process, '')))"
_CODE: Final = f"CASE WHEN kind <> '{RUNNING}' THEN code WHEN NOT {_IS_RUNNING} THEN '{LOST}' END"
_STATUSES: Final[Mapping[str | None, str]] = {
    "success": f"kind <> '{RUNNING}' AND code IS NULL",
    "error": f"{_CODE} IS NOT NULL",
    RUNNING: f"kind = '{RUNNING}' AND {_IS_RUNNING}",
    ENDED: f"NOT {_IS_RUNNING}",
}
