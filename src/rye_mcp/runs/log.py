"""The log of runs: a row for each, in an SQLite file of the state directory.

The rules are in `docs/architecture/execution.md`.

    log = RunLog(state)
    [record.item_id for record in log.list(RunFilter(status="error"))]
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from lilux._dataclasses import dataclass
from lilux._stamps import Stamp, is_settled, stamp_of
from lilux._trees import UnsafeError
from rye_mcp.errors import RyeError, printable
from rye_mcp.notices import Notice
from rye_mcp.runs import chain
from rye_mcp.runs._database import MAX_KEPT_REFUSALS, MAX_KEPT_ROWS, RunDatabase
from rye_mcp.runs.chain import ChainedReceipt, Link, MarkFile, Notary
from rye_mcp.runs.hosts import is_gone
from rye_mcp.runs.ids import check_run_id, first_id_at, is_run_id
from rye_mcp.runs.records import (
    COLUMNS,
    MAX_ROWS,
    RUNNING,
    RunFilter,
    RunRecord,
    named,
    record_of,
    row_of,
)

__all__ = [
    "FOLLOW_INTERVAL_S",
    "MAX_KEPT_REFUSALS",
    "MAX_KEPT_ROWS",
    "Figure",
    "RunFilter",
    "RunLog",
    "RunPage",
    "RunRecord",
]

FOLLOW_INTERVAL_S: Final = 0.25
"""How often `follow` looks whether anything was written."""

_NAMES: Final = ", ".join(COLUMNS)
_INSERT: Final = f"INSERT INTO runs ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
_END: Final = (
    f"UPDATE runs SET seq = (SELECT max(seq) FROM runs) + 1, ({_NAMES}) = "  # noqa: S608
    f"({', '.join('?' * len(COLUMNS))}) WHERE run_id = ? AND kind = '{RUNNING}'"
)
"""With a new number: who follows the log has seen the old one."""

_PAGE: Final = (
    f"SELECT {_NAMES}, seq FROM runs WHERE seq IN (SELECT seq FROM runs INDEXED BY {{index}} WHERE {{where}} "  # noqa: S608
    "ORDER BY seq DESC LIMIT :limit) ORDER BY seq DESC"
)
"""Runs are looked for in an index, and only the rows that are returned are read."""

_EVERYTHING: Final = RunFilter()


@dataclass(frozen=True, slots=True)
class Attested:
    """The facts for a row that was written, and the digest of its receipt, if it has one."""

    notices: tuple[Notice, ...]
    receipt: str | None = None


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some runs, the newest first. `last` is the newest row of the log; the next page is `before` a row."""

    runs: tuple[RunRecord, ...]
    last: int
    before: int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A run as a chart counts it."""

    run_id: str
    kind: str
    code: str | None
    duration_ms: float
    runtime: str | None


LOOKED_AT_CALLS: Final = 20_000
"""How many of the newest rows are looked at for the calls of an item."""

MAX_FIGURES: Final = 50_000
"""How many runs a chart is made of at most."""

_CALLS: Final = (
    "SELECT DISTINCT {}.item_id FROM runs AS called JOIN runs AS caller ON caller.run_id = called.parent "
    "WHERE called.seq > :first AND called.parent IS NOT NULL AND {}.item_id = :item_id ORDER BY 1 LIMIT 50"
)
_FIGURES: Final = (
    "SELECT run_id, kind, code, duration_ms, runtime FROM runs WHERE run_id >= :since "  # noqa: S608
    f"AND kind <> '{RUNNING}' ORDER BY run_id DESC LIMIT {MAX_FIGURES}"
)

_NO_LIMIT: Final = -1

_WITHIN: Final = "run_id > :first AND run_id < :last AND parent IS NOT NULL"
_LAST_ID: Final = "8"
"""What sorts behind every id."""

_SLACK: Final = timedelta(seconds=1)
"""Clocks are not exact."""


class RunLog:
    """The log of one user. `notices` tells what happened to it that somebody should know."""

    def __init__(
        self,
        state: Path,
        *,
        notary: Notary | None = None,
        tell: Callable[[RunRecord], object] | None = None,
        **options: Any,
    ) -> None:
        """`tell` is called for each row that is to be written."""
        self._database = RunDatabase(state, **options)
        self._notary = notary
        self._tell = tell
        self._mark = MarkFile(state)
        self._has_looked_for_lost = False

    @property
    def path(self) -> Path:
        """The file, which need not be there."""
        return self._database.path

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Problems of the log that were found and fixed up to now."""
        return tuple(self._database.notices)

    def append(self, record: RunRecord) -> tuple[Notice, ...]:
        """Write a row, in the place of the one that says that the run has begun.

        Return what should be known about that, and usually nothing.
        """
        if self._tell is not None:
            self._tell(record)
        return self._append(record)

    def _append(self, record: RunRecord) -> tuple[Notice, ...]:
        row, known = row_of(record), len(self._database.notices)

        def work(connection: sqlite3.Connection) -> None:
            if record.kind == RUNNING or not connection.execute(_END, (*row, record.run_id)).rowcount:
                connection.execute(_INSERT, row)

        try:
            self._database.write(work)
        except RyeError as exc:
            return (*self.notices[known:], Notice("run_not_logged", _with_hint(exc)))
        return self.notices[known:]

    def attest(self, record: RunRecord, facts: Any = None) -> Attested:
        """Write the row of a run that is over, and its receipt behind all others.

        Without a notary, or where the notary cannot sign, only the row is written. The first time, runs whose
        process is gone get their receipts too.
        """
        if self._notary is None:
            return Attested(self.append(record))
        if self._tell is not None:
            self._tell(record)
        try:
            self._notary.open()
        except RyeError as exc:
            return Attested((*self._append(record), Notice("receipt_not_written", _with_hint(exc))))
        return self._written(self._notary, record, facts)

    def _written(self, notary: Notary, record: RunRecord, facts: Any) -> Attested:
        made: list[ChainedReceipt] = []
        known = len(self._database.notices)

        def work(connection: sqlite3.Connection) -> None:
            made.clear()
            with _transaction(connection):
                link = chain.next_link(connection, self._mark)
                made.append(_write_with_receipt(connection, notary, record, link, facts))
                for lost in self._lost(connection):
                    link = chain.Link(made[-1].number + 1, made[-1].digest)
                    made.append(_write_with_receipt(connection, notary, lost, link, None))

        try:
            self._database.write(work)
        except RyeError as exc:
            return Attested((*self.notices[known:], Notice("run_not_logged", _with_hint(exc))))
        self._has_looked_for_lost = True
        try:
            self._mark.raise_to(made[-1].mark)
        except (OSError, UnsafeError) as exc:
            what = f"expected to write {printable(self._mark.path)}, found: {exc}"
            return Attested((*self.notices[known:], Notice("mark_not_written", what)), made[0].digest)
        return Attested(self.notices[known:], made[0].digest)

    def _lost(self, connection: sqlite3.Connection) -> Iterator[RunRecord]:
        """The runs whose process has ended without a word about them; once a process."""
        if self._has_looked_for_lost:
            return
        query = (
            f"SELECT {_NAMES} FROM runs WHERE kind = '{RUNNING}' "  # noqa: S608
            "AND run_id NOT IN (SELECT run_id FROM receipts)"
        )
        for row in connection.execute(query).fetchall():
            record = _readable(row)
            if record is not None and record.kind != RUNNING:
                yield replace(record, process=None)

    def list(self, wanted: RunFilter = _EVERYTHING) -> tuple[RunRecord, ...]:
        """The newest runs that are wanted, the newest one first."""
        return self._read_page(replace(wanted, limit=min(max(0, wanted.limit), MAX_ROWS))).runs

    def page(self, wanted: RunFilter, *, before: int | None = None) -> RunPage:
        """The newest runs that are wanted, of those that were logged before row `before`."""
        return self._read_page(wanted, before=before)

    def within(self, record: RunRecord) -> tuple[RunRecord, ...]:
        """The runs that a run has asked for, and what those asked for, in the order in which they began."""
        # Ids sort by time, so what is within a run is found without reading the others.
        over = None if record.status == RUNNING else record.begun + timedelta(milliseconds=record.duration_ms)
        bounds = {
            "first": first_id_at(record.begun),
            "last": _LAST_ID if over is None else first_id_at(over + _SLACK),
        }
        query = f"SELECT {_NAMES} FROM runs WHERE {_WITHIN} ORDER BY run_id LIMIT {MAX_ROWS}"  # noqa: S608

        def work(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(query, bounds).fetchall()

        nothing: list[tuple[Any, ...]] = []
        candidates = tuple(map(record_of, self._database.read(work, nothing)))
        known, size = {record.run_id}, 0
        while len(known) > size:  # runs that began in the same millisecond stand in any order
            size = len(known)
            known |= {each.run_id for each in candidates if each.parent in known}
        return tuple(each for each in candidates if each.parent in known)

    def callers(self, item_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return which items called this one, and which ones it called, in the newest runs."""

        def work(connection: sqlite3.Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
            last: int = connection.execute("SELECT coalesce(max(seq), 0) FROM runs").fetchone()[0]
            values = {"item_id": item_id, "first": last - LOOKED_AT_CALLS}
            queries = (_CALLS.format("caller", "called"), _CALLS.format("called", "caller"))
            by, called = (tuple(name for (name,) in connection.execute(each, values)) for each in queries)
            return by, called

        nothing: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        return self._database.read(work, nothing)

    def figures(self, since: datetime) -> tuple[Figure, ...]:
        """Return what a chart needs of the newest runs that are over and began since then."""

        def work(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(_FIGURES, {"since": first_id_at(since)}).fetchall()

        nothing: list[tuple[Any, ...]] = []
        return tuple(Figure(*each) for each in self._database.read(work, nothing))

    def count(self) -> int:
        """How many rows the log has."""
        return self._database.read(
            lambda each: int(each.execute("SELECT count(*) FROM runs").fetchone()[0]), 0
        )

    def get(self, run_id: str) -> RunRecord:
        """One run; RyeError `run_not_found` if it is unknown."""
        check_run_id(run_id)
        query = f"SELECT {_NAMES} FROM runs WHERE run_id = ?"  # noqa: S608

        def work(connection: sqlite3.Connection) -> tuple[Any, ...]:
            return tuple(connection.execute(query, (run_id,)))

        found: tuple[Any, ...] = ()
        for row in self._database.read(work, found):
            return record_of(row)
        raise RyeError("run_not_found", f"expected the run {run_id} in the log, found none", run_id=run_id)

    def follow(
        self,
        wanted: RunFilter = _EVERYTHING,
        *,
        pause: Callable[[], object] = lambda: time.sleep(FOLLOW_INTERVAL_S),
    ) -> Iterator[RunRecord]:
        """The wanted runs that are there, the oldest first, then each new one, for as long as it is asked."""
        seen, stamp, asked = 0, None, wanted
        while True:
            looked, now = self.look(), time.time_ns()
            if stamp is None or looked != stamp:
                page = self._read_page(asked, after=seen)
                yield from reversed(page.runs)
                seen, asked = page.last, replace(wanted, limit=_NO_LIMIT)
                # A file that changed just now may change again without another time.
                is_final = all(each is None or is_settled(each, now) for each in looked)
                stamp = looked if is_final else None
            pause()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_page(self, wanted: RunFilter, *, after: int = 0, before: int | None = None) -> RunPage:
        """The newest rows behind `after`. In a log that was started again, everything is behind it."""
        values: dict[str, Any] = {"limit": wanted.limit}
        conditions = ["seq > :after", "seq <= :last"]
        for condition, needed in wanted.conditions():
            conditions.append(condition)
            values |= needed
        index = "running" if wanted.status == RUNNING else "filtered"
        query = _PAGE.format(index=index, where=" AND ".join(conditions))

        def work(connection: sqlite3.Connection) -> RunPage:
            matches = cache(wanted.item or bool)  # many runs are of few items
            connection.create_function("matches_item", 1, matches)
            connection.create_function("is_gone", 1, is_gone)
            last: int = connection.execute("SELECT coalesce(max(seq), 0) FROM runs").fetchone()[0]
            until = last if before is None else min(last, before - 1)
            bounds = {"last": until, "after": after if after <= last else 0}
            rows = connection.execute(query, values | bounds).fetchall()
            runs = tuple(record_of(row[:-1]) for row in rows)
            return RunPage(runs, last, rows[-1][-1] if rows and len(rows) == wanted.limit else None)

        return self._database.read(work, RunPage((), 0, None))

    def look(self) -> tuple[Stamp | None, ...]:
        """What is another one as soon as something was written, unless that was within the same instant."""
        return tuple(stamp_of(f"{self.path}{suffix}") for suffix in ("", "-wal"))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep other writers out during a block, whose changes are made together or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


def _readable(row: tuple[Any, ...]) -> RunRecord | None:
    """The record of a row; None for one that this program has not written: it stops no other run."""
    try:
        record = record_of(row)
    except (msgspec.DecodeError, ValueError, TypeError):
        return None
    return record if is_run_id(record.run_id) else None


def _write_with_receipt(
    connection: sqlite3.Connection, notary: Notary, record: RunRecord, link: Link, facts: Any
) -> ChainedReceipt:
    row = row_of(record)
    receipt = notary.attest(record, named(row), link, facts)
    chain.add(connection, receipt)
    if not connection.execute(_END, (*row, record.run_id)).rowcount:
        connection.execute(_INSERT, row)
    return receipt


def _with_hint(error: RyeError) -> str:
    return f"{error.message}; hint: {error.hint}"
