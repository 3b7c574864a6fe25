"""`execute`: run a tool, fill a directive with its inputs, or return the text of knowledge.

A refusal before anything runs is a RyeError; how a run ended, even badly, is a result. If somebody agreed to
a preview, exactly that runs, or the call is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from rye_mcp.apart import apart, off_loop
from rye_mcp.configuration import code_policy, rules_about, to_be_confirmed
from rye_mcp.errors import RyeError
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.decider import RUNNERS, SAVER, require_switched_on
from rye_mcp.executor.dry_run import DryRun
from rye_mcp.executor.lock.agreement import Preview
from rye_mcp.executor.primitive_executor import Watch
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import ItemFile, ItemType
from rye_mcp.metadata import ItemMetadata, body_of
from rye_mcp.permissions import Action as RuleAction
from rye_mcp.permissions import judge
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._answers import metadata_as_dict
from rye_mcp.verbs._commits import note_commits, unnoted_commits
from rye_mcp.verbs.context import Context

__all__ = [
    "ExecuteRequest",
    "Executed",
    "Instructions",
    "Knowledge",
    "check_inputs",
    "execute",
    "instructions",
    "judged",
    "log_refusal",
    "preview",
]

MAX_CHARACTERS: Final = 4 << 20
"""How long instructions may be with their inputs put in; no agent reads more."""

_PLACEHOLDER: Final = re.compile(r"\{input:([A-Za-z_][A-Za-z0-9_.-]*)(?:(\?)|\|([^{}]*))?\}")


def check_inputs(file: ItemFile, metadata: ItemMetadata, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a directive with its defaults; RyeError `invalid_parameters` with every reason."""
    schema = _input_schema(metadata.inputs)
    try:
        from lilux.schemas.schema_validator import apply_defaults, validate_parameters

        values: dict[str, Any] = apply_defaults(dict(given), schema)
        errors = validate_parameters(values, schema).errors
    except ConfigurationError as exc:
        what = f"expected a JSON Schema as inputs of {file.item_id}: {exc.message}"
        raise RyeError("invalid_item", what, where=file.path, item_id=file.item_id) from exc
    issues = {error.field: error.error for error in errors}
    for name in _required_inputs(file):
        if name not in values:
            issues.setdefault(f"/{name}", "expected a value, found nothing")
    if issues:
        raise _refused_inputs(file, issues)
    return values


def instructions(file: ItemFile, inputs: Mapping[str, Any]) -> str:
    """The body of a directive, filled; RyeError `invalid_parameters` when that would be too long."""
    texts = {name: _input_text(value) for name, value in inputs.items()}
    room = MAX_CHARACTERS

    def value(found: re.Match[str]) -> str:
        nonlocal room
        name, _, default = found.groups()
        text = texts.get(name, default or "")
        room -= len(text)
        if room < 0:
            problem = f"expected at most {MAX_CHARACTERS} characters in all their places, found more"
            raise _refused_inputs(file, {f"/{name}": problem})
        return text

    return _PLACEHOLDER.sub(value, body_of(file))


def _input_schema(inputs: Mapping[str, Any] | Sequence[str] | None) -> Mapping[str, Any]:
    if isinstance(inputs, Mapping):
        return inputs
    return {"type": "object", "required": list(inputs or ())}


def _required_inputs(file: ItemFile) -> Iterator[str]:
    """The inputs that the text cannot do without."""
    for found in _PLACEHOLDER.finditer(body_of(file)):
        name, optional, default = found.groups()
        if optional is None and default is None:
            yield name


def _input_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _refused_inputs(file: ItemFile, issues: Mapping[str, str]) -> RyeError:
    listed = "; ".join(f"{field or '/'}: {message}" for field, message in issues.items())
    return RyeError(
        "invalid_parameters",
        f"expected the inputs that {file.item_id} declares, found: {listed}",
        where=file.path,
        hint=f"rye show {file.item_id} --type directive",
        item_id=file.item_id,
        issues=[{"path": path, "message": message} for path, message in issues.items()],
    )


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """An item to execute. `timeout`, in seconds, only lowers that of the tool.

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
    """A piece of knowledge, or what a skill says to do."""

    item: VerifiedItem
    metadata: ItemMetadata

    def as_dict(self, *, detail: bool = False) -> dict[str, Any]:
        """Return it as data; with `detail`, with who signed it."""
        answer = {
            "status": "success",
            "type": self.item.file.item_type.value,
            "item_id": self.item.file.item_id,
            "content": body_of(self.item.file),
            "metadata": metadata_as_dict(self.metadata),
        }
        return answer | ({"signer": self.item.signer.as_dict()} if detail else {})


Executed = ExecutionResult | DryRun | Instructions | Knowledge
"""Results: of a tool, of its dry run, of a directive, of knowledge."""


async def execute(request: ExecuteRequest, context: Context, *, watch: Watch | None = None) -> Executed:
    """Execute one item."""
    if request.item_type is ItemType.TOOL:
        with context.naming_project():
            return await _run(request, context, watch or Watch())
    if request.timeout is not None:
        what = f"expected no timeout for a {request.item_type}, which nothing runs, found one"
        raise RyeError("unknown_argument", what, hint="leave out timeout")
    found = context.spaces.find(request.item_id, request.item_type)
    verified = context.verify(found.item)
    metadata = context.metadata(verified)
    if request.item_type is not ItemType.DIRECTIVE:
        return Knowledge(verified, metadata)
    return await apart(partial(_instructions_of, verified, metadata, request.parameters or {}))


def _instructions_of(
    verified: VerifiedItem, metadata: ItemMetadata, given: Mapping[str, Any]
) -> Instructions:
    inputs = check_inputs(verified.file, metadata, given)
    return Instructions(verified, instructions(verified.file, inputs), inputs)


async def judged(request: ExecuteRequest, context: Context) -> tuple[RuleAction | None, Preview | None]:
    """Return the policy's judgement of a call, and the run it would be; RyeError `denied_by_policy` for a no.

    The rules are about the parameters as the tool would get them, with its defaults. So a call that rules are
    about is prepared first; all others pay for nothing.
    """
    users, projects = rules_about(request.item_id, context)
    asks = _asks_about_code(request.item_id, context)
    if not (users or projects or asks) or request.item_type is not ItemType.TOOL:
        return None, None
    found = await preview(request, context)
    judgement = judge(users, projects, request.item_id, found.parameters.values)
    if judgement is None:
        return RuleAction.ASK if asks else None, found
    action, rule = judgement
    if action is RuleAction.DENY:
        what = f"expected a call that the policy allows, found one that a rule forbids: {rule}"
        raise RyeError("denied_by_policy", what, item_id=request.item_id)
    if asks and rule.tool != request.item_id:  # a rule about everything says nothing of code and signatures
        action = RuleAction.ASK
    return action, found


def _asks_about_code(item_id: str, context: Context) -> bool:
    """Whether the policy wants a person to agree to a program of an agent, or to an item made of one."""
    if item_id != SAVER and item_id not in RUNNERS:
        return False
    policy = code_policy(context)
    require_switched_on(item_id, policy)
    return "sign" in to_be_confirmed(context) if item_id == SAVER else policy == "ask"


async def preview(request: ExecuteRequest, context: Context) -> Preview:
    """Describe a run of this tool for the person who has to agree to it first."""
    return await context.executor().preview(request.item_id, request.parameters)


def log_refusal(request: ExecuteRequest, error: RyeError, context: Context) -> None:
    """Log a run that was refused before `execute` was asked for it, because nobody agreed."""
    context.executor().log_refusal(request.item_id, error, _caller(context))


def _caller(context: Context) -> Caller:
    program = context.program
    if program is not None:
        key = "" if context.call is None else context.call.key
        inner = replace(program.caller, parent=program.run_id, depth=program.depth, program=program, call=key)
        return inner if context.trace is None else replace(inner, trace=context.trace)
    return Caller("person" if context.is_person else "agent", context.client, trace=context.trace)


async def _allowed(request: ExecuteRequest, context: Context) -> ExecuteRequest:
    """The request, bound to what the rules were asked about; RyeError for a no, or for an agent a question.

    A caller that asks a person asks before this, so the request has been agreed to.
    """
    try:
        action, found = await judged(request, context)
        if action is RuleAction.ASK and not context.is_person and request.agreed is None:
            what = (
                f"expected a person to agree to this call of {request.item_id}, found that nobody was asked"
            )
            raise RyeError("confirmation_required", what, item_id=request.item_id)
        if found is not None and request.agreed is None:
            found.require_agreed()
    except RyeError as exc:
        await off_loop(partial(log_refusal, request, exc, context), shielded=True)
        raise
    if found is None:
        return request
    return replace(request, agreed=request.agreed or found.mark)


async def _run(request: ExecuteRequest, context: Context, watch: Watch) -> ExecutionResult | DryRun:
    if unnoted := unnoted_commits(context):
        await apart(partial(note_commits, unnoted, context))
    executor = context.executor()
    if request.dry_run:
        return await executor.dry_run(request.item_id, request.parameters, timeout=request.timeout)
    request = await _allowed(request, context)
    if watch.inside is None and context.open_inside is not None:
        watch = replace(watch, inside=context.open_inside(context))
    return await executor.run(
        request.item_id,
        request.parameters,
        timeout=request.timeout,
        caller=_caller(context),
        watch=watch,
        agreed=request.agreed,
    )
