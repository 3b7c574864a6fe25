"""`rye new`: an item that works, to begin with, and the commands that sign and run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._common import (
    JsonOption,
    ProjectOption,
    TypeOption,
    open_app,
    person,
    print_json,
    visible,
)
from rye_mcp.items import ItemType, SpaceName, printable
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.new import LANGUAGES, NewRequest, NewResult, new

if TYPE_CHECKING:
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.sign import SignResult

__all__ = ["new_item"]


def new_item(
    item_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the new item, such as demo/hello.")],
    language: Annotated[
        str | None,
        typer.Option(
            "--lang", metavar="LANGUAGE", help=f"What a tool is written in: {', '.join(LANGUAGES)}."
        ),
    ] = None,
    item_type: TypeOption = ItemType.TOOL,
    space: Annotated[
        SpaceName, typer.Option("--space", metavar="SPACE", help="Where it goes: project or user.")
    ] = SpaceName.PROJECT,
    signed: Annotated[bool, typer.Option("--sign", help="Sign it at once, with your key.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an item that works, as a start."""
    app = open_app(project)
    context = person(app, as_json=as_json)
    if signed:
        app.keys.show(SignerKind.PERSON)  # without a key nothing is written
    made = new(NewRequest(item_id, item_type, language, space, app.settings.environment), context)
    signature = _sign(made, context) if signed else None
    following = made.commands[signature is not None :]
    if item_type is ItemType.TOOL:
        following = (*following, f"rye test {made.file.item_id}")[:2]
    if as_json:
        answer = made.as_dict() | {"next": list(following)}
        print_json(answer | {"signed": None if signature is None else signature.as_dict()})
        return
    typer.echo(visible(f"wrote {printable(made.file.path)}"))
    if signature is not None:
        signer = signature.item.signer
        typer.echo(visible(f"signed {made.file.item_id} by {signer.owner} ({signer.fingerprint})"))
    for warning in (*made.warnings, *(signature.warnings if signature is not None else ())):
        typer.echo(visible(f"rye: warning: {warning.code}: {warning.message}"), err=True)
    typer.echo("Now:")
    for command in following:
        typer.echo(f"  {visible(command)}")


def _sign(made: NewResult, context: Context) -> SignResult:
    from rye_mcp.verbs.sign import SignRequest, SignResult, sign

    file = made.file  # its very bytes: what stands there by now may be somebody else's
    result = sign(SignRequest(file.item_id, file.item_type, file.space.name, exactly=file), context)
    assert isinstance(result, SignResult)  # noqa: S101 - for the type checker: an id is no pattern
    return result
