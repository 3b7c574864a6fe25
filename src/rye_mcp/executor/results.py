"""The result of an execution for programs and agents, also when nothing was run.

Rules:

- `read_process`, `read_http` and `read_lost` make one `Outcome` of what any primitive did, and
  `ExecutionResult.of` makes the result; see `rye_mcp.executor.job.decoding` for where data comes from, and
  `rye_mcp.executor.job.outcomes` for what is a success.
- Output that was cut is named in the notices, with the handle by which all of it can be read.
- `as_dict` holds what a JSON document can hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Usage
from rye_mcp.errors import ERRORS, RyeError, printable
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.outcomes import Cut, Exit, Outcome, Runtime, read_http, read_lost, read_process
from rye_mcp.notices import Notice, data_of, present
from rye_mcp.runs.ids import handle_of
from rye_mcp.runs.results import Kept

if TYPE_CHECKING:
    from rye_mcp.permissions.denials import Denial

__all__ = ["ExecutionResult", "Exit", "Node", "Outcome", "read_http", "read_lost", "read_process"]


@dataclass(frozen=True, slots=True)
class Node:
    """Where a run was: the engine by its name, the key of the node, and the run and receipt in its log.

    `queued_ms` is how long the call waited for a worker.
    """

    engine: str
    key_id: str
    run_id: str | None = None
    receipt: str | None = None
    queued_ms: float | None = None

    @property
    def in_words(self) -> str:
        """A line for a person."""
        return f"{self.engine} ({self.key_id[:16]})"

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "engine": self.engine,
            "key_id": self.key_id,
            **present(run_id=self.run_id, receipt=self.receipt, queued_ms=self.queued_ms),
        }


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of an execution.

    The first six fields are those of the specification. `code` and `hint` belong to a failure. `chain` has an
    object for each element, from the tool to the primitive; `lock` says how it compares with what was locked.
    `receipt` is the digest of the run's receipt, `node` the other machine that it ran on.
    """

    success: bool
    data: Any = None
    error: str | None = None
    duration_ms: float = 0.0
    chain: Sequence[Mapping[str, Any]] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None
    hint: str | None = None
    item_id: str | None = None
    run_id: str | None = None
    exit: Exit | None = None
    stdout: str | None = None
    stderr: str | None = None
    cuts: tuple[Cut, ...] = ()
    usage: Usage | None = None
    sealed: bool | None = None
    notices: tuple[Notice, ...] = ()
    lock: Mapping[str, Any] | None = None
    enforced: Enforcement | None = None
    runtime: Runtime | None = None
    denied: Denial | None = None
    kept: tuple[Kept, ...] = ()
    receipt: str | None = None
    node: Node | None = None

    @classmethod
    def of(
        cls,
        outcome: Outcome,
        *,
        item_id: str,
        run_id: str,
        receipt: str | None = None,
        chain: Sequence[Mapping[str, Any]] = (),
        sealed: bool = False,
        notices: Sequence[Notice] = (),
        lock: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        duration_ms: float | None = None,
        kept: tuple[Kept, ...] = (),
        node: Node | None = None,
    ) -> ExecutionResult:
        """The result of a run; `notices` are those of the stages before it."""
        code = outcome.code
        return cls(
            success=outcome.success,
            data=outcome.data,
            error=outcome.error,
            duration_ms=outcome.duration_ms if duration_ms is None else duration_ms,
            chain=chain,
            metadata={**outcome.metadata, **(metadata or {})},
            code=code,
            hint=None if code is None else _hint(code, outcome.hint, item_id, run_id),
            item_id=item_id,
            run_id=run_id,
            exit=outcome.exit,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            cuts=outcome.cuts,
            usage=outcome.usage,
            sealed=sealed,
            notices=(*notices, *outcome.notices, *(cut.notice(run_id) for cut in outcome.cuts)),
            lock=lock,
            enforced=outcome.enforced,
            runtime=outcome.runtime,
            denied=outcome.denied,
            kept=kept,
            receipt=receipt,
            node=node,
        )

    @classmethod
    def refused(
        cls, error: RyeError, *, item_id: str | None = None, chain: Sequence[Mapping[str, Any]] = ()
    ) -> ExecutionResult:
        """The result of an execution that was refused before anything ran."""
        return cls(
            success=False,
            error=error.message,
            chain=chain,
            metadata=error.as_dict(),
            code=error.code,
            hint=error.hint,
            item_id=item_id,
            receipt=error.receipt,
        )

    @property
    def truncated(self) -> bool:
        """Whether bytes of any stream were left out."""
        return bool(self.cuts)

    @property
    def output(self) -> str | None:
        """The handle of the first stream that was cut and kept; the notices have those of all."""
        if self.run_id is None:
            return None
        return next((handle_of(self.run_id, cut.stream) for cut in self.cuts if cut.kept), None)

    def as_dict(self, *, detail: bool = False) -> dict[str, Any]:
        """Return it as data; with `detail`, with the chain and all that was printed."""
        answer: dict[str, Any] = {"status": "success" if self.success else "error"}
        if not self.success:
            answer |= {"code": self.code or "internal", "error": printable(self.error or self._sentence())}
            answer |= {"hint": printable(self.hint or "")}
        answer |= {"item_id": self.item_id, "run_id": self.run_id, "data": self.data}
        answer["exit"] = data_of(self.exit)
        answer |= self._printed(detail=detail)
        answer |= present(receipt=self.receipt)
        answer |= {"duration_ms": round(self.duration_ms, 3), "sealed": self.sealed}
        answer["enforced"] = None if self.enforced is None else self.enforced.as_dict(detail=detail)
        answer |= {**(data_of(self.runtime) or {}), **present(node=data_of(self.node))}
        answer["usage"] = None if self.usage is None else asdict(self.usage)
        answer |= self._rest(detail=detail)
        return answer

    def _printed(self, *, detail: bool) -> dict[str, Any]:
        """Return the output beside the data, as far as it is asked for."""
        return present(
            stdout=self.stdout if detail else None,
            stderr=self.stderr if detail or not self.success else None,
            truncated=self.truncated or None,
            output=self.output,
        )

    def _sentence(self) -> str:
        return ERRORS[self.code or "internal"].sentence

    def _rest(self, *, detail: bool) -> dict[str, Any]:
        rest = present(
            signed_before_by=None if self.success else self.metadata.get("signed_before_by"),
            denial_suspected=data_of(self.denied),
            kept=[each.as_dict() for each in self.kept],
            notices=[notice.as_dict() for notice in self.notices],
        )
        if detail:
            rest["chain"] = [_plain(element) for element in self.chain]
            rest["metadata"] = _plain(self.metadata)
        if self.lock is not None and (detail or not self.success):
            rest["lock"] = _plain(self.lock)
        return rest


def _hint(code: str, hint: str | None, item_id: str, run_id: str) -> str:
    return RyeError(code, "", hint=hint, item_id=item_id, run_id=run_id).hint


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: printable(value) if isinstance(value, Path) else value for name, value in facts.items()}
