"""`rye run`: run a tool, or get what a directive or a piece of knowledge says.

    rye run [options] ID [--name value …]

Everything after the id belongs to the tool, `--params` and `--help` aside. What the tool prints comes out as
it prints it; with `--json` there is nothing but the result, at its end. Ctrl-C ends the tool and everything
that it started.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rye_mcp.cli._close_ids import close_ids
from rye_mcp.cli._common import (
    EXIT_FAILED,
    ItemArgument,
    JsonOption,
    ProjectOption,
    TypeOption,
    open_app,
    person,
    print_json,
    print_table,
    visible,
    visible_lines,
)
from rye_mcp.cli._group import EXIT_INTERRUPTED, command_group
from rye_mcp.cli._parameters import parse_json_object, parse_parameters
from rye_mcp.cli._results import Live, print_result
from rye_mcp.items import ItemType

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.metadata import ItemMetadata
    from rye_mcp.verbs._context import Context
    from rye_mcp.verbs.execute import ExecuteRequest

__all__ = ["run"]

run = command_group("Run a tool, with its parameters as --name value.")

_PARAMS = "--params"
_HELP = frozenset({"--help", "-h"})
_OWN_OPTIONS = frozenset({"json", "dry-run", "locked", "timeout", "project", "type"})


@run.command(
    "run",
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    },
)
def run_item(
    ctx: typer.Context,
    item: ItemArgument,
    params: Annotated[
        str | None, typer.Option(_PARAMS, metavar="JSON", help="All parameters as JSON; - is standard input.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Less time than the tool itself takes.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    locked: Annotated[bool, typer.Option("--locked", help="Run only what a lockfile has pinned.")] = False,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a tool, with its parameters as --name value."""
    import anyio

    from rye_mcp.verbs.execute import ExecuteRequest

    app = open_app(project, locked=locked)
    context = person(app, as_json=as_json)
    metadata = _verified_metadata(item, item_type, context)
    words, text = _split(ctx.args, params, metadata)
    if _HELP & set(words):
        _explain_parameters(item, metadata)
        return
    schema = metadata.config_schema if item_type is ItemType.TOOL else None
    _look_for_own_options(item, words, schema)
    parameters = {} if text is None else parse_json_object(text, _PARAMS)
    parameters |= parse_parameters(words, schema)
    request = ExecuteRequest(item, item_type, parameters, dry_run=dry_run, timeout=timeout)
    try:
        anyio.run(_run, request, app, context, as_json)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


async def _run(request: ExecuteRequest, app: App, context: Context, as_json: bool) -> None:
    from rye_mcp.executor.primitive_executor import Watch
    from rye_mcp.verbs.execute import execute

    live = Live(quiet=as_json)
    async with app.closing():
        result = await execute(request, context, watch=Watch(on_output=live.show))
    if as_json:
        print_json(result.as_dict(detail=True))
    else:
        print_result(result, live)
    if getattr(result, "success", True) is False:
        raise typer.Exit(EXIT_FAILED)


def _verified_metadata(item: str, item_type: ItemType, context: Context) -> ItemMetadata:
    """What the item says about its parameters, once it has passed the gate."""
    with close_ids(context.spaces):
        found = context.spaces.find(item, item_type)
    return context.metadata(context.verify(found.item))


def _split(words: list[str], params: str | None, metadata: ItemMetadata) -> tuple[list[str], str | None]:
    """The words for the tool, and all parameters as JSON, which may stand after the id too."""
    properties = (metadata.config_schema or {}).get("properties", {})
    rest = list(words)
    if params is None and _PARAMS in rest and _PARAMS.lstrip("-") not in properties:
        at = rest.index(_PARAMS)
        if at + 1 == len(rest):
            raise typer.BadParameter(f"expected JSON or - after {_PARAMS}, found nothing")
        params = rest[at + 1]
        del rest[at : at + 2]
    return rest, sys.stdin.read() if params == "-" else params


def _look_for_own_options(item: str, words: list[str], schema: Mapping[str, Any] | None) -> None:
    """Say it when an option of this command stands where those of the tool do, which has none like it."""
    declared = (schema or {}).get("properties", {})
    for word in words:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--") and name in _OWN_OPTIONS and name.replace("-", "_") not in declared:
            what = f"--{name} behind the id goes to the tool; for rye run, write: rye run --{name} {item}"
            typer.echo(visible(f"rye: note: {what}"), err=True)


def _explain_parameters(item: str, metadata: ItemMetadata) -> None:
    typer.echo(f"Usage: rye run [OPTIONS] {item} [--name value …]\n")
    typer.echo(visible_lines(metadata.description or metadata.name) + "\n")
    schema = metadata.config_schema or {}
    required = set(schema.get("required", ()))
    rows = [
        (
            f"--{name}",
            _kind(each),
            "required" if name in required else _default(each),
            str(each.get("description", "")).partition("\n")[0],
        )
        for name, each in schema.get("properties", {}).items()
        if isinstance(each, Mapping)
    ]
    if rows:
        print_table(("PARAMETER", "TYPE", "DEFAULT", "WHAT IT IS"), rows)
    else:
        typer.echo("It declares no parameters.")


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "")
    choices = schema.get("enum")
    return (
        " | ".join(map(str, choices))
        if choices
        else " | ".join(kind)
        if isinstance(kind, list)
        else str(kind)
    )


def _default(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else "-"
