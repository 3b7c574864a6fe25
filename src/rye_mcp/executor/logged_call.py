"""The entries of one call in the log of runs: a refusal, or its beginning and its end.

What is over gets a receipt.

logged = LoggedCall(log, "demo/hello", project, Caller("agent", client="inspector"))
async with logged.refusals():
    call = await prepare()
notices = logged.began(call)
notices += logged.ended(outcome)
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.chain.builder import Chain, once_a_chain
from rye_mcp.executor.decider import DecidedCall
from rye_mcp.executor.preparation import PreparedCall
from rye_mcp.executor.results import Node, Outcome
from rye_mcp.notices import Notice
from rye_mcp.receipts.statement import Element, RunFacts
from rye_mcp.runs.hosts import this_process
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.records import REFUSED, RUNNING, RunRecord

__all__ = [
    "LoggedCall",
    "facts_of",
    "result_digest",
]

Notices = tuple[Notice, ...]


class LoggedCall:
    """One call of a tool, as the log sees it."""

    def __init__(
        self, log: RunLog, item_id: str, project: Path | None, caller: Caller, agreed: str | None = None
    ) -> None:
        """`agreed` is the mark of what a person agreed to."""
        self.run_id = new_run_id()
        self.receipt: str | None = None
        """The digest of the receipt, once there is one."""
        self._log = log
        self._known: dict[str, Any] = {
            "run_id": self.run_id,
            "item_id": item_id,
            "project": None if project is None else str(project),
            "caller": caller.kind,
            "client": caller.client,
            "parent": caller.parent,
        }
        self._begun: float | None = None
        self.is_under_way = False
        """Whether the log says that it has begun, and not yet how it ended."""
        self._facts = RunFacts(agreed=agreed)

    @asynccontextmanager
    async def refusals(self) -> AsyncIterator[None]:
        """Log what is refused in this block before anything runs: by whom, what, and the code."""
        try:
            yield
        except RyeError as exc:
            if self._begun is None:
                await off_loop(partial(self.refused, exc), shielded=True)
                exc.receipt = self.receipt
            raise

    def refused(self, error: RyeError) -> None:
        """Log that the call was refused."""
        self._attest(RunRecord(**self._known, kind=REFUSED, code=error.code))

    def began(self, call: PreparedCall) -> Notices:
        """Log that the run begins; what should be known about that, and usually nothing."""
        return self._began(call.decision, call.environment.variables, sealed=call.sealed)

    def began_elsewhere(self, decided: DecidedCall, node: Node) -> Notices:
        """Log that the run begins on another machine, of whose environment nothing is known."""
        self._known["node"] = node.in_words
        return self._began(decided, (), sealed=False)

    def _began(self, decided: DecidedCall, variables: Iterable[str], *, sealed: bool) -> Notices:
        verified = decided.verified
        self._begun, self.is_under_way = time.perf_counter(), True
        self._known |= {
            "item_id": verified.chain.root.item_id,
            "chain": tuple((item.file.item_id, item.digest) for item in verified.items),
            "signer": verified.root.signer.in_words,
            "parameters": tuple(decided.parameters.values),
            "sealed": sealed,
        }
        self._facts = facts_of(decided, variables, self._facts.agreed)
        return self._log.append(RunRecord(**self._known, kind=RUNNING, process=this_process()))

    def ended_elsewhere(self, outcome: Outcome, node: Node, *, sealed: bool) -> Notices:
        """Log how a run on another machine ended; as `began`."""
        self._known["sealed"] = sealed
        self._facts = replace(self._facts, node=node.as_dict())
        return self.ended(outcome)

    def ended(self, outcome: Outcome) -> Notices:
        """Log how the run ended; as `began`."""
        ended, usage = outcome.exit, outcome.usage
        record = RunRecord(
            **self._known,
            kind=ended.kind,
            return_code=ended.return_code,
            signal=ended.signal,
            code=outcome.code,
            duration_ms=outcome.duration_ms,
            user_ms=None if usage is None else usage.user_ms,
            system_ms=None if usage is None else usage.system_ms,
            max_rss_kb=None if usage is None else usage.max_rss_kb,
            digests=outcome.digests,
            enforced=None if outcome.enforced is None else outcome.enforced.as_dict(),
            runtime=None if outcome.runtime is None else " ".join(outcome.runtime.as_dict().values()),
            stderr_end=None if outcome.success else outcome.stderr or None,
        )
        if not outcome.digests:
            self._facts = replace(self._facts, result=result_digest(outcome.data))
        return self._attest(record)

    def given_up(self) -> None:
        """Log that the caller gave the run up."""
        took = 0.0 if self._begun is None else (time.perf_counter() - self._begun) * 1000
        self._attest(RunRecord(**self._known, kind="cancelled", code="cancelled", duration_ms=took))

    def _attest(self, record: RunRecord) -> Notices:
        self.is_under_way = False
        attested = self._log.attest(record, self._facts)
        self.receipt = attested.receipt
        return attested.notices


# --- what a receipt says ---


def facts_of(decision: DecidedCall, variables: Iterable[str], agreed: str | None) -> RunFacts:
    """The facts of a call that is about to run."""
    verified, lock = decision.verified, decision.pinned.lock
    digests = _digests(verified.chain)
    return RunFacts(
        elements=tuple(
            Element(
                element.item_id,
                digest,
                item.digest,
                item.signer.kind.value,
                item.signer.key_id,
                element.version,
            )
            for (element, item), digest in zip(verified.pairs, digests, strict=True)
        ),
        files={printable(path): digest for path, digest in verified.carried.digests.items()},
        lock={"state": lock.state, "sha256": lock.digest},
        parameters=_encoded(decision.parameters.values),
        variables=tuple(sorted(map(printable, variables))),
        agreed=agreed,
    )


def result_digest(data: Any) -> str:
    """The SHA-256 of the data of what is no program, as JSON with sorted names."""
    return hashlib.sha256(_encoded(data)).hexdigest()


@once_a_chain
def _digests(chain: Chain) -> tuple[str, ...]:
    return tuple(hashlib.sha256(element.file.content).hexdigest() for element in chain.elements)


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic", enc_hook=repr)
    except (ValueError, OverflowError):  # half a character, or a number of more than 64 bits
        return json.dumps(value, sort_keys=True, default=repr).encode("ascii")
