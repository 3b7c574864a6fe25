"""`rye run`: run a tool, or get what a directive or a piece of knowledge says.

    rye run [options] ID [--name value …]

The options stand before the id or behind it (see `_run_options`); everything else behind it belongs to the
tool, `--help` aside. What the tool prints comes out as it prints it; with `--json` there is nothing but the
result, at its end. Ctrl-C ends the tool and everything that it started.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lilux._dataclasses import dataclass
from rye_mcp.app import Settings
from rye_mcp.cli._command_groups import EXIT_FAILED, EXIT_INTERRUPTED, command_group
from rye_mcp.cli._options import (
    ItemArgument,
    JsonOption,
    ProjectOption,
    TypeOption,
    close_ids,
    open_app,
    person,
)
from rye_mcp.cli._parameters import RunOptions, parse_json_object, parse_parameters
from rye_mcp.cli._printing import JSON_WANTED, Live, print_json, print_result, print_table, report
from rye_mcp.cli._terminal import ask_secret, can_ask
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.secret_store import problem_of_name
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.runs import kill_run
from rye_mcp.visible import visible_lines

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.metadata import ItemMetadata
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.execute import ExecuteRequest

__all__ = [
    "kill",
    "run",
]

run = command_group("Run a tool, with its parameters as --name value.")

_PARAMS = "--params"
_HELP = frozenset({"--help", "-h"})


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
        float | None, typer.Option(metavar="SECONDS", help="A shorter time limit than that of the tool.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    locked: Annotated[
        bool, typer.Option("--locked", help="Run the tool only if a lockfile pins it.")
    ] = False,
    cold: Annotated[
        bool,
        typer.Option(
            "--cold", help="Start an interpreter for this call. Commands always do; a server may reuse one."
        ),
    ] = False,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a tool, with its parameters as --name value."""
    import anyio

    from rye_mcp.verbs.execute import ExecuteRequest

    if item.startswith("-"):
        raise typer.BadParameter(f"expected the id of an item first, found the option {item!r:.80}")
    before = RunOptions(params, timeout, dry_run, locked, item_type, project, as_json, cold)
    found, words = _found(item, before, ctx)
    options, metadata = found.options, found.metadata
    if _HELP & set(words):
        _explain_parameters(item, metadata)
        return
    schema = metadata.config_schema if options.item_type is ItemType.TOOL else None
    text = sys.stdin.read() if options.params == "-" else options.params
    parameters = {} if text is None else parse_json_object(text, _PARAMS)
    parameters |= parse_parameters(words, schema)
    request = ExecuteRequest(
        item, options.item_type, parameters, dry_run=options.dry_run, timeout=options.timeout
    )
    if options.item_type is ItemType.TOOL and not options.dry_run:
        _ask_for_secrets(found)
    try:
        anyio.run(_run, request, found.app, found.context, options.as_json)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


@dataclass(frozen=True)
class _Found:
    """An item that has passed the gate, and the options with which it was looked for."""

    options: RunOptions
    app: App
    context: Context
    metadata: ItemMetadata
    signer: SignerKind


def _found(item: str, before: RunOptions, ctx: typer.Context) -> tuple[_Found, list[str]]:
    """The item; and the words behind its id that are not options of this command."""
    ctx.meta[JSON_WANTED] = before.as_json or "--json" in ctx.args
    may_ask = can_ask(as_json=ctx.meta[JSON_WANTED])
    try:
        found = _look(item, before, may_ask=may_ask)
    except RyeError as exc:
        anything, _ = before.with_those_among(ctx.args, ())
        if anything.which == before.which:
            _log_refusal(item, anything, exc, ctx)
            raise
        found = _look(item, anything, may_ask=may_ask)
    options, words = before.with_those_among(ctx.args, _declared(found.metadata))
    ctx.meta[JSON_WANTED] = options.as_json
    if options.which != found.options.which:
        found = _look(item, options, may_ask=may_ask)
    return replace(found, options=options), words


def _log_refusal(item: str, options: RunOptions, refusal: RyeError, ctx: typer.Context) -> None:
    """Log that this command did not run it: the executor logs only what it is asked for."""
    from rye_mcp.verbs.execute import ExecuteRequest, log_refusal

    if options.item_type is not ItemType.TOOL or options.dry_run or _HELP & set(ctx.args):
        return
    app = open_app(options.project, locked=options.locked)
    log_refusal(ExecuteRequest(item), refusal, person(app, as_json=options.as_json))


def _look(item: str, options: RunOptions, *, may_ask: bool) -> _Found:
    app = open_app(options.project, locked=options.locked)
    context = person(app, as_json=options.as_json)
    with close_ids(context.spaces):
        place = context.spaces.find(item, options.item_type)
    try:
        verified = context.verify(place.item)
    except RyeError as exc:
        if exc.code != "signer_changed" or not may_ask:
            raise
        _ask_about_agents_work(exc)
        context.trust.accept_agents_work(place.item)
        verified = context.verify(place.item)
    return _Found(options, app, context, context.metadata(verified), verified.signer.kind)


def _declared(metadata: ItemMetadata) -> Collection[str]:
    properties = (metadata.config_schema or {}).get("properties")
    return properties if isinstance(properties, Mapping) else ()


async def _run(request: ExecuteRequest, app: App, context: Context, as_json: bool) -> None:
    from rye_mcp.executor.primitive_executor import Watch
    from rye_mcp.verbs.execute import execute

    live = Live(quiet=as_json)
    async with app.closing():
        result = await execute(request, context, watch=Watch(on_output=live.show, on_call=live.on_call))
    if as_json:
        print_json(result.as_dict(detail=True))
    else:
        print_result(result, live)
    if getattr(result, "success", True) is False:
        raise typer.Exit(EXIT_FAILED)


def _ask_about_agents_work(refusal: RyeError) -> None:
    """Whether what an agent signed in place of a person's work may run, as it is; the refusal for a no."""
    report(refusal)
    if not typer.confirm("Run it all the same, from now on, as long as it stays as it is?", err=True):
        raise typer.Exit(EXIT_FAILED)


def _ask_for_secrets(found: _Found) -> None:
    """Ask for the secrets that are missing, once; without a terminal, the executor refuses the call."""
    if found.signer is not SignerKind.PERSON or not can_ask(as_json=found.options.as_json):
        return
    store = found.app.executor().secrets
    for name in store.lacking(found.metadata.named_secrets):
        value = ask_secret(name, as_json=found.options.as_json)
        if value is None or problem_of_name(name):
            continue
        keep = typer.confirm(f"Keep {name} for the next time?", err=True)
        (store.set if keep else store.lend)(name, value)


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


def kill(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run: rye log --status running.")],
    as_json: JsonOption = False,
) -> None:
    """End a run that is going on, wherever it runs.

    The processes that it started get SIGTERM, and 2 s later SIGKILL.
    """
    state = Settings.find().state
    with RunLog(state) as log:
        signal = kill_run(run, log, LiveView(state))
    if as_json:
        print_json({"status": "success", "run_id": run, "signal": signal})
    else:
        typer.echo(f"ended {run} with {signal}")
