"""`rye questions`: what servers ask for clients that cannot ask their person, and the answers.

A yes is for exactly what is shown, and counts once. It takes a terminal: whoever may only run commands agrees
to nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from rye_mcp.app import Settings
from rye_mcp.cli._command_groups import command_group
from rye_mcp.cli._options import JsonOption
from rye_mcp.cli._printing import print_json, print_table
from rye_mcp.cli._terminal import can_ask
from rye_mcp.errors import RyeError
from rye_mcp.runs.questions import Questions, WaitingQuestion
from rye_mcp.visible import visible_lines

__all__ = ["questions"]

questions = command_group("What servers ask you, for clients that cannot ask, and your answers.")

NumberArgument = Annotated[int, typer.Argument(metavar="N", help="The number of a question: rye questions.")]


@questions.callback(invoke_without_command=True, no_args_is_help=False)
def waiting(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List the questions that wait."""
    if ctx.invoked_subcommand is not None:
        return
    found = _questions().waiting()
    if as_json:
        print_json({"status": "success", "questions": [_described(each) for each in found]})
    elif found:
        rows = [(str(each.number), each.action, each.item_id, f"{_asked(each):%H:%M:%S}") for each in found]
        print_table(("N", "WHAT", "ITEM", "ASKED"), rows)
        typer.echo("rye questions agree N shows all of it, and asks; rye questions refuse N")
    else:
        typer.echo("no question waits")


@questions.command()
def agree(number: NumberArgument) -> None:
    """Show a question whole, and agree to it once you have said yes."""
    kept = _questions()
    question = kept.get(number)
    typer.echo(visible_lines(question.text))
    if not can_ask():
        what = "expected a terminal in which a person says yes, found none"
        raise RyeError("confirmation_required", what, hint=f"rye questions agree {number}, in a terminal")
    if typer.confirm("Agree to this, once?", default=False, err=True):
        kept.answer(number, question.mark, agreed=True)
        typer.echo("agreed: the call has to be made again, unless it still waits")
    else:
        typer.echo("nothing was answered")


@questions.command()
def refuse(number: NumberArgument) -> None:
    """Refuse what a question asks."""
    kept = _questions()
    kept.answer(number, kept.get(number).mark, agreed=False)
    typer.echo("refused")


def _questions() -> Questions:
    return Questions(Settings.find().state)


def _asked(question: WaitingQuestion) -> datetime:
    return datetime.fromtimestamp(question.asked, UTC).astimezone()


def _described(question: WaitingQuestion) -> dict[str, object]:
    return {
        "number": question.number,
        "action": question.action,
        "item_id": question.item_id,
        "text": question.text,
        "command": question.command,
        "asked": _asked(question).isoformat(timespec="seconds"),
    }
