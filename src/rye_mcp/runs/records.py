"""One row of the run log, and which rows somebody asks for.

A record has the names of parameters and no values, no environment and no output: there is no field for them.
What comes from outside (names, the name of a client) is cut to a length, so that no call makes a large row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from rye_mcp.errors import printable
from rye_mcp.runs.ids import check_run_id, first_id_at, time_of

__all__ = ["COLUMNS", "Caller", "RunFilter", "RunRecord", "record_of", "row_of"]

Caller = Literal["person", "agent"]

MAX_NAMES: Final = 100
"""How many names of parameters are kept."""

MAX_CHARACTERS: Final = 200
"""How much is kept of a name that comes from outside."""

MAX_ROWS: Final = 10_000
"""How many rows may be asked for at once."""

_LISTS: Final = frozenset({"chain", "parameters"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known of one run.

    `chain` has the id and the hash of each element, from the tool to the primitive. `signer` is who signed
    the tool, in words. `code` is None for a success, else one of `rye_mcp.errors`. `client` is the program
    that an agent came with. The time at which a run began is in its id.
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
    caller: Caller
    client: str | None = None
    sealed: bool = False

    @property
    def success(self) -> bool:
        """Whether it did what it should."""
        return self.code is None

    @property
    def begun(self) -> datetime:
        """When it began."""
        return time_of(self.run_id)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        usage = {name: getattr(self, name) for name in ("user_ms", "system_ms", "max_rss_kb")}
        return {
            "run_id": self.run_id,
            "status": "success" if self.success else "error",
            "code": self.code,
            "begun": self.begun.isoformat(timespec="milliseconds"),
            "duration_ms": self.duration_ms,
            "item_id": self.item_id,
            "type": self.item_type,
            "project": self.project,
            "chain": [{"item_id": item_id, "hash": digest} for item_id, digest in self.chain],
            "signer": self.signer,
            "sealed": self.sealed,
            "exit": {"kind": self.kind, "return_code": self.return_code, "signal": self.signal},
            "usage": None if self.user_ms is None else usage,
            "parameters": list(self.parameters),
            "caller": self.caller,
            "client": self.client,
        }


COLUMNS: Final = tuple(each.name for each in fields(RunRecord))
"""The columns of the log, in the order of the fields."""


def row_of(record: RunRecord) -> tuple[Any, ...]:
    """A record as SQLite takes it."""
    return (
        check_run_id(record.run_id),
        record.item_id,
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
    )


def record_of(row: tuple[Any, ...]) -> RunRecord:
    """The record that `row_of` made a row of."""
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    values["chain"] = tuple((item_id, digest) for item_id, digest in msgspec.json.decode(values["chain"]))
    values["parameters"] = tuple(msgspec.json.decode(values["parameters"]))
    values["sealed"] = bool(values["sealed"])
    return RunRecord(**values)


def _short(text: str) -> str:
    return printable(text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs: by item, project, status (`success`, `error` or a code), and time; the newest `limit`."""

    item: Callable[[str], bool] | None = None
    project: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50

    def conditions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each condition in SQL, and what it is filled with. `matches_item` is `item`, known to SQLite."""
        if self.item is not None:
            yield "matches_item(item_id)", {}
        if self.project is not None:
            yield "project = :project", {"project": printable(self.project)}
        if self.status in _STATUSES:
            yield _STATUSES[self.status], {}
        elif self.status is not None:
            yield "code = :code", {"code": self.status}
        if self.since is not None:
            yield "run_id >= :since", {"since": first_id_at(self.since)}
        if self.until is not None:
            yield "run_id < :until", {"until": first_id_at(self.until)}


_STATUSES: Final[Mapping[str | None, str]] = {"success": "code IS NULL", "error": "code IS NOT NULL"}
