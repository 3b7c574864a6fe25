"""`rye adopt`: make a tool of a script that you have, without changing what it does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import typer

from lilux._dataclasses import dataclass
from rye_mcp.cli._options import JsonOption, ProjectOption, open_app, person
from rye_mcp.cli._printing import print_json, say
from rye_mcp.cli._terminal import can_ask
from rye_mcp.errors import RyeError, printable
from rye_mcp.verbs.adopt import AdoptRequest, Proposal, propose, write
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from lilux.primitives.subprocess import SubprocessResult
    from rye_mcp.verbs.context import Context

__all__ = ["Help", "adopt", "help_of"]


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
    say(f"wrote {printable(proposal.file.path)}")
    typer.echo("Now:")
    for line in proposal.next_commands:
        typer.echo(f"  {visible(line)}")


def _show(proposal: Proposal) -> None:
    source = printable(proposal.source)
    what = f"{source} gets a header" if proposal.in_place else f"{source} is copied; it stays as it is"
    if proposal.before is not None:
        what = f"{printable(proposal.file.path)} follows {source}, and has to be signed again"
    say(f"{what}. Its arguments were read from: {proposal.declared.reader}.")
    typer.echo(visible_lines(proposal.diff()), nl=False)
    for remark in proposal.remarks:
        say(f"rye: note: {remark}", err=True)


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
    say(f"Nothing in {source} could be read as arguments.", err=True)
    question = f"Run {source} --help now, as you, and read that?"
    if not typer.confirm(visible(question), default=False, err=True):
        return proposal
    found = anyio.run(help_of, proposal)
    asked = propose(replace(request, help_text=found.text), context)
    if found.failure is not None:
        goes_on = "what it wrote was read" if asked.parameters else "going on with what stands in the script"
        say(f"rye: note: {source} --help {found.failure}; {goes_on}", err=True)
    return asked if asked.parameters else proposal


_LIMIT_S: Final = 10
_LAST_CHARACTERS: Final = 200

_PROGRAMS: Final = {
    "python_script_runtime": ("python3",),
    "uv_script_runtime": ("uv", "run", "--script"),
    "bash_runtime": ("bash",),
    "node_runtime": ("node",),
    "perl_runtime": ("perl",),
    "ruby_runtime": ("ruby",),
}
"""The last segment of a runtime → what starts a script of its language."""

_OF_TYPESCRIPT: Final = ("tsx",)


@dataclass(frozen=True, slots=True)
class Help:
    """The output for `--help`, and its problem: none where the script ended with 0."""

    text: str
    failure: str | None = None


async def help_of(proposal: Proposal) -> Help:
    """Run a script with `--help`."""
    from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive

    program, *arguments = _command(proposal)
    spec = ProcessSpec(command=program, args=(*arguments, "--help"), env=dict(os.environ), timeout=_LIMIT_S)
    result = await SubprocessPrimitive().run(spec)
    return Help(f"{result.stdout}\n{result.stderr}", _failure(result))


def _command(proposal: Proposal) -> tuple[str, ...]:
    source = proposal.source
    runtime = proposal.kind.executor_id.rpartition("/")[2]
    if os.access(source, os.X_OK) or runtime not in _PROGRAMS:
        return (str(source),)
    programs = _OF_TYPESCRIPT if source.suffix == ".ts" else _PROGRAMS[runtime]
    return (*_of_project(programs, proposal.file.space.root.parent), str(source))


def _of_project(programs: tuple[str, ...], project: Path) -> tuple[str, ...]:
    """The same, with the program that the project has installed for itself, if it has."""
    name, *rest = programs
    places = (project / ".venv/bin" / name, project / "node_modules/.bin" / name)
    found = next((each for each in places if os.access(each, os.X_OK)), None)
    return (name if found is None else str(found), *rest)


def _failure(result: SubprocessResult) -> str | None:
    """How the script ended, if not well, with the last line that it wrote."""
    if result.success:
        return None
    last = result.stderr.strip().rpartition("\n")[2][-_LAST_CHARACTERS:]
    how = {"exited": f"ended with exit code {result.return_code}", "spawn_failed": "did not start"}
    ending = how.get(result.kind, f"was ended ({result.kind})")
    return f"{ending}: {last}" if last else ending
