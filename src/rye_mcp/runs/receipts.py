"""Reads the chain of receipts: one, a page, or all of them with the rows of the log that they are about.

with ReceiptStore(state) as store:
    store.page(limit=50)[0].run_id
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.runs import chain
from rye_mcp.runs._database import RunDatabase
from rye_mcp.runs.chain import ChainedReceipt, Mark, MarkFile
from rye_mcp.runs.ids import check_run_id
from rye_mcp.runs.records import COLUMNS, REFUSED, RUNNING, named

__all__ = ["MAX_PAGE", "ReceiptStore", "Rows"]

MAX_PAGE: Final = 1000
"""How many receipts a page has at most."""

_RECEIPT: Final = ", ".join(f"receipts.{name.strip()}" for name in chain.COLUMNS.split(","))
_ROW: Final = ", ".join(f"runs.{name}" for name in COLUMNS)
_FIELDS: Final = len(chain.COLUMNS.split(","))
_WITH_ROWS: Final = (
    f"SELECT {_RECEIPT}, {_ROW} FROM receipts LEFT JOIN runs ON runs.run_id = receipts.run_id "  # noqa: S608
    "WHERE number > ? ORDER BY number LIMIT ?"
)
_PAGE: Final = f"SELECT {_RECEIPT} FROM receipts WHERE number < ? ORDER BY number DESC LIMIT ?"  # noqa: S608
_ONE: Final = f"SELECT {_RECEIPT} FROM receipts WHERE run_id = ?"  # noqa: S608
_UNATTESTED: Final = (
    "SELECT runs.run_id FROM runs LEFT JOIN receipts ON receipts.run_id = runs.run_id "  # noqa: S608
    f"WHERE receipts.run_id IS NULL AND runs.kind <> '{RUNNING}' AND runs.seq > (SELECT min(runs.seq) "
    "FROM runs JOIN receipts ON receipts.run_id = runs.run_id) ORDER BY runs.seq LIMIT ?"
)
_OLDER: Final = (
    "SELECT count(*) FROM runs LEFT JOIN receipts ON receipts.run_id = runs.run_id "
    "WHERE receipts.run_id IS NULL AND runs.seq < (SELECT min(runs.seq) "
    "FROM runs JOIN receipts ON receipts.run_id = runs.run_id)"
)
_COUNT: Final = f"SELECT count(*) FROM runs WHERE (kind = '{REFUSED}') = ? AND kind <> '{RUNNING}'"  # noqa: S608
_BELOW: Final = (
    f"SELECT {_RECEIPT} FROM receipts JOIN runs ON runs.run_id = receipts.run_id WHERE parent = ? "  # noqa: S608
    "ORDER BY number"
)
_NEXT: Final = f"SELECT {_RECEIPT} FROM receipts WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608
_LAST_NUMBER: Final = 2**62


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows of runs, and of refused calls, the log has, and how many it keeps."""

    runs: int
    refusals: int
    kept_runs: int
    kept_refusals: int


class ReceiptStore:
    """The receipts of one state directory, for reading."""

    def __init__(self, state: Path, **options: Any) -> None:
        self._database = RunDatabase(state, **options)
        self._mark = MarkFile(state)

    @property
    def kept(self) -> int:
        """How many receipts are kept."""
        return self._database.kept_receipts

    def mark(self) -> Mark | None:
        """The last receipt that was written, by the file beside the log."""
        return self._mark.read()

    def of(self, run_id: str) -> ChainedReceipt:
        """The receipt of a run; RyeError `receipt_not_found` if it has none."""
        check_run_id(run_id)
        for found in self._select(_ONE, (run_id,)):
            return ChainedReceipt(*found)
        what = f"expected a receipt of the run {run_id} in the log, found none"
        raise RyeError("receipt_not_found", what, run_id=run_id)

    def page(self, *, before: int | None = None, limit: int = 50) -> tuple[ChainedReceipt, ...]:
        """The newest receipts with a number below `before`, the newest first."""
        last = _LAST_NUMBER if before is None else before
        found = self._select(_PAGE, (last, min(max(0, limit), MAX_PAGE)))
        return tuple(ChainedReceipt(*each) for each in found)

    def all_with_rows(self) -> Iterator[tuple[ChainedReceipt, dict[str, Any] | None]]:
        """Every receipt in the order of their numbers, and what the log says of its run, if it still does."""
        after = -1
        while found := self._select(_WITH_ROWS, (after, MAX_PAGE)):
            for each in found:
                row = each[_FIELDS:]
                yield ChainedReceipt(*each[:_FIELDS]), None if row[0] is None else named(row)
            after = found[-1][0]

    def unattested(self, limit: int) -> tuple[str, ...]:
        """Runs that are over and have no receipt, though one that was logged before has one."""
        return tuple(run_id for (run_id,) in self._select(_UNATTESTED, (limit,)))

    def older(self) -> int:
        """How many runs were logged before the first one that has a receipt, and have none."""
        [(count,)] = self._select(_OLDER, ()) or [(0,)]
        return int(count)

    def below(self, run_id: str) -> tuple[ChainedReceipt, ...]:
        """The receipts of the runs that a run asked for."""
        return tuple(ChainedReceipt(*each) for each in self._select(_BELOW, (check_run_id(run_id),)))

    def all(self) -> Iterator[ChainedReceipt]:
        """Every receipt in the order of their numbers."""
        after = -1
        while found := self._select(_NEXT, (after, MAX_PAGE)):
            yield from (ChainedReceipt(*each) for each in found)
            after = found[-1][0]

    def rows(self) -> Rows:
        """How many rows the log has."""
        [(runs,)] = self._select(_COUNT, (0,)) or [(0,)]
        [(refusals,)] = self._select(_COUNT, (1,)) or [(0,)]
        return Rows(runs, refusals, self._database.kept_rows, self._database.kept_refusals)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _select(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            return connection.execute(query, values).fetchall()

        nothing: list[Any] = []
        return self._database.read(work, nothing)
