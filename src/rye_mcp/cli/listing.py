"""`rye list`: which items there are, where, and what they are for.

A pattern leaves out libraries, which only other tools load; a line says how many, and how to see them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rye_mcp.cli._common import (
    AnyTypeOption,
    JsonOption,
    ProjectOption,
    SpaceOption,
    open_app,
    pattern_argument,
    person,
    print_json,
    print_table,
    tracked,
)
from rye_mcp.cli._survey import signers_in_words, space_of
from rye_mcp.verbs.survey import Surveyed, SurveyRequest, survey

__all__ = ["list_items"]

_DESCRIPTION_WIDTH = 60


def list_items(
    pattern: Annotated[str, pattern_argument("A pattern of ids; by default everything.")] = "*",
    space: SpaceOption = None,
    item_type: AnyTypeOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Libraries too, which other tools load.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the items of every space, with who signed them."""
    request = SurveyRequest(pattern, item_type, space, libraries=everything)
    context = person(open_app(project))
    result = survey(request, context, tracked=lambda places: tracked(places, "Looking"))
    if as_json:
        print_json(result.as_dict())
        return
    if result.items:
        in_words = signers_in_words(context)
        rows = [
            (item.item_id, item.item_type, space_of(item), in_words(item.integrity.signer), _about(item))
            for item in result.items
        ]
        red = (number for number, item in enumerate(result.items) if item.integrity.refusal is not None)
        print_table(("ITEM", "TYPE", "SPACE", "SIGNER", "ABOUT"), rows, red=red)
    else:
        typer.echo("there are no items")
    if result.libraries_left_out:
        count = result.libraries_left_out
        typer.echo(f"\nnot shown: {count} that only other tools load (rye list --all)", err=True)


def _about(item: Surveyed) -> str:
    """The first line of the description; for what is refused, the reason."""
    if item.integrity.refusal is not None:
        return f"refused: {item.integrity.state}"
    if item.integrity.listing is not None:
        return f"carried with the tools beside it, by {item.integrity.listing.name}"
    line = item.description.strip().partition("\n")[0]
    return line if len(line) <= _DESCRIPTION_WIDTH else line[: _DESCRIPTION_WIDTH - 1] + "…"
