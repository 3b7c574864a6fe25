"""Asks the person elsewhere, where a client cannot: on the page of `rye ui`, or at a terminal.

A call waits only if somebody looks at the questions. Without an answer it is refused with the number of the
question. A yes that comes later counts for the same call, once: any change gives the question another mark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio

from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.runs.questions import Questions

__all__ = ["WAIT_S", "AskedElsewhere", "ask_elsewhere"]

WAIT_S: Final = 50.0
"""How long a call waits for somebody who looks at the questions: clients give up after a minute."""

_POLL_S: Final = 0.2

Answer = TypeVar("Answer")


class AskedElsewhere(Protocol):
    """What there is to ask."""

    @property
    def mark(self) -> str:
        """What stands for everything in it."""

    @property
    def action(self) -> str:
        """What would be done."""

    @property
    def item_id(self) -> str:
        """The item that it would be done to."""

    @property
    def text(self) -> str:
        """What the person is shown."""

    @property
    def command(self) -> str:
        """What does the same at a terminal."""


async def ask_elsewhere(
    question: AskedElsewhere, state: Path, *, wait_s: float = WAIT_S
) -> tuple[bool | None, int | None]:
    """Return the answer, or None with the number of the question that now waits, if it could be asked."""
    questions = Questions(state)
    answer = await _quietly(partial(questions.take, question.mark))
    if answer is not None:
        return answer, None
    ask = partial(questions.ask, question.mark, question.action, question.item_id)
    number = await _quietly(partial(ask, question.text, question.command))
    if number is None or not await off_loop(questions.is_watched):
        return None, number
    with anyio.move_on_after(wait_s):
        while answer is None:
            await anyio.sleep(_POLL_S)
            answer = await _quietly(partial(questions.take, question.mark))
    return answer, number


async def _quietly(work: Callable[[], Answer]) -> Answer | None:
    """Do this; None where the state directory cannot be used, so that the call is refused as without it."""
    try:
        return await off_loop(work)
    except RyeError:
        return None
