"""`rye sign`: sign an item, or everything that a pattern selects, with your key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED
from rye_mcp.cli._options import JsonOption, PatternArgument, ProjectOption, TypeOption, open_app, person
from rye_mcp.cli._printing import print_json, report, say, tracked, warn
from rye_mcp.cli._terminal import can_ask
from rye_mcp.items import ItemFile, ItemType, SpaceName, printable
from rye_mcp.metadata import parse_metadata
from rye_mcp.verbs.sign import BatchResult, SignRequest, SignResult, lacks_wishes, sign

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["sign_items"]


def sign_items(
    pattern: PatternArgument,
    space: Annotated[
        SpaceName, typer.Option("--space", metavar="SPACE", help="Where the items are: project or user.")
    ] = SpaceName.PROJECT,
    item_type: TypeOption = ItemType.TOOL,
    companions: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="FILE", help="A file beside the tool that it needs; more than once."),
    ] = None,
    all_beside: Annotated[
        bool,
        typer.Option(
            "--all-beside", help="Also sign all that it rests on, even files that you never signed."
        ),
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign an item, or all that match a pattern, with your key.

    A pattern leaves what is validly signed as it is. To vouch for what your agent signed, name it by its id.
    """
    request = SignRequest(pattern, item_type, space, tuple(companions or ()), all_beside=all_beside)
    app = open_app(project)
    context = person(app, as_json=as_json)
    result = sign(request, context, tracked=lambda places: tracked(places, "Signing"))
    failed = isinstance(result, BatchResult) and bool(result.failed)
    if as_json:
        print_json(result.as_dict())
    elif isinstance(result, SignResult):
        _print_signed(result)
    else:
        _print_batch(result)
    if can_ask(as_json=as_json):
        silent = _undeclared(result.signed if isinstance(result, BatchResult) else (result,))
        _warn_of_undeclared(silent)
        if len(silent) == 1:
            _offer_to_learn(silent[0], app)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _undeclared(signed: Iterable[SignResult]) -> list[ItemFile]:
    """The tools that do not say what they may do."""
    files = (each.item.file for each in signed if each.item.file.item_type is ItemType.TOOL)
    said = ((file, parse_metadata(file)) for file in files)
    return [file for file, each in said if each.permissions is None and each.is_run]


def _warn_of_undeclared(silent: Sequence[ItemFile]) -> None:
    """Name the tools that do not say what they may do: they may do whatever the person can."""
    if silent:
        names = ", ".join(file.item_id for file in silent[:5])
        what = f"{names}{f' and {len(silent) - 5} others' if len(silent) > 5 else ''}"
        how = "say what is needed, such as permissions: {project: write}; {} is nothing but to compute"
        warn(f"permissions_undeclared: no limit is declared for {what}: {how}")


def _offer_to_learn(file: ItemFile, app: App) -> None:
    """Ask whether its examples may be run under observation, and print what they need. No file is changed."""
    import anyio

    from rye_mcp.cli._learning import Subject, learn, print_learned
    from rye_mcp.metadata import examples_of

    examples = examples_of(file)
    question = f"Run the examples of {file.item_id} under observation, to see what it needs?"
    if not examples or not typer.confirm(question, default=False, err=True):
        return

    async def learned() -> None:
        async with app.closing():
            print_learned(await learn(Subject(file, None, examples, None), app), as_json=False)

    anyio.run(learned)
    say(f"write this into {printable(file.path)}, and sign it again")


_AS_USUAL = frozenset({"listed", "lock_refreshed", "secrets_named"})
"""Codes of additions that were asked for: not worth a warning."""


def _print_batch(result: BatchResult) -> None:
    for each in result.signed:
        _print_signed(each)
    for failure in result.failed:
        report(failure.error)
    stays = f", {len(result.unchanged)} unchanged" if result.unchanged else ""
    typer.echo(f"{len(result.signed)} of {result.total} signed{stays}")


def _print_signed(result: SignResult) -> None:
    signer = result.item.signer
    say(f"signed {result.item.file.item_id} by {signer.owner} ({signer.fingerprint})")
    for added in result.widened:
        say(f"  new: {added}")
    if lacks_wishes(result.item.file):
        say("  search finds it better if an example has a description, in the words of a user")
    for notice in result.warnings:
        if notice.code in _AS_USUAL:
            say(f"  {notice.message}")
        else:
            warn(f"{notice.code}: {notice.message}")
