"""Asks the person at the client before something is signed or run, when the server or the user wants that.

A client of 2025 is asked while the call waits; one of 2026 gets the question as the answer, and calls again.
When the answer arrives, the question is made again and must have the same mark. Each answer counts once, in
all workers of a user: its ticket becomes a file in the state directory. Only an explicit yes is a yes.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S, QuestionAsked
from rye_mcp.mcp_server.questions import Question, about_run, about_signing
from rye_mcp.trust.files import opened_directory
from rye_mcp.verbs.execute import ExecuteRequest, preview
from rye_mcp.verbs.policy import Action, to_be_confirmed
from rye_mcp.verbs.sign import SignRequest, plan

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.context import Context

__all__ = ["Confirmer", "Tickets"]

_KEY: Final = "confirmation"
"""What the question is called among those of one answer."""

_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {}}
"""Nothing has to be filled in: to accept is the answer."""

_BY_ANSWER: Final = "2026-07-28"
"""The first revision in which a question is an answer."""

_NO: Final = {
    "decline": "declined",
    "cancel": "dismissed without an answer",
}


@dataclass(frozen=True, slots=True)
class Confirmer:
    """Who asks about one call. `always` is what this server asks about; `client` is the request of MCP."""

    app: App
    always: frozenset[Action] = frozenset()
    client: Any = None

    async def run(
        self, request: ExecuteRequest, context: Context, *, in_background: bool = False
    ) -> ExecuteRequest:
        """The request as it was agreed to; RyeError when it was not."""
        runs = request.item_type is ItemType.TOOL and not request.dry_run
        if not runs or not self._is_asked_about("execute", context):
            return request
        found = await preview(request, context)
        await self._ask(about_run(request, found, context.project, in_background=in_background))
        return replace(request, agreed=found.mark)

    async def signing(self, request: SignRequest, context: Context) -> SignRequest:
        """The request as it was agreed to; RyeError when it was not."""
        if not self._is_asked_about("sign", context):
            return request
        request = replace(request, all_beside=True)  # the question shows every file
        found = await apart(partial(plan, request, context))
        await self._ask(about_signing(request, found, context.project))
        return replace(request, agreed=found.files)

    def _is_asked_about(self, action: Action, context: Context) -> bool:
        return action in to_be_confirmed(context) or action in self.always

    async def _ask(self, question: Question) -> None:
        client = self.client
        if client is None or not _can_ask(client.client_capabilities):
            raise _nobody_to_ask(question)
        if str(client.protocol_version) >= _BY_ANSWER:
            self._ask_by_answer(question)
        else:
            await _ask_at_once(question, client)

    def _ask_by_answer(self, question: Question) -> None:
        answers = self.client.input_responses or {}
        state = self.client.request_state
        if state is None or _KEY not in answers:
            raise _asked(question)
        ticket, mark = _opened(state)
        Tickets(self.app.settings.state).use(ticket)  # a no uses it up as well
        if mark != question.mark:
            what = f"expected {question.item_id} as the person was shown it, found that something has changed"
            raise RyeError("confirmation_outdated", what, item_id=question.item_id)
        _require_yes(question, answers[_KEY])


def _can_ask(capabilities: Any) -> bool:
    """Whether the client shows forms; one that says nothing of modes does."""
    found = None if capabilities is None else capabilities.elicitation
    return found is not None and (found.form is not None or found.url is None)


def _asked(question: Question) -> QuestionAsked:
    from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

    asked = ElicitRequest(
        params=ElicitRequestFormParams(message=question.text, requested_schema=dict(_SCHEMA))
    )
    state = json.dumps({"ticket": Tickets.new(), "mark": question.mark})
    return QuestionAsked(InputRequiredResult(input_requests={_KEY: asked}, request_state=state))


def _opened(state: str) -> tuple[str, str]:
    """Ticket and mark of a state, which the SDK has unsealed: it is one of ours, but perhaps of long ago."""
    try:
        found = json.loads(state)
        return str(found["ticket"]), str(found["mark"])
    except (ValueError, KeyError, TypeError) as exc:
        what = "expected the state of a question of this server, found another"
        raise RyeError("confirmation_outdated", what) from exc


async def _ask_at_once(question: Question, client: Any) -> None:
    from mcp.shared.exceptions import MCPError

    try:
        with anyio.fail_after(QUESTION_LIFETIME_S):
            found = await client.session.elicit_form(
                question.text, dict(_SCHEMA), related_request_id=client.request_id
            )
    except TimeoutError as exc:
        raise _declined(question, f"not answered within {QUESTION_LIFETIME_S} s") from exc
    except (MCPError, ValueError) as exc:  # it cannot after all, or its answer is none
        raise _nobody_to_ask(question) from exc
    _require_yes(question, found)


def _require_yes(question: Question, answer: Any) -> None:
    action = getattr(answer, "action", None)
    if action != "accept":
        raise _declined(question, _NO.get(str(action), "answered with something else"))


def _declined(question: Question, how: str) -> RyeError:
    what = f"expected a person to agree to {question.action} {question.item_id}, found that it was {how}"
    return RyeError("confirmation_declined", what, item_id=question.item_id)


def _nobody_to_ask(question: Question) -> RyeError:
    what = (
        f"expected a person to agree to {question.action} {question.item_id}, found a client that asks nobody"
    )
    hint = f"ask a person to do it in a terminal: {question.command}"
    return RyeError("confirmation_required", what, item_id=question.item_id, hint=hint)


_DIRECTORY: Final = "confirmations"
_FORM: Final = re.compile(r"[0-9a-f]{32}")
_FLAGS: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o600
_PRIVATE: Final = 0o700
_FORBIDDEN: Final = 0o077


class Tickets:
    """The tickets of one user; `state` is their state directory."""

    def __init__(self, state: Path) -> None:
        self._state = Path(os.path.realpath(state))

    @staticmethod
    def new() -> str:
        """One that nobody has used, and nobody can guess."""
        return secrets.token_hex(16)

    def use(self, ticket: str) -> None:
        """Use it up; RyeError `confirmation_outdated` when somebody has."""
        if not _FORM.fullmatch(ticket):
            raise RyeError("confirmation_outdated", "expected the ticket of a question, found none")
        try:
            with opened_directory(
                self._state, _DIRECTORY, forbidden=_FORBIDDEN, create_mode=_PRIVATE
            ) as directory:
                os.close(os.open(ticket, _FLAGS, _MODE, dir_fd=directory))
                _sweep(directory)
        except FileExistsError as exc:
            what = "expected an answer that was not given before, found one that was"
            raise RyeError("confirmation_outdated", what) from exc
        except OSError as exc:
            where = self._state / _DIRECTORY
            raise RyeError("write_failed", f"the system said: {exc.strerror}", where=where) from exc


def _sweep(directory: int) -> None:
    """Remove what no seal is left for."""
    oldest = time.time() - 2 * QUESTION_LIFETIME_S
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.name, dir_fd=directory)
            except FileNotFoundError:
                continue  # another process was faster
