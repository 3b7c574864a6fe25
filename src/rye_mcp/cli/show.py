"""`rye show`: what an item says, and whether it is to be believed.

An item that would be refused is shown too, so that a person can decide about it; what is wrong with it comes
first. On a terminal, control characters are spelled out. With `--content` the file comes out as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from rye_mcp.cli._common import (
    ItemArgument,
    JsonOption,
    ProjectOption,
    SpaceOption,
    TypeOption,
    open_app,
    person,
    print_json,
    report,
    visible,
    visible_lines,
)
from rye_mcp.cli._survey import signers_in_words
from rye_mcp.items import ItemType, printable
from rye_mcp.trust.verify import Signer
from rye_mcp.verbs.load import LoadRequest, LoadResult, load

__all__ = ["show"]


def show(
    item: ItemArgument,
    content: Annotated[bool, typer.Option("--content", help="Print the file, and nothing else.")] = False,
    space: SpaceOption = None,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an item, who signed it, and what it says."""
    context = person(open_app(project))
    result = load(LoadRequest(item, item_type, source=space), context)
    if as_json:
        print_json(result.as_dict())
        return
    if result.integrity.refusal is not None:
        report(result.integrity.refusal)
    if not content:
        for label, text in _facts(result, signers_in_words(context)).items():
            typer.echo(visible(f"{label:<12}{text}"))
        typer.echo()
    if sys.stdout.isatty():
        typer.echo(visible_lines(result.content), nl=not result.content.endswith("\n"))
    else:
        typer.echo(result.file.content, nl=False)


def _facts(result: LoadResult, in_words: Callable[[Signer | None], str]) -> dict[str, str]:
    file, integrity, metadata = result.file, result.integrity, result.metadata
    facts = {
        "item": file.item_id,
        "type": file.item_type.value,
        "space": file.space.name.value,
        "path": printable(file.path),
        "state": integrity.state,
    }
    if integrity.signer is not None:
        facts["signer"] = in_words(integrity.signer)
        facts["hash"] = integrity.digest or ""
    if metadata is not None:
        facts |= {"version": metadata.version, "about": metadata.description.partition("\n")[0]}
        if metadata.executor_id is not None:
            facts["executor"] = metadata.executor_id
    for place in result.shadowed:
        facts["shadows"] = f"{place.space.name}: {printable(place.path)}"
    return facts
