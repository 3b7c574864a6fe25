"""The common part of commands: options, how they open the app for a person, and progress.

def command(item: ItemArgument, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    app = open_app(project)
    …
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rye_mcp.cli._printing import JSON_WANTED
from rye_mcp.close_names import close_names
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.spaces import Spaces

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.context import Context

__all__ = [
    "AnyTypeOption",
    "ItemArgument",
    "JsonOption",
    "LockedTypeOption",
    "PatternArgument",
    "ProjectOption",
    "SpaceOption",
    "TypeOption",
    "close_ids",
    "open_app",
    "pattern_argument",
    "person",
]


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
    ItemType,
    typer.Option("--type", metavar="TYPE", help="The type of item: tool, directive, knowledge or skill."),
]
LockedTypeOption = Annotated[
    ItemType, typer.Option("--type", metavar="TYPE", help="What it is: tool or skill.")
]
AnyTypeOption = Annotated[
    ItemType | None,
    typer.Option(
        "--type", metavar="TYPE", help="Only items of this type: tool, directive, knowledge or skill."
    ),
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
    """Return the context for a person; a passphrase is asked for at a terminal only."""
    from rye_mcp.cli._terminal import can_ask
    from rye_mcp.trust.scope import SignerKind

    ask = _ask_passphrase if can_ask(as_json=as_json) else None
    return app.context(SignerKind.PERSON, ask_passphrase=ask)


def _ask_passphrase() -> bytes:
    answer: str = typer.prompt("Passphrase of your private key", hide_input=True, err=True)
    return answer.encode("utf-8", "surrogateescape")


_LIKENESS: Final = 0.7


@contextmanager
def close_ids(spaces: Spaces) -> Iterator[None]:
    """Where an item is nowhere, name one whose id is like it."""
    try:
        yield
    except RyeError as exc:
        if exc.code == "item_not_found" and (close := _closest(exc, spaces)) is not None:
            exc.hint = f"did you mean {close}?"
        raise


def _closest(error: RyeError, spaces: Spaces) -> str | None:
    asked, kind = error.details.get("item_id"), error.details.get("item_type")
    if not isinstance(asked, str) or kind not in set(ItemType):
        return None
    close = close_names(asked, _ids(spaces, ItemType(kind)), most=5, likeness=_LIKENESS)
    # What is in the same directory begins alike: the name at the end has to be alike by itself.
    return next(
        (each for each in close if close_names(_name(asked), [_name(each)], likeness=_LIKENESS)), None
    )


def _name(item_id: str) -> str:
    return item_id.rpartition("/")[2]


def _ids(spaces: Spaces, item_type: ItemType) -> Iterator[str]:
    for space in spaces.accessible():
        yield from (place.item_id for place in spaces.list(space.name, item_type).items)
