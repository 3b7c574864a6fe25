"""What all commands share: their options, how they begin, and how they print.

Rules:

- Every command that works with items takes `--json` and `--project`; what it prints for people, a script gets
  as one JSON object with `--json`.
- Exit codes: 0 done, 1 refused or failed, 2 wrong use, 130 interrupted.
- Colours, the width of a table and bars of progress are for terminals; in a pipe there is plain text.
- A command never takes an agent's part: `person` is the only context that is made here.

    def command(item: ItemArgument, project: ProjectOption = None, as_json: JsonOption = False) -> None:
        app = open_app(project)
        …
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rye_mcp.cli._errors import JSON_WANTED, print_json, report, visible, visible_lines
from rye_mcp.cli._group import EXIT_FAILED, command_group
from rye_mcp.cli._tables import table_lines
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, SpaceName

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.context import Context

__all__ = [
    "EXIT_FAILED",
    "AnyTypeOption",
    "ItemArgument",
    "JsonOption",
    "PatternArgument",
    "ProjectOption",
    "SpaceOption",
    "TypeOption",
    "command_group",
    "open_app",
    "pattern_argument",
    "person",
    "print_json",
    "print_table",
    "report",
    "tracked",
    "visible",
    "visible_lines",
]

LONG_WORK = 200
"""From how many items on progress is shown."""

Element = TypeVar("Element")


def _note_json(ctx: typer.Context, wanted: bool) -> bool:
    ctx.meta[JSON_WANTED] = wanted
    return wanted


def _complete_ids(incomplete: str) -> list[str]:
    """The ids that begin like this, for a shell; nothing when anything is wrong."""
    try:
        spaces = open_app(None).spaces
        places = [
            place
            for space in spaces.accessible()
            for item_type in ItemType
            for place in spaces.list(space.name, item_type).items
        ]
    except (RyeError, OSError):
        return []
    return sorted({place.item_id for place in places if place.item_id.startswith(incomplete)})


JsonOption = Annotated[
    bool, typer.Option("--json", callback=_note_json, help="Print one JSON object instead of text.")
]
ProjectOption = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="The project; by default the nearest one from here up."),
]
TypeOption = Annotated[
    ItemType, typer.Option("--type", metavar="TYPE", help="The type of item: tool, directive or knowledge.")
]
AnyTypeOption = Annotated[
    ItemType | None,
    typer.Option("--type", metavar="TYPE", help="Only items of this type: tool, directive or knowledge."),
]
SpaceOption = Annotated[
    SpaceName | None,
    typer.Option("--space", metavar="SPACE", help="Only this space: project, user or system."),
]
ItemArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="The id of an item, such as demo/hello.", autocompletion=_complete_ids),
]


def pattern_argument(text: str) -> Any:
    """An argument that is an id or a pattern, with this help."""
    return typer.Argument(metavar="ID|GLOB", help=text, autocompletion=_complete_ids, show_default=False)


PatternArgument = Annotated[str, pattern_argument("An id, or a pattern of ids such as 'demo/*'.")]


def open_app(project: Path | None, *, locked: bool = False) -> App:
    """Everything that follows from the options and the surroundings."""
    from rye_mcp.app import App, Settings

    return App.open(Settings.find(project=project, locked=locked))


def person(app: App, *, as_json: bool = False) -> Context:
    """What verbs work with when a person asks; a passphrase is asked for when there is somebody to ask."""
    from rye_mcp.cli._terminal import can_ask
    from rye_mcp.trust.scope import SignerKind

    ask = _ask_passphrase if can_ask(as_json=as_json) else None
    return app.context(SignerKind.PERSON, ask_passphrase=ask)


def _ask_passphrase() -> bytes:
    answer: str = typer.prompt("Passphrase of your private key", hide_input=True, err=True)
    return answer.encode("utf-8", "surrogateescape")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, red: Iterable[int] = ()) -> None:
    """Print rows below headers; those whose numbers are in `red` are what is wrong."""
    cells = [headers, *([visible(cell) for cell in row] for row in rows)]
    if not sys.stdout.isatty():
        typer.echo("\n".join(line for lines in table_lines(cells) for line in lines))
        return
    from rich.cells import cell_len

    styles: dict[int, dict[str, Any]] = {number + 1: {"fg": "red"} for number in red}
    styles[0] = {"bold": True}
    for number, lines in enumerate(table_lines(cells, width=get_terminal_size().columns, measure=cell_len)):
        text = "\n".join(lines)
        typer.echo(typer.style(text, **styles[number]) if number in styles else text)


def tracked(items: Sequence[Element], label: str) -> Iterable[Element]:
    """The items, with a bar on the terminal when there are many of them."""
    if len(items) < LONG_WORK or not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, label, console=Console(stderr=True), transient=True)
