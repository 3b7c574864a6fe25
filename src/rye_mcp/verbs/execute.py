"""`execute`: run a tool, or give out the instructions of a directive or the text of knowledge.

Rules:

- A tool goes through `rye_mcp.executor`: nothing runs that did not pass every stage. What is refused before
  it runs is a RyeError; how a run ended, also badly, is a result.
- A dry run goes through the same stages and stops before the last one. It tells what would run, and the names
  of variables, never their values.
- What somebody has agreed to (`preview`) runs as it was then, or not at all.
- What the last commits say of persons is on record before a tool runs for an agent: it may make others.
- Instructions and knowledge pass the gate first: an agent follows what it is given here.

    result = await execute(ExecuteRequest("demo/hello", parameters={"name": "Ada"}), context)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.executor.lock.agreement import Preview
from rye_mcp.executor.preparation import DryRun
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import ItemType
from rye_mcp.metadata import ItemMetadata, body_of
from rye_mcp.runs.records import Caller
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._committed import note_commits, unnoted_commits
from rye_mcp.verbs._directives import check_inputs, instructions
from rye_mcp.verbs._shapes import metadata_as_dict
from rye_mcp.verbs.context import Context

__all__ = ["ExecuteRequest", "Executed", "Instructions", "Knowledge", "execute", "log_refusal", "preview"]


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """What to execute. `timeout`, in seconds, only lowers that of the tool.

    `agreed` is the mark of what somebody has agreed to; nothing else runs then.
    """

    item_id: str
    item_type: ItemType = ItemType.TOOL
    parameters: Mapping[str, Any] | None = field(default=None, repr=False)
    dry_run: bool = False
    timeout: float | None = None
    agreed: str | None = None


@dataclass(frozen=True, slots=True)
class Instructions:
    """A directive, filled: what an agent is to do."""

    item: VerifiedItem
    text: str
    inputs: Mapping[str, Any] = field(repr=False)

    def as_dict(self, *, detail: bool = False) -> dict[str, Any]:
        """Return it as data; with `detail`, with who signed it."""
        answer = {
            "status": "success",
            "type": ItemType.DIRECTIVE.value,
            "item_id": self.item.file.item_id,
            "instructions": self.text,
            "inputs": dict(self.inputs),
        }
        return answer | ({"signer": self.item.signer.as_dict()} if detail else {})


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A piece of knowledge."""

    item: VerifiedItem
    metadata: ItemMetadata

    def as_dict(self, *, detail: bool = False) -> dict[str, Any]:
        """Return it as data; with `detail`, with who signed it."""
        answer = {
            "status": "success",
            "type": ItemType.KNOWLEDGE.value,
            "item_id": self.item.file.item_id,
            "content": body_of(self.item.file),
            "metadata": metadata_as_dict(self.metadata),
        }
        return answer | ({"signer": self.item.signer.as_dict()} if detail else {})


Executed = ExecutionResult | DryRun | Instructions | Knowledge
"""What comes of it: of a tool, of its dry run, of a directive, of knowledge."""


async def execute(request: ExecuteRequest, context: Context, *, watch: Watch | None = None) -> Executed:
    """Execute one item."""
    if request.item_type is ItemType.TOOL:
        return await _run(request, context, watch or Watch())
    if request.timeout is not None:
        what = f"expected no timeout for a {request.item_type}, which nothing runs, found one"
        raise RyeError("unknown_argument", what, hint="leave out timeout")
    found = context.spaces.find(request.item_id, request.item_type)
    verified = context.verify(found.item)
    metadata = context.metadata(verified)
    if request.item_type is ItemType.KNOWLEDGE:
        return Knowledge(verified, metadata)
    return await apart(partial(_filled, verified, metadata, request.parameters or {}))


def _filled(verified: VerifiedItem, metadata: ItemMetadata, given: Mapping[str, Any]) -> Instructions:
    inputs = check_inputs(verified.file, metadata, given)
    return Instructions(verified, instructions(verified.file, inputs), inputs)


async def preview(request: ExecuteRequest, context: Context) -> Preview:
    """What a run of this tool would be, for somebody who has to agree to it first."""
    return await context.executor().preview(request.item_id, request.parameters)


def log_refusal(request: ExecuteRequest, error: RyeError, context: Context) -> None:
    """Log a run that was refused before `execute` was asked for it, because nobody agreed."""
    context.executor().log_refusal(request.item_id, error, asked_by=_asked_by(context), client=context.client)


def _asked_by(context: Context) -> Caller:
    return "person" if context.is_person else "agent"


async def _run(request: ExecuteRequest, context: Context, watch: Watch) -> ExecutionResult | DryRun:
    if unnoted := unnoted_commits(context):
        await apart(partial(note_commits, unnoted, context))
    executor = context.executor()
    if request.dry_run:
        return await executor.dry_run(request.item_id, request.parameters, timeout=request.timeout)
    return await executor.run(
        request.item_id,
        request.parameters,
        timeout=request.timeout,
        asked_by=_asked_by(context),
        client=context.client,
        watch=watch,
        agreed=request.agreed,
        trace=context.trace,
    )
