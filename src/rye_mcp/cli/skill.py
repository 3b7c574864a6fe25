"""`rye skill`: bring in skills of others, look at them, and place copies for other clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED, command_group
from rye_mcp.cli._options import JsonOption, ProjectOption, SpaceOption, open_app, person
from rye_mcp.cli._printing import print_facts, print_json, print_table, report, say
from rye_mcp.items import NO_FILES, ItemType, SpaceName, printable
from rye_mcp.verbs.context import options_of
from rye_mcp.verbs.explain_skill import ExplainedSkill, ScriptTool
from rye_mcp.verbs.skill_review import Review
from rye_mcp.verbs.skills import CLIENTS, Added, AddRequest, AddResult, LinkRequest, add, link, look_at

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.trust.scope import Signer

__all__ = ["print_explained", "skill"]

skill = command_group("Skills of others: bring them in, look at them, place copies for other clients.")

MAX_SHOWN: Final = 40
"""How many findings of a skill are printed; `--json` has more."""

_SHOWN_DIGITS: Final = 16

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a skill.")]


@skill.command("add")
def add_skills(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR|URL",
            help="A skill, a project that has some, or a git repository: URL[@REVISION][#DIRECTORY].",
        ),
    ],
    names: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Only this skill; more than once.")
    ] = None,
    space: Annotated[
        SpaceName, typer.Option("--space", metavar="SPACE", help="Where they go: project or user.")
    ] = SpaceName.PROJECT,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace skills that are there.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring in skills as they are, unsigned, and print what to look at before signing each.

    Nothing of them runs. Links, devices, set-uid, and names that not every system can have are refused.
    """
    import anyio

    app = open_app(project)
    context = person(app, as_json=as_json)
    wanted, here = frozenset(names or ()), Path.cwd()

    async def add_all() -> AddResult:
        found = AddResult()
        for source in sources:
            async with _held(source, here, app) as (directory, origin):
                request = AddRequest(directory, space, wanted, overwrite, origin, renamed=origin is not None)
                one = add(request, context)
            found = AddResult(found.added + one.added, found.failed + one.failed)
        return found

    result = anyio.run(add_all)
    if as_json:
        print_json(result.as_dict())
    else:
        for each in result.added:
            say(f"added {each.file.item_id} from {each.origin}")
            _print_review(each.file.item_id, each.review)
        for failure in result.failed:
            report(failure.error)
        _print_next(result.added, space)
    if result.failed:
        raise typer.Exit(EXIT_FAILED)


@asynccontextmanager
async def _held(source: str, here: Path, app: App) -> AsyncIterator[tuple[Path, str | None]]:
    """The directory that a source is, for as long as the block lasts, and what it is called otherwise."""
    from rye_mcp.sharing.checkout import checked_out, is_repository

    if not is_repository(source):
        yield here / source, None
        return
    async with checked_out(source, app.settings.environment, app.trust.directories.why_not) as found:
        yield found.directory, found.origin


@skill.command("review")
def review_skills(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The names of skills.")],
    space: SpaceOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what to look at in skills before signing them."""
    context = person(open_app(project))
    found = [look_at(name, context, space) for name in names]
    if as_json:
        print_json({"status": "success", "skills": [each.as_dict() for each in found]})
        return
    for each in found:
        say(f"{each.file.item_id}: {printable(each.file.text_path.parent)}")
        _print_review(each.file.item_id, each.review)


@skill.command("link")
def link_skill(
    name: NameArgument,
    clients: Annotated[
        list[str], typer.Option("--to", metavar="CLIENT", help=f"{', '.join(CLIENTS)}; more than once.")
    ],
    space: SpaceOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Place a copy of a verified skill where a client looks for skills; rye verify watches it."""
    context = person(open_app(project))
    made = link(LinkRequest(name, tuple(clients), space, overwrite), context)
    if as_json:
        print_json({"status": "success", "name": name, "copies": [printable(path) for path in made]})
        return
    for path in made:
        say(f"copied {name} to {printable(path)}")


@skill.command("tool")
def make_tool_of_script(
    name: NameArgument,
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="The path of the script in the skill.")],
    permissions: Annotated[
        str,
        typer.Option(
            "--permissions", metavar="YAML", help="What it may do, such as {project: read}; {} by default."
        ),
    ] = "{}",
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What the tool does.")
    ] = None,
    space: SpaceOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a tool of a script of a skill; it runs once you have signed it, with the whole skill."""
    from rye_mcp.metadata import parse_configuration
    from rye_mcp.verbs.skill_tools import ToolRequest, make_tool

    context = person(open_app(project))
    declared = parse_configuration(permissions.encode(), Path("--permissions"))
    made = make_tool(ToolRequest(name, script, declared, description, space), context)
    if as_json:
        print_json(made.as_dict())
        return
    say(f"wrote {printable(made.file.path)}")
    for remark in made.remarks:
        say(f"  {remark}")
    typer.echo("Read the script, and what the tool may do, then:")
    say(f"  {made.next_command}")


def print_explained(found: ExplainedSkill, in_words: Callable[[Signer | None], str]) -> None:
    """Print what a skill is, who signed it, and what to look at."""
    files = (found.file.skill or NO_FILES).files
    facts = {
        "skill": f"{found.file.item_id}: {found.description or 'without a description'}",
        "state": found.integrity.state,
        "signer": in_words(found.integrity.signer),
        "path": printable(found.file.text_path.parent),
        "locked in": "no lockfile" if found.lock is None else printable(found.lock.path),
    }
    print_facts(facts.items())
    for place in found.shadows:
        say(f"{found.file.item_id} hides one of the {place.space.name} space: {printable(place.path)}")
    for copy in found.copies:
        how = "as it is signed" if copy.differs is None else f"differs in {copy.differs}"
        say(f"{copy.client} has a copy, {how}: {printable(copy.path)}")
    rows = [(path, str(each.size), each.digest[:_SHOWN_DIGITS]) for path, each in sorted(files.items())]
    print_table(("FILE", "BYTES", "SHA256"), rows)
    if found.tools:
        print_table(("TOOL", "SCRIPT", "STATE", "MAY"), [_tool_row(each) for each in found.tools])
    _print_review(found.file.item_id, found.review)


def _tool_row(tool: ScriptTool) -> tuple[str, str, str, str]:
    return tool.item_id, tool.script, tool.integrity.state, tool.declares or ""


def _print_review(name: str, found: Review) -> None:
    if not found.findings:
        say("nothing to look at was found besides the text itself")
        return
    rows = [(each.kind, each.where, each.text) for each in found.findings[:MAX_SHOWN]]
    print_table(("LOOK AT", "WHERE", "FOUND"), rows)
    if len(found.findings) > MAX_SHOWN:
        say(f"and more: {found.summary}; rye skill review {name} --json")


def _print_next(added: Sequence[Added], space: SpaceName) -> None:
    if added:
        typer.echo("Read them, then:")
    for each in added:
        say(f"  rye sign {each.file.item_id}{options_of(ItemType.SKILL, space)}")
