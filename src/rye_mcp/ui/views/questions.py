"""What servers ask the person, with everything that would run: agreed to with a code, or refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime

from rye_mcp.errors import RyeError
from rye_mcp.runs.questions import LIFETIME_S, Questions, WaitingQuestion
from rye_mcp.ui.layout import button, code_form, moment, state
from rye_mcp.ui.markup import Content, Markup, tag
from rye_mcp.ui.parts import Parts

__all__ = ["agree", "ask_code", "questions_view", "refuse"]


def questions_view(parts: Parts, asked: int | None = None, code: str = "") -> Iterator[Content]:
    """The page; with a field for the code, below the question that it was `asked` for."""
    waiting = Questions(parts.state).waiting()
    yield tag("h1", "Questions")
    yield tag(
        "p",
        "What servers ask you. A yes is for exactly what is shown, and counts once.",
    )
    if not parts.codes.can_ask:
        yield tag(
            "p",
            "Nothing can be agreed to here, since rye ui was not started in a terminal. Agree with ",
            tag("code", "rye questions agree N"),
        )
    cards = [_card(each, parts, asked, code) for each in waiting]
    yield tag("div", cards or tag("p", "No question waits.", class_="empty"), id="waiting", data_part=True)
    yield tag(
        "p",
        f"A question waits for {LIFETIME_S / 60:g} minutes. A call that was refused meanwhile is made again.",
        class_="faint",
    )


def _card(question: WaitingQuestion, parts: Parts, asked: int | None, code: str) -> Markup:
    number = str(question.number)
    hidden = (
        tag("input", type="hidden", name="question", value=number),
        tag("input", type="hidden", name="mark", value=question.mark),
    )
    actions: list[Content] = [parts.frame.form("/questions/refuse", *hidden, button("Refuse", kind="plain"))]
    if question.number == asked:
        actions.insert(0, code_form(parts.frame, "/questions/agree", hidden, code, "agree"))
    elif parts.codes.can_ask:
        actions.insert(0, parts.frame.form("/questions/ask", *hidden, button("Agree …")))
    return tag(
        "article",
        tag("h3", state("waiting"), f" {number}. {question.action} ", tag("code", question.item_id)),
        tag("p", "asked ", moment(datetime.fromtimestamp(question.asked, UTC)), class_="faint"),
        tag("pre", question.text, class_="output", tabindex="0", aria_label=f"Question {number}"),
        tag("div", *actions, class_="row"),
        class_="card",
    )


def ask_code(number: str, mark: str, parts: Parts) -> tuple[int, str]:
    """Show a code for a question in the terminal: the number of the question, and that of the code."""
    question = _as_shown(number, mark, parts)
    what = f"to agree to question {question.number}, {question.action} {question.item_id}"
    return question.number, parts.codes.ask(what, _stands_for(question))


def agree(number: str, mark: str, code_number: str, code: str, parts: Parts) -> None:
    """Agree to a question, once the code is the one of the terminal; RyeError `code_refused` otherwise."""
    question = _as_shown(number, mark, parts)
    parts.codes.use(code_number, _stands_for(question), code)
    Questions(parts.state).answer(question.number, question.mark, agreed=True)


def refuse(number: str, mark: str, parts: Parts) -> None:
    """Refuse what a question asks."""
    question = _as_shown(number, mark, parts)
    Questions(parts.state).answer(question.number, question.mark, agreed=False)


def _as_shown(number: str, mark: str, parts: Parts) -> WaitingQuestion:
    question = Questions(parts.state).get(
        int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
    )
    if question.mark != mark:
        raise RyeError("question_not_found", f"expected question {number} as it was shown, found another one")
    return question


def _stands_for(question: WaitingQuestion) -> str:
    return hashlib.sha256(f"agree\n{question.number}\n{question.mark}".encode()).hexdigest()
