"""Asks the person at the client before something is signed or run, when the server or the user wants that.

A question shows all that the person needs, one fact a line; only a declared secret is hidden, and what may be
a command never is. Its mark stands for everything in it: when the answer arrives, the question is made again
and must have the same mark. Only an explicit yes is a yes, and each answer counts once, in all workers.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart, off_loop
from rye_mcp.configuration import Action, to_be_confirmed
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.variables import MAX_NAME, looks_secret
from rye_mcp.executor.snippets import SAVER
from rye_mcp.inside.record import CallRecord
from rye_mcp.items import ItemType, SpaceName, printable
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S, QuestionAsked
from rye_mcp.mcp_server.tickets import Given, Tickets, ask_elsewhere
from rye_mcp.permissions import Action as RuleAction
from rye_mcp.trust.control_variables import chooses_code
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import signer_in_words
from rye_mcp.verbs.context import options_of
from rye_mcp.verbs.execute import ExecuteRequest, judged, preview
from rye_mcp.verbs.sign import SignRequest, plan
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.executor.lock.agreement import Preview, Way
    from rye_mcp.executor.tree import InnerCall
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.sign import SigningPlan

__all__ = ["Confirmer", "Question", "about_run", "about_signing"]

MAX_CHARACTERS: Final = 20_000
"""How long a question may be; nobody would read a longer one to its end."""

_MAX_NAMES: Final = 20
"""How many names are listed of files that no answer is about."""

_MAX_COMMAND_CHARACTERS: Final = 400
_HIDDEN: Final = "(hidden)"

_WORD: Final = re.compile(
    r"(?:(?:Basic|Bearer|Token) )?(?:[A-Za-z0-9_][A-Za-z0-9._~%+:-]{0,4095}={0,2})?", re.IGNORECASE | re.ASCII
)
"""What a secret looks like: one word, perhaps behind the scheme of a header, that no shell and no program
takes for several words, an option, an assignment or a path."""

_NAMES_PROGRAM: Final = re.compile("ASKPASS|LESSKEY", re.IGNORECASE)
"""Variables that sound like secrets and say what is started."""

_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")
_PLAIN_PASSWORD: Final = re.compile(r"[A-Za-z0-9._~%+=,:-]{1,128}")
"""A password that no shell takes for anything else."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._~%+=,:@/?&#\[\]-]*")
"""A text that is one address, and nothing that a shell obeys but what may stand in one."""

_GAP: Final = re.compile(r"\s{40,}")
"""Blanks that would move what follows out of sight."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `action` is what would be done to `item_id`, `command` does it in a terminal.

    It `is_inner` if it is about what a program calls.
    """

    action: Action
    item_id: str
    text: str
    mark: str
    command: str
    is_inner: bool = False

    @property
    def same(self) -> str:
        """The mark that all questions about the same call have in common."""
        return self.mark.partition(" ")[0]


def about_run(
    request: ExecuteRequest,
    found: Preview,
    project: Path | None,
    *,
    in_background: bool = False,
    called_by: tuple[str, ...] = (),
) -> Question:
    """Whether to run a tool; `called_by` are the programs that call it, the outermost first."""
    values = found.parameters.values
    shown = {name: _shown(found, name, value) for name, value in values.items()}
    signer = found.signer
    # The time that is left to a program is another one at each call.
    timeout = None if called_by else request.timeout
    facts = {
        "called by": " → ".join(called_by),
        "signed by": signer_in_words(SignerKind(signer["kind"]), signer["owner"], signer["fingerprint"]),
        "sha256": found.digest,
        "permissions": found.may,
        "MORE THAN AGREED": "; ".join(found.widened),
        "project": "none" if project is None else printable(project),
        "brings": ", ".join(_first(list(found.brought))),
        "time limit": "" if timeout is None else f"{timeout:g} s",
        "beside": "nobody waits for its end" if in_background else "",
    }
    parameters = [f"  {visible(name)} = {text}" for name, text in shown.items()]
    lines = [f"Run {found.item_id}?", *_lines(facts), *(["parameters:", *parameters] if shown else [])]
    whole = [dict(values), timeout, in_background, *([list(called_by)] if called_by else [])]
    command = _run_command(found, shown, project)
    return _question("execute", found.item_id, lines, [found.mark, whole, str(project)], command)


def about_signing(request: SignRequest, found: SigningPlan, project: Path | None) -> Question:
    """Whether to sign items, as the agent."""
    what = request.item_id if len(found.item_ids) == 1 else f"{len(found.item_ids)} items, {request.item_id}"
    facts = {
        "signed by": f"the agent's key {found.signer}",
        "in": printable(found.root),
        "not signed": ", ".join(_first(list(found.failing))),
    }
    files = [f"  {visible(path)}  sha256 {digest}" for path, digest in found.files.items()]
    lines = [f"Sign {what}, so that it can run?", *_lines(facts), "files, as they are now:", *files]
    options = options_of(request.item_type, SpaceName(request.source))
    command = f"rye sign {shlex.quote(request.item_id)}{options}{_of_project(project)}"
    return _question("sign", request.item_id, lines, [found.mark, str(project)], command)


def _question(action: Action, item_id: str, lines: list[str], whole: list[Any], command: str) -> Question:
    text = "\n".join(lines)
    if len(text) > MAX_CHARACTERS:
        what = (
            f"expected a question of at most {MAX_CHARACTERS} characters about {item_id}, found {len(text)}"
        )
        hint = f"ask a person to do it in a terminal: {command}"
        raise RyeError("confirmation_required", what, item_id=item_id, hint=hint)
    mark = hashlib.sha256(json.dumps([action, item_id, whole], sort_keys=True).encode()).hexdigest()
    return Question(action, item_id, text, mark, command)


def _lines(facts: Mapping[str, str]) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"{name}: {visible(value)}"


# --- parameters ---


class _MaybeCommand(Exception):  # noqa: N818 - nothing is wrong yet
    """A value with the name of a secret may be a command."""


def _shown(found: Preview, name: str, value: Any) -> str:
    """A value as one line, whole but for its secrets; RyeError if something else would be hidden."""
    try:
        masked = value
        if found.signer["kind"] != SignerKind.AGENT:
            masked = _masked(value, (name,), found, is_secret=_names_secret(name))
    except _MaybeCommand:
        what = f"expected a secret of one word in {visible(name)[:80]}, found what may be a command"
        way = "call a tool" if found.is_direct else f"mark {visible(name)[:80]} as writeOnly in the schema"
        hint = f"{way}, or ask a person to run it in a terminal"
        raise RyeError("confirmation_required", what, item_id=found.item_id, hint=hint) from None
    text = visible(json.dumps(masked, ensure_ascii=False))
    return _HIDDEN if masked == _HIDDEN else _GAP.sub(lambda gap: f"[{len(gap[0])} blanks]", text)


def _masked(value: Any, path: Way, found: Preview, *, is_secret: bool) -> Any:
    if path in found.parameters.secret_paths:
        return _marked(value)
    if is_secret and _may_be_command(value, path, found):
        raise _MaybeCommand
    if isinstance(value, Mapping):
        return {
            name: _masked(each, (*path, name), found, is_secret=_is_secret(str(name), within=is_secret))
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _masked(each, (*path, number), found, is_secret=is_secret) for number, each in enumerate(value)
        ]
    if not isinstance(value, str):
        return _HIDDEN if is_secret and _is_declared(path, found) else value
    return _masked_text(value, is_secret=is_secret, is_code=found.is_direct or found.runs_given_code)


def _marked(value: Any) -> str:
    """Show a value that the schema marks; a variable that chooses code is shown whole."""
    level = [value]
    while level:
        names = [name for each in level if isinstance(each, Mapping) for name in each]
        if any(_chooses_code(str(name)) for name in names):
            raise _MaybeCommand
        level = [inner for each in level for inner in _inside(each)]
    return _HIDDEN


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _is_declared(path: Way, found: Preview) -> bool:
    """Whether the schema has the name of a value, or of the list that it is in."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path in found.declared


def _is_secret(name: str, *, within: bool) -> bool:
    return (within and not _chooses_code(name)) or _names_secret(name)


def _may_be_command(value: Any, path: Way, found: Preview) -> bool:
    """Whether a value under the name of a secret has several texts, or a name that the caller invented."""
    if not _is_declared(path, found):
        return isinstance(value, str | Mapping | list | tuple) or found.is_direct
    if isinstance(value, list | tuple) and len(value) > 1:
        return True
    if isinstance(value, Mapping | list | tuple):
        return _texts(value, path, found.parameters.secret_paths) > 1
    return found.is_direct


def _texts(value: Any, path: Way, marked: frozenset[Way]) -> int:
    """How many texts are in a value, but for those that the schema marks."""
    if path in marked:
        return 0
    if isinstance(value, Mapping):
        return sum(_texts(each, (*path, name), marked) for name, each in value.items())
    if isinstance(value, list | tuple):
        return sum(_texts(each, (*path, number), marked) for number, each in enumerate(value))
    return int(isinstance(value, str))


def _masked_text(text: str, *, is_secret: bool, is_code: bool) -> str:
    if is_secret:
        if not _WORD.fullmatch(text):
            raise _MaybeCommand
        return _HIDDEN
    passwords = [found[2] for found in _PASSWORD.finditer(text)]
    if not passwords:
        return text
    is_plain = len(passwords) == 1 and _PLAIN_PASSWORD.fullmatch(passwords[0])
    if is_code or not is_plain or not _ADDRESS.fullmatch(text):
        raise _MaybeCommand
    return _PASSWORD.sub(rf"\1:{_HIDDEN}@", text)


def _names_secret(name: str) -> bool:
    """Whether a name says that its value is a secret; one that nobody would read says nothing."""
    if len(name) > MAX_NAME:
        return False
    return looks_secret(name) and not _chooses_code(name)


def _chooses_code(name: str) -> bool:
    return chooses_code(name) or _NAMES_PROGRAM.search(name) is not None


def _first(names: list[str]) -> list[str]:
    more = len(names) - _MAX_NAMES
    return [*names[:_MAX_NAMES], *([f"and {more} more"] if more > 0 else [])]


# --- commands ---


def _run_command(found: Preview, shown: Mapping[str, str], project: Path | None) -> str:
    values = found.parameters.values
    given = json.dumps(dict(values), ensure_ascii=False, separators=(",", ":"))
    is_whole = not found.parameters.secret_paths and all(_HIDDEN not in text for text in shown.values())
    if not values:
        parameters = ""
    elif is_whole and len(given) <= _MAX_COMMAND_CHARACTERS:
        parameters = f" --params {shlex.quote(visible(given))}"
    else:
        parameters = " --params -"
    return f"rye run{_of_project(project)}{parameters} {shlex.quote(found.item_id)}"


def _of_project(project: Path | None) -> str:
    return "" if project is None else f" --project {shlex.quote(printable(project))}"


_KEY: Final = "confirmation"
"""The key of the question among those of one answer."""

_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {}}
"""An empty form: to accept is the answer."""

_BY_ANSWER: Final = "2026-07-28"
"""The first revision in which a question is an answer."""

_NO: Final = {
    "decline": "declined",
    "cancel": "dismissed without an answer",
}


@dataclass(frozen=True, slots=True)
class Confirmer:
    """Asks about one call. `always` is what this server asks about; `client` is the request of MCP."""

    app: App
    always: frozenset[Action] = frozenset()
    client: Any = None
    _answered: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)
    """The answers to questions of this request and those before it, by their marks."""
    _last: list[tuple[str, Any]] = field(default_factory=list, compare=False, repr=False)
    """The answer that this request brings, with the mark of its question."""
    _records: list[CallRecord] = field(default_factory=list, compare=False, repr=False)

    async def run(
        self,
        request: ExecuteRequest,
        context: Context,
        *,
        in_background: bool = False,
        is_widened: bool = False,
    ) -> ExecuteRequest:
        """The request as it was agreed to; RyeError when it was not.

        Somebody has to agree to a tool that may do more than was agreed to before. To find that out takes as
        long as a call, so a call that is waited for is made first, and if it is refused for that reason, this
        asks for it (`is_widened`).
        """
        runs = request.item_type is ItemType.TOOL and not request.dry_run
        if not runs:
            return request
        judgement, found = await judged(request, context)
        if judgement is None:
            asks = self._is_asked_about("execute", context)
        else:
            asks = judgement is RuleAction.ASK or "execute" in self.always
        asks = asks or (request.item_id == SAVER and "sign" in self.always)
        looks = asks or is_widened or in_background or self._is_answered
        if not looks:
            return request
        found = found or await preview(request, context)
        if not asks and not (found.widened and self.can_ask):
            return request
        path = () if context.program is None else context.program.path
        question = about_run(request, found, context.project, in_background=in_background, called_by=path)
        await self._ask(question if context.call is None else _of_call(question, context.call))
        return replace(request, agreed=found.mark)

    async def inner(self, request: ExecuteRequest, context: Context, is_widened: bool) -> ExecuteRequest:
        """As `run`, for what a program calls."""
        return await self.run(request, context, is_widened=is_widened)

    async def signing(self, request: SignRequest, context: Context) -> SignRequest:
        """The request as it was agreed to; RyeError when it was not."""
        if not self._is_asked_about("sign", context):
            return request
        request = replace(request, all_beside=True)  # the question shows every file
        found = await apart(partial(plan, request, context))
        await self._ask(about_signing(request, found, context.project))
        return replace(request, agreed=found.files)

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody to ask at the client."""
        return self.client is not None and _can_ask(self.client.client_capabilities)

    @property
    def _is_answered(self) -> bool:
        """Whether the call brings the answer to a question."""
        return self.client is not None and _KEY in (self.client.input_responses or {})

    def _is_asked_about(self, action: Action, context: Context) -> bool:
        return action in to_be_confirmed(context) or action in self.always

    async def _ask(self, question: Question) -> None:
        client = self.client
        if not self.can_ask:
            agreed, number = await ask_elsewhere(question, self.app.settings.state)
            if agreed is None:
                raise _nobody_to_ask(question, number)
            if not agreed:
                raise _declined(question, _NO["decline"])
            return
        if str(client.protocol_version) >= _BY_ANSWER:
            self._ask_by_answer(question)
        else:
            await _ask_at_once(question, client)

    async def take_answer(self) -> None:
        """Use up the answer that the call brings, if it does, before anything is done."""
        if not self._is_answered or self._last or self.client.request_state is None:
            return
        given = Given.read(self.client.request_state)
        tickets = Tickets(self.app.settings.state)
        await off_loop(partial(tickets.use, given.ticket), shielded=True)  # a no uses it up as well
        self._answered.update(given.before)
        answer = self.client.input_responses[_KEY]
        self._answered[given.mark] = getattr(answer, "action", None) == "accept"
        self._last.append((given.mark, answer))
        if given.of_program:
            kept = await off_loop(partial(tickets.take, given.ticket))
            self._records[:] = [await apart(partial(CallRecord.read, kept))]

    @property
    def record(self) -> CallRecord | None:
        """What programs are answered, where a question starts them again; None where nothing does."""
        if not self.can_ask or str(self.client.protocol_version) < _BY_ANSWER:
            return None
        if not self._records:
            self._records.append(CallRecord())
        return self._records[0]

    async def keep(self, asked: QuestionAsked) -> None:
        """Keep what the program was answered before this question; RyeError when that cannot be."""
        state = Given.read(asked.result.request_state or "")
        if state.of_program and self.record is not None:
            data = await apart(self.record.data)
            await off_loop(partial(Tickets(self.app.settings.state).keep, state.ticket, data), shielded=True)

    def _ask_by_answer(self, question: Question) -> None:
        """Ask, or take the answer that the call brings: each state has what was answered before."""
        if not self._last:
            raise _asked(question, {})
        mark, answer = self._last[0]
        if question.mark == mark:
            _require_yes(question, answer)
        elif question.mark in self._answered:
            if not self._answered[question.mark]:
                raise _declined(question, _NO["decline"])
        elif not question.is_inner:
            what = f"expected {question.item_id} as the person was shown it, found that something has changed"
            raise RyeError("confirmation_outdated", what, item_id=question.item_id)
        elif question.same in self._no:
            raise _declined(question, _NO["decline"])
        else:
            raise _asked(question, self._answered)

    @property
    def _no(self) -> frozenset[str]:
        """The calls that were declined: nobody is asked about the same one again."""
        return frozenset(mark.partition(" ")[0] for mark, yes in self._answered.items() if not yes)


def _can_ask(capabilities: Any) -> bool:
    """Whether the client shows forms; one that says nothing of modes does."""
    found = None if capabilities is None else capabilities.elicitation
    return found is not None and (found.form is not None or found.url is None)


def _of_call(question: Question, call: InnerCall) -> Question:
    """The question about one call of a program: a yes counts for it alone."""
    said = f"\nagain: the same call was made {call.times} times before" if call.times else ""
    mark = f"{question.mark} {call.key}"
    return replace(question, text=f"{question.text}{said}", mark=mark, is_inner=True)


def _asked(question: Question, before: Mapping[str, bool]) -> QuestionAsked:
    from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

    asked = ElicitRequest(
        params=ElicitRequestFormParams(message=question.text, requested_schema=dict(_SCHEMA))
    )
    state = Given(Tickets.new(), question.mark, before, question.is_inner).text()
    return QuestionAsked(InputRequiredResult(input_requests={_KEY: asked}, request_state=state))


async def _ask_at_once(question: Question, client: Any) -> None:
    from mcp.shared.exceptions import MCPError

    try:
        with anyio.fail_after(QUESTION_LIFETIME_S):
            found = await client.session.elicit_form(
                question.text, dict(_SCHEMA), related_request_id=client.request_id
            )
    except TimeoutError as exc:
        raise _declined(question, f"not answered within {QUESTION_LIFETIME_S} s") from exc
    except (MCPError, ValueError) as exc:  # it cannot after all, or its answer is invalid
        raise _nobody_to_ask(question) from exc
    _require_yes(question, found)


def _require_yes(question: Question, answer: Any) -> None:
    action = getattr(answer, "action", None)
    if action != "accept":
        raise _declined(question, _NO.get(str(action), "answered with something else"))


def _declined(question: Question, how: str) -> RyeError:
    what = f"expected a person to agree to {question.action} {question.item_id}, found that it was {how}"
    return RyeError("confirmation_declined", what, item_id=question.item_id)


def _nobody_to_ask(question: Question, number: int | None = None) -> RyeError:
    what = (
        f"expected a person to agree to {question.action} {question.item_id}, found a client that asks nobody"
    )
    hint = f"ask a person to do it in a terminal: {question.command}"
    if number is not None:
        hint = (
            f"ask a person to answer (rye questions agree {number}, or rye ui) and call again; or {hint[4:]}"
        )
    return RyeError("confirmation_required", what, item_id=question.item_id, hint=hint)
