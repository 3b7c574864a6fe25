"""`rye list`: which items there are, where, and what they are for."""

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
from rye_mcp.cli._survey import signer_of, space_of
from rye_mcp.verbs.survey import Surveyed, SurveyRequest, survey

__all__ = ["list_items"]

_DESCRIPTION_WIDTH = 60


def list_items(
    pattern: Annotated[str, pattern_argument("A pattern of ids; by default everything.")] = "*",
    space: SpaceOption = None,
    item_type: AnyTypeOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the items of every space, with who signed them."""
    request = SurveyRequest(pattern, item_type, space)
    context = person(open_app(project))
    result = survey(request, context, tracked=lambda places: tracked(places, "Looking"))
    if as_json:
        print_json(result.as_dict())
    elif result.items:
        rows = [
            (item.item_id, item.item_type, space_of(item), signer_of(item), _about(item))
            for item in result.items
        ]
        red = (number for number, item in enumerate(result.items) if item.integrity.refusal is not None)
        print_table(("ITEM", "TYPE", "SPACE", "SIGNER", "ABOUT"), rows, red=red)
    else:
        typer.echo("there are no items")


def _about(item: Surveyed) -> str:
    """The first line of the description; for what is refused, the reason."""
    if item.integrity.refusal is not None:
        return f"refused: {item.integrity.state}"
    line = item.description.strip().partition("\n")[0]
    return line if len(line) <= _DESCRIPTION_WIDTH else line[: _DESCRIPTION_WIDTH - 1] + "…"
