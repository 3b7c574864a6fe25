"""A log with receipts, as one user has it, for tests that write, change and verify it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rye_mcp.receipts.log_check import check_log
from rye_mcp.receipts.runner import RunnerKeys, RunnerNotary
from rye_mcp.receipts.statement import RunFacts
from rye_mcp.receipts.verification import Checked, Signers
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.receipts import ReceiptStore

__all__ = ["Ledger", "run"]


def run(**more: Any) -> RunRecord:
    """A run that is over."""
    facts = {"run_id": new_run_id(), "item_id": "demo/hello", "kind": "exited", "caller": "agent"}
    return RunRecord(**facts | more)


@dataclass(frozen=True)
class Ledger:
    """A state directory with a log."""

    state: Path

    @contextmanager
    def log(self, **options: Any) -> Iterator[RunLog]:
        """The log, for writing."""
        with RunLog(self.state, notary=RunnerNotary(self.state), **options) as log:
            yield log

    def write(self, *records: RunRecord, facts: RunFacts | None = None) -> list[str]:
        """Write runs with their receipts; the digests of these."""
        with self.log() as log:
            attested = [log.attest(record, facts) for record in records]
        assert [each.notices for each in attested] == [()] * len(records)
        return [each.receipt or "" for each in attested]

    def verify(self, *, every_signature: bool = False, **options: Any) -> Checked:
        """What a verification of the whole log finds, as a new process does it."""
        with ReceiptStore(self.state, **options) as store:
            signers = Signers(RunnerKeys(self.state).known())
            return check_log(store, signers, every_signature=every_signature)

    def problems(self, **options: Any) -> list[str]:
        """The same, in words."""
        return [each.message for each in self.verify(**options).problems]

    def edit(self, *statements: str) -> None:
        """Change the file as somebody does that has no key."""
        with closing(sqlite3.connect(self.state / "runs.sqlite3")) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def select(self, query: str) -> list[Any]:
        """What stands in the file."""
        with closing(sqlite3.connect(self.state / "runs.sqlite3")) as connection:
            return connection.execute(query).fetchall()
