"""`rye adopt`: make a tool of a script that you have, without changing what it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from rye_mcp.cli._common import (
    JsonOption,
    ProjectOption,
    open_app,
    person,
    print_json,
    visible,
    visible_lines,
)
from rye_mcp.cli._script_help import help_of
from rye_mcp.cli._terminal import can_ask
from rye_mcp.errors import RyeError, printable
from rye_mcp.verbs.adopt import AdoptRequest, Proposal, propose, write

if TYPE_CHECKING:
    from rye_mcp.verbs.context import Context

__all__ = ["adopt"]


def adopt(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The script.")],
    item_id: Annotated[
        str | None, typer.Option("--as", metavar="ID", help="The id of the tool; scripts/NAME by default.")
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", metavar="NAME", help="Which of its subcommands the tool calls.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What it does, for people and agents.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Update the tool that it became before, as the script has changed."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write it without asking.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a tool of a script that you have, without changing what it does."""
    context = person(open_app(project), as_json=as_json)
    request = AdoptRequest(path, item_id, command, description, again=again)
    proposal = propose(request, context)
    if not proposal.parameters and proposal.declared.reader == "nothing" and can_ask(as_json=as_json):
        proposal = _after_help(request, proposal, context)
    if as_json:
        if yes:
            write(proposal, context)
        print_json(proposal.as_dict(written=yes))
        return
    _show(proposal)
    if not yes and not _agreed():
        what = "expected a person who agrees to this, found nobody to ask"
        raise RyeError("confirmation_required", what, hint=f"{proposal.request.command} --yes")
    write(proposal, context)
    typer.echo(visible(f"wrote {printable(proposal.file.path)}"))
    typer.echo("Now:")
    for line in proposal.next_commands:
        typer.echo(f"  {visible(line)}")


def _show(proposal: Proposal) -> None:
    source = printable(proposal.source)
    what = f"{source} gets a header" if proposal.in_place else f"{source} is copied; it stays as it is"
    if proposal.before is not None:
        what = f"{printable(proposal.file.path)} follows {source}, and has to be signed again"
    typer.echo(visible(f"{what}. Its arguments were read from: {proposal.declared.reader}."))
    typer.echo(visible_lines(proposal.diff()), nl=False)
    for remark in proposal.remarks:
        typer.echo(visible(f"rye: note: {remark}"), err=True)


def _agreed() -> bool:
    """Whether the person agrees; False when there is nobody to ask."""
    if not can_ask():
        return False
    if not typer.confirm("Write this?", default=True, err=True):
        raise typer.Abort
    return True


def _after_help(request: AdoptRequest, proposal: Proposal, context: Context) -> Proposal:
    """The proposal after the script itself was asked for its help, if the person wants that."""
    source = printable(proposal.source)
    typer.echo(visible(f"Nothing in {source} could be read as arguments."), err=True)
    question = f"Run {source} --help now, as you, and read that?"
    if not typer.confirm(visible(question), default=False, err=True):
        return proposal
    found = anyio.run(help_of, proposal)
    asked = propose(replace(request, help_text=found.text), context)
    if found.failure is not None:
        goes_on = "what it wrote was read" if asked.parameters else "going on with what stands in the script"
        typer.echo(visible(f"rye: note: {source} --help {found.failure}; {goes_on}"), err=True)
    return asked if asked.parameters else proposal
