"""`rye copy`: put an item into another space, under the same id."""

from __future__ import annotations

from typing import Annotated

import typer

from rye_mcp.cli._common import (
    ItemArgument,
    JsonOption,
    ProjectOption,
    TypeOption,
    open_app,
    person,
    print_json,
    visible,
)
from rye_mcp.items import ItemType, SpaceName, printable
from rye_mcp.verbs.load import LoadRequest, load

__all__ = ["copy"]


def copy(
    item: ItemArgument,
    to: Annotated[
        SpaceName, typer.Option("--to", metavar="SPACE", help="Where the copy goes: project or user.")
    ],
    source: Annotated[
        SpaceName | None,
        typer.Option("--from", metavar="SPACE", help="Where the item is; by default as it would be found."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an item that is there already.")
    ] = False,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy an item to another space; its signature goes with it."""
    request = LoadRequest(item, item_type, source=source, destination=to, overwrite=overwrite)
    result = load(request, person(open_app(project)))
    if as_json:
        print_json(result.as_dict())
        return
    if result.copied_to is not None:
        typer.echo(visible(f"copied {result.file.item_id} to {printable(result.copied_to)}"))
    for warning in result.warnings:
        typer.echo(visible(f"rye: warning: {warning.code}: {warning.message}"), err=True)
