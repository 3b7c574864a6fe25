"""Asks the person at the client before something is signed or run, when the server or the user wants that.

When the answer arrives, the question is made again and must have the same mark. Only an explicit yes is a
yes, and each answer counts once, in all workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart, off_loop
from rye_mcp.configuration import Action, to_be_confirmed
from rye_mcp.errors import RyeError
from rye_mcp.executor.decider import SAVER
from rye_mcp.inside.record import CallRecord
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S, QuestionAsked
from rye_mcp.mcp_server.question_text import Question, about_run, about_signing
from rye_mcp.mcp_server.tickets import Given, Tickets, ask_elsewhere
from rye_mcp.permissions import Action as RuleAction
from rye_mcp.verbs.execute import ExecuteRequest, judged, preview
from rye_mcp.verbs.sign import SignRequest, plan

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.executor.tree import InnerCall
    from rye_mcp.verbs.context import Context

__all__ = ["Confirmer"]


_KEY: Final = "confirmation"
"""The key of the question among those of one answer."""

_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {}}
"""An empty form: to accept is the answer."""

_BY_ANSWER: Final = "2026-07-28"
"""The first revision in which a question is an answer."""

_NO: Final = {"decline": "declined", "cancel": "dismissed without an answer"}


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
        if request.item_type is not ItemType.TOOL or request.dry_run:
            return request
        judgement, found = await judged(request, context)
        asks = self._asks_about_run(request, judgement, context)
        if not any((asks, is_widened, in_background, self._is_answered)):
            return request
        found = found or await preview(request, context)
        if not asks and not found.widened:
            return request
        path = () if context.program is None else context.program.path
        question = about_run(request, found, context.project, in_background=in_background, called_by=path)
        question = question if context.call is None else _of_call(question, context.call)
        await self._ask(question, None if asks else found.too_wide)
        return replace(request, agreed=found.mark)

    def _asks_about_run(
        self, request: ExecuteRequest, judgement: RuleAction | None, context: Context
    ) -> bool:
        """Whether this call needs a yes: by the first rule that fits it, or as this server was told."""
        if request.item_id == SAVER and "sign" in self.always:
            return True
        if judgement is None:
            return self._is_asked_about("execute", context)
        return judgement is RuleAction.ASK or "execute" in self.always

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

    async def _ask(self, question: Question, otherwise: RyeError | None = None) -> None:
        """Ask; `otherwise` is the refusal where nobody can be asked, instead of `confirmation_required`."""
        client = self.client
        if not self.can_ask:
            agreed, number = await ask_elsewhere(question, self.app.settings.state)
            if agreed is None:
                raise _nobody_to_ask(question, number, otherwise)
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


def _nobody_to_ask(
    question: Question, number: int | None = None, otherwise: RyeError | None = None
) -> RyeError:
    what = (
        f"expected a person to agree to {question.action} {question.item_id}, found a client that asks nobody"
    )
    hint = f"ask a person to do it in a terminal: {question.command}"
    error = otherwise or RyeError("confirmation_required", what, item_id=question.item_id, hint=hint)
    if number is not None:
        or_else = str(error.hint).removeprefix("ask ")
        error.hint = (
            f"ask a person to answer (rye questions agree {number}, or rye ui) and call again; or {or_else}"
        )
    return error
